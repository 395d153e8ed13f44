"""What every bench is given: options, worker processes, progress and remarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from semisure.bench import calibrations, data, matching
from semisure.bench.arms import Calibrations
from semisure.bench.exported import AnyPair, Exported, Size
from semisure.bench.options import Options, Protocol
from semisure.bench.parallel import Answer, Item, Workers
from semisure.bench.row_cache import Call, Row, remembered
from semisure.types import Tick, silent

Stages: TypeAlias = Callable[[str], Tick]  # the tick of each stage, by its name
CALIBRATION_PAIRS = 200  # the paper's


def _silence(stage: str) -> Tick:
    return silent


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """Options with the processes that carry them out."""

    options: Options
    workers: Workers
    tick: Stages = _silence
    log: list[str] = field(default_factory=list)  # remarks for whoever reads numbers

    def note(self, *remarks: str) -> None:
        """Add remarks, each once."""
        self.log.extend(r for r in dict.fromkeys(remarks) if r and r not in self.log)

    def changed(self, **options: Any) -> Study:
        """The same study with other options."""
        return replace(self, options=replace(self.options, **options))

    def on(self, roots: Sequence[Path]) -> Study:
        """The same study of some of the folders."""
        return self.changed(data=roots)

    def by_protocol(self) -> dict[str, Study]:
        """A study of the folders of each protocol, HPatches' first."""
        parts = data.by_protocol(self.options)
        return {name: self.on(roots) for name, roots in parts.items()}

    def divisible(self) -> dict[str, Study]:
        """A study of each kind of data that can be split for cross-validation."""
        parts, remarks = data.divisible(self.options)
        self.note(*remarks)
        return {name: self.on(roots) for name, roots in parts.items()}

    @property
    def protocol(self) -> Protocol:
        """Of the first folder; benches that compare AUC get one protocol at a time."""
        return self.options.protocol_of(self.options.data[0])

    def map(
        self, function: Callable[[Item], Answer], items: Sequence[Item], stage: str
    ) -> list[Answer]:
        """The function over the items by all workers, with progress."""
        return self.workers.map(function, items, self.tick(stage))

    def rows(
        self, function: Callable[[Item], Row], items: Sequence[Item], stage: str
    ) -> list[Row]:
        """The same for rows, which are kept: an interrupted run goes on."""
        calls = [Call(function, item, self.options.cache / "rows") for item in items]
        return self.map(remembered, calls, stage)

    def exported(self, matcher: str, size: Size | None = None) -> list[Exported]:
        """All pairs of all folders with their matches in the cache."""
        options = self.options
        pairs = [
            (pair, size or options.size_of(root))
            for root in options.data
            for pair in data.pairs_of(options, root)
        ]
        return self.matched(matcher, pairs)

    def matched(
        self,
        matcher: str,
        pairs: Sequence[tuple[AnyPair, Size | None]],
        *,
        query_first: bool = False,
    ) -> list[Exported]:
        """Pairs and the size for each, None as they are, with their matches.

        With `query_first` the matcher is turned so that it refines image 0.
        """
        jobs = matching.jobs(self.options, matcher, pairs, query_first=query_first)
        answers = self.map(matching.attempt, jobs, f"Matching, {matcher}")
        keep_going = self.options.keep_going
        exported, remark = matching.readable(answers, keep_going=keep_going)
        self.note(remark)
        return exported

    def calibrations(
        self, matcher: str, exported: Sequence[Exported]
    ) -> tuple[list[Calibrations], str]:
        """The calibrations for each pair, and a sentence on where they are from."""
        root = self.options.calibrate_on
        if root is None or self.options.calibration is not None:
            return calibrations.chosen(self.options, matcher, exported)
        limit = self.options.limit or CALIBRATION_PAIRS
        other = self.changed(data=[root], limit=limit, views=0, calibrate_on=None)
        pairs = other.exported(matcher)
        fitted = calibrations.both_fitted_to(pairs)
        remark = f"{matcher}: calibrated on {len(pairs)} pairs of {root.name}."
        return [fitted] * len(exported), remark
