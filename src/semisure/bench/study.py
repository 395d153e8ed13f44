"""What every bench gets: options, worker processes, progress and remarks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from semisure.bench import data
from semisure.bench.calibrations import (
    CROSS_VALIDATED,
    OTHERS,
    Calibrations,
    Fit,
    both_laws,
    fit_law,
    folds,
    given,
    is_cross_validated,
    split,
)
from semisure.bench.exported import AnyPair, Exported, Size, export, jobs_of
from semisure.bench.options import (
    CALIBRATION_SIZE,
    Options,
    Protocol,
    protocol_of,
)
from semisure.bench.outcome import where
from semisure.datasets.layouts import is_posed
from semisure.engine import Engine, in_order
from semisure.engine.attempts import Item
from semisure.engine.pool import Answer
from semisure.errors import FileError
from semisure.estimators.settings import RansacSettings
from semisure.io.cache import Row
from semisure.types import Calibration
from semisure.types.display import Begin, quietly


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Task:
    """A pair to be evaluated: its matches, their laws, and from what start."""

    exported: Exported
    calibrations: Calibrations
    matcher: str
    estimator: str
    settings: RansacSettings
    data: str = ""  # its part of a table, where a bench distinguishes parts


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """Options with the processes that carry them out."""

    options: Options
    engine: Engine
    tick: Begin = quietly
    log: list[str] = field(default_factory=list)  # remarks to print below the tables

    def note(self, *remarks: str) -> None:
        """Add remarks, each once."""
        self.log.extend(r for r in dict.fromkeys(remarks) if r not in self.log)

    def changed(self, **options: Any) -> Study:
        """The same study with other options."""
        return replace(self, options=replace(self.options, **options))

    def on(self, roots: Sequence[Path]) -> Study:
        """The same study of some of the folders."""
        return self.changed(data=roots)

    @property
    def protocol(self) -> Protocol:
        """Of the first folder; benches that compare AUC get one protocol at a time."""
        return protocol_of(self.options.data[0])

    def by_truth(self) -> dict[str, Study]:
        """A study of the folders of each protocol, and of those with cameras: depth."""
        posed = [root for root in self.options.data if is_posed(root)]
        parts: dict[str, list[Path]] = {}
        for root in self.options.data:
            if root not in posed:
                parts.setdefault(protocol_of(root), []).append(root)
        kinds = {name: self.on(parts[name]) for name in sorted(parts)}
        return {**kinds, "depth": self.on(posed)} if posed else kinds

    def map(
        self, function: Callable[[Item], Answer], items: Sequence[Item], stage: str
    ) -> list[Answer]:
        """The function over the items by all workers, with progress."""
        return in_order(self.engine, function, items, self.tick(stage))

    def by_matcher(
        self, rows: Sequence[Row] = ()
    ) -> Iterator[tuple[str, str, list[Row]]]:
        """Each matcher, its name in a table, and its rows.

        The name says if its law was fitted to the data themselves.
        """
        for matcher in self.options.matchers:
            fitted_here = is_cross_validated(self.options, matcher)
            label = f"{matcher}{CROSS_VALIDATED}" if fitted_here else matcher
            yield matcher, label, where(rows, matcher=matcher)

    def exported(
        self, matcher: str, size: Size | None = None, *, held_out: bool = False
    ) -> list[Exported]:
        """All pairs of all folders with their matches."""
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

        They do not depend on the data to judge, their size, limit and views; `size` and
        `count` are a bench's own protocol.
        """
        options = self.options
        other = self.changed(
            data=[options.calibrate_on],
            limit=count or options.calibration_pairs,
            size=options.calibration_size or size or CALIBRATION_SIZE,
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
        """Pairs and the size for each, None as they are, with their matches."""
        jobs = jobs_of(self.options, matcher, pairs, for_queries=for_queries)
        answers = in_order(
            self.engine,
            export,
            jobs,
            self.tick(f"Matching, {matcher}"),
            lost=lambda job, why: FileError(
                f"The pair {job.pair.name} ended every process that matched it: "
                f"{why.reason}."
            ),
        )
        exported = [one for one in answers if isinstance(one, Exported)]
        errors = [one for one in answers if isinstance(one, FileError)]
        if errors:
            raise FileError(
                f"{len(errors)} of {len(answers)} pairs cannot be matched; the first "
                f"because: {errors[0]} Correct the data and run again; the other "
                "pairs are kept."
            )
        return exported

    def tasks(
        self, matcher: str, exported: Sequence[Exported], parts: Sequence[str] = ()
    ) -> list[Task]:
        """A task for each pair, with the part of the table that it belongs to."""
        laws = self.calibrations(matcher, exported)
        names = parts or [""] * len(exported)
        return [
            Task(
                exported=pair,
                calibrations=both,
                matcher=matcher,
                estimator=self.options.estimator,
                settings=self.options.ransac(),
                data=name,
            )
            for pair, both, name in zip(exported, laws, names, strict=True)
        ]

    def calibrations(
        self, matcher: str, exported: Sequence[Exported]
    ) -> list[Calibrations]:
        """The calibrations for each pair; a remark says where they are from."""
        options = self.options
        if is_cross_validated(options, matcher):
            self.note(f"{matcher}: {OTHERS}.")
            fold = folds([one.group for one in exported])
            count = int(fold.max()) + 1
            laws = self._both_laws([split(exported, fold, k)[0] for k in range(count)])
            return [laws[k] for k in fold]
        if options.calibration is not None:
            both, remark = given(options.calibration)
        elif options.calibrate_on is not None:
            pairs = self.held_out(matcher)
            (both,), remark = self._both_laws([pairs]), self.calibrated_on(pairs)
        else:
            both = both_laws(matcher)
            remark = "the shipped calibration"
        self.note(f"{matcher}: {remark}.")
        return [both] * len(exported)

    def calibrated_on(self, pairs: Sequence[Exported]) -> str:
        """Which held-out pairs a law was fitted to, for a remark."""
        root = self.options.calibrate_on
        assert root is not None
        at = data.matched_at(pairs[0].size)
        by = f"by {self.options.optimiser}"
        return f"calibrated on {len(pairs)} pairs of {root.name} {at} {by}"

    def laws(self, tasks: Sequence[Fit]) -> list[Calibration]:
        """The laws fitted by all workers."""
        return [law for law, _ in self.map(fit_law, tasks, "Fitting laws")]

    def _both_laws(self, parts: Sequence[Sequence[Exported]]) -> list[Calibrations]:
        """The paper's law and ours fitted to each part."""
        tasks = [
            Fit(exported=part, location=ours, optimiser=self.options.optimiser)
            for part in parts
            for ours in (False, True)
        ]
        fits = self.laws(tasks)
        return [Calibrations(*two) for two in zip(fits[::2], fits[1::2], strict=True)]
