"""What every bench is given: options, worker processes, progress and remarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from semisure.bench import calibrations, data, matching
from semisure.bench.arms import Calibrations
from semisure.bench.cross_validation import fold_of, outside, validated
from semisure.bench.exported import AnyPair, Exported, Size
from semisure.bench.law_fits import FitTask, calibration_of, fitted
from semisure.bench.options import CALIBRATION_SIZE, Options, Protocol
from semisure.bench.row_cache import Call, Row, remembered
from semisure.engine import Engine, in_order
from semisure.engine.pool import Answer, Item
from semisure.types import Calibration, Tick, silent

Stages: TypeAlias = Callable[[str], Tick]  # the tick of each stage, by its name


def _silence(stage: str) -> Tick:
    return silent


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """Options with the processes that carry them out."""

    options: Options
    engine: Engine
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

    def by_truth(self) -> dict[str, Study]:
        """A study of the folders of each protocol, and of those with cameras: depth."""
        parts = data.by_truth(self.options)
        return {name: self.on(roots) for name, roots in parts.items()}

    def kinds(self) -> dict[str, Study]:
        """A study of each kind of data whose matches' true errors are known.

        Where laws are neither given nor fitted to other data, only those that can be
        split for cross-validation.
        """
        if (
            self.options.calibration is not None
            or self.options.calibrate_on is not None
        ):
            return self.by_truth()
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
        return in_order(self.engine, function, items, self.tick(stage))

    def rows(
        self, function: Callable[[Item], Row], items: Sequence[Item], stage: str
    ) -> list[Row]:
        """The same for rows, which are kept: an interrupted run goes on."""
        calls = [Call(function, item, self.options.cache / "rows") for item in items]
        return self.map(remembered, calls, stage)

    def exported(
        self, matcher: str, size: Size | None = None, *, held_out: bool = False
    ) -> list[Exported]:
        """All pairs of all folders with their matches in the cache."""
        options = self.options
        pairs = [
            (pair, size or options.size_of(root))
            for root in options.data
            for pair in data.pairs_of(options, root, held_out=held_out)
        ]
        return self.matched(matcher, pairs)

    def held_out(
        self, matcher: str, size: Size | None = None, count: int | None = None
    ) -> list[Exported]:
        """The pairs to calibrate on: the paper's number, at the paper's size.

        What the bench is judged on, `--size`, `--protocol`, `--limit` and `--views`
        with it, does not change them; `size` and `count` are a bench's own protocol.
        """
        options, root = self.options, self.options.calibrate_on
        assert root is not None
        other = self.changed(
            data=[root],
            limit=count or options.calibration_pairs,
            size=options.calibration_size or size or CALIBRATION_SIZE,
            protocol=None,
            views=0,
            calibrate_on=None,
        )
        return other.exported(matcher, held_out=True)

    def matched(
        self,
        matcher: str,
        pairs: Sequence[tuple[AnyPair, Size | None]],
        *,
        for_queries: bool = False,
    ) -> list[Exported]:
        """Pairs and the size for each, None as they are, with their matches.

        For queries the matcher is turned so that it refines image 0, and images keep
        their orientation: the size is turned for those taller than wide.
        """
        jobs = matching.jobs(self.options, matcher, pairs, for_queries=for_queries)
        tick = self.tick(f"Matching, {matcher}")
        answers = in_order(
            self.engine, matching.attempt, jobs, tick, lost=matching.lost
        )
        allowed = len(jobs) if self.options.keep_going else self.options.max_failures
        exported, remark = matching.readable(answers, allowed=allowed)
        self.note(remark)
        return exported

    def label(self, matcher: str) -> str:
        """The matcher's name for a row; it says if its law was fitted to these data."""
        source = calibrations.source_of(self.options, matcher)
        return calibrations.labelled(matcher, source)

    def calibrations(
        self, matcher: str, exported: Sequence[Exported]
    ) -> tuple[list[Calibrations], str]:
        """The calibrations for each pair, and a sentence on where they are from."""
        source = calibrations.source_of(self.options, matcher)
        if source == "held out":
            pairs = self.held_out(matcher)
            (both,) = self.both_laws([pairs])
            return [both] * len(exported), f"{matcher}: {self.calibrated_on(pairs)}."
        if source == "cross-validated":
            remark = (
                f"{matcher}: fitted on the other sequences ({validated(exported)})."
            )
            return self._cross_validated(exported), remark
        both, remark = calibrations.unfitted(self.options, matcher)
        return [both] * len(exported), remark

    def calibrated_on(self, pairs: Sequence[Exported]) -> str:
        """What held-out pairs a law was fitted to, for a remark."""
        root, size = self.options.calibrate_on, pairs[0].size
        assert root is not None
        at = data.matched_at(size)
        by = f"by {self.options.optimiser}"
        return f"calibrated on {len(pairs)} pairs of {root.name} {at} {by}"

    def laws(self, tasks: Sequence[FitTask]) -> list[Calibration]:
        """The laws fitted by all workers, each made once and kept."""
        rows = self.rows(fitted, tasks, "Fitting laws")
        return [calibration_of(row) for row in rows]

    def both_laws(self, parts: Sequence[Sequence[Exported]]) -> list[Calibrations]:
        """The paper's law and ours fitted to each part."""
        tasks = [
            FitTask(exported=part, location=ours, optimiser=self.options.optimiser)
            for part in parts
            for ours in (False, True)
        ]
        fits = self.laws(tasks)
        return [Calibrations(*two) for two in zip(fits[::2], fits[1::2], strict=True)]

    def _cross_validated(self, exported: Sequence[Exported]) -> list[Calibrations]:
        """Both laws for each pair, fitted to the sequences that do not hold it."""
        fold = fold_of(exported)
        places = sorted(set(fold.tolist()))
        parts = self.both_laws([outside(exported, fold, k) for k in places])
        by_fold = dict(zip(places, parts, strict=True))
        return [by_fold[k] for k in fold.tolist()]
