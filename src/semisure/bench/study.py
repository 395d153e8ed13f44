"""What every bench is given: options, worker processes, progress and remarks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeAlias

from semisure.bench import data
from semisure.bench.calibrations import (
    Calibrations,
    Fit,
    fitted,
    fold_of,
    labelled,
    outside,
    source_of,
    unfitted,
    validated,
)
from semisure.bench.exported import AnyPair, Exported, Size, export, jobs_of, lost
from semisure.bench.options import CALIBRATION_SIZE, Options, Protocol
from semisure.engine import Engine, in_order
from semisure.engine.pool import Answer, Item
from semisure.errors import FileError
from semisure.io.cache import Row, digest, kept_row, key_of, sources_of
from semisure.types import Calibration, Tick, silent

Stages: TypeAlias = Callable[[str], Tick]  # the tick of each stage, by its name
_PACKAGES = (
    "numpy",
    "scipy",
    "opencv-python-headless",
    "poselib",
    "pycolmap",
)


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
        options = self.options
        if options.calibration is not None or options.calibrate_on is not None:
            return self.by_truth()
        parts, remarks = data.divisible(options)
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
        calls = [_Call(function, item, self.options.cache / "rows") for item in items]
        return self.map(_kept, calls, stage)

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

        What the bench is judged on, its size, protocol, limit and views with it, does
        not change them; `size` and `count` are a bench's own protocol.
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
        their orientation: the size is turned for those taller than wide. Pairs that
        cannot be matched are an error unless the user wants to keep going.
        """
        jobs = jobs_of(self.options, matcher, pairs, for_queries=for_queries)
        tick = self.tick(f"Matching, {matcher}")
        answers = in_order(self.engine, export, jobs, tick, lost=lost)
        exported = [one for one in answers if isinstance(one, Exported)]
        errors = dict.fromkeys(str(e) for e in answers if isinstance(e, FileError))
        if not errors:
            return exported
        count = f"{len(answers) - len(exported)} of {len(answers)} pairs"
        if not self.options.keep_going or not exported:
            raise FileError(
                f"{count} cannot be matched; the first because: {next(iter(errors))} "
                "Mend the data, or leave such pairs out with keep_going = true; the "
                "matches of the others are kept."
            )
        self.note(f"{count} are left out: {' '.join(errors)}")
        return exported

    def label(self, matcher: str) -> str:
        """The matcher's name for a row; it says if its law was fitted to these data."""
        return labelled(matcher, source_of(self.options, matcher))

    def calibrations(
        self, matcher: str, exported: Sequence[Exported]
    ) -> tuple[list[Calibrations], str]:
        """The calibrations for each pair, and a sentence on where they are from."""
        source = source_of(self.options, matcher)
        if source == "held out":
            pairs = self.held_out(matcher)
            (both,) = self._both_laws([pairs])
            return [both] * len(exported), f"{matcher}: {self.calibrated_on(pairs)}."
        if source == "cross-validated":
            remark = (
                f"{matcher}: fitted on the other sequences ({validated(exported)})."
            )
            return self._cross_validated(exported), remark
        both, remark = unfitted(self.options, matcher)
        return [both] * len(exported), remark

    def calibrated_on(self, pairs: Sequence[Exported]) -> str:
        """What held-out pairs a law was fitted to, for a remark."""
        root = self.options.calibrate_on
        assert root is not None
        at = data.matched_at(pairs[0].size)
        by = f"by {self.options.optimiser}"
        return f"calibrated on {len(pairs)} pairs of {root.name} {at} {by}"

    def laws(self, tasks: Sequence[Fit]) -> list[Calibration]:
        """The laws fitted by all workers, each made once and kept."""
        rows = self.rows(fitted, tasks, "Fitting laws")
        return [Calibration(**row) for row in rows]

    def _both_laws(self, parts: Sequence[Sequence[Exported]]) -> list[Calibrations]:
        """The paper's law and ours fitted to each part."""
        tasks = [
            Fit(exported=part, location=ours, optimiser=self.options.optimiser)
            for part in parts
            for ours in (False, True)
        ]
        fits = self.laws(tasks)
        return [Calibrations(*two) for two in zip(fits[::2], fits[1::2], strict=True)]

    def _cross_validated(self, exported: Sequence[Exported]) -> list[Calibrations]:
        """Both laws for each pair, fitted to the sequences that do not hold it."""
        fold = fold_of(exported)
        places = sorted(set(fold.tolist()))
        parts = self._both_laws([outside(exported, fold, k) for k in places])
        by_fold = dict(zip(places, parts, strict=True))
        return [by_fold[k] for k in fold.tolist()]


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """A function of one argument whose row is kept in a folder."""

    function: Callable[[Any], Row]
    argument: Any
    folder: Path


def _kept(call: _Call) -> Row:
    """The row from its file, named by the function, its argument and its code."""
    module = call.function.__module__
    key = key_of(module, call.function.__qualname__, _code(module), call.argument)
    return kept_row(call.folder / f"{key}.json", lambda: call.function(call.argument))


@lru_cache(maxsize=64)
def _code(module: str) -> list[str]:
    """The source that a module runs, and the versions of the libraries that compute."""
    return [digest(sources_of(module)), *map(_version, _PACKAGES)]


def _version(package: str) -> str:
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return package
