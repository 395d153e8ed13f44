"""What every bench is given: the pairs, the exported matches, the calibrations."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from semisure.bench import Entry
from semisure.bench.depth import depth_residual
from semisure.bench.match_cache import Exported, Job, Setup, attempt
from semisure.bench.options import Options, Protocol
from semisure.bench.parallel import Answer, Item, Tick, Workers
from semisure.bench.row_cache import Call, Row, remembered
from semisure.bench.views import of_photos, with_views
from semisure.calibration import fit
from semisure.datasets.layouts import (
    has_depth,
    is_map,
    is_photos,
    is_planar,
    is_posed,
    read_pairs,
    read_posed_pairs,
)
from semisure.datasets.posed import PosedPair
from semisure.errors import FileError, InputError
from semisure.geometry.homography import residual
from semisure.io.files import SHIPPED, load_calibration
from semisure.io.images import find_images
from semisure.matchers import fingerprint
from semisure.types import Calibration, FloatArray, IntArray, LawName, Matches, Pair

Entries = TypeVar("Entries")
FOLDS = 5
CALIBRATION_PAIRS = 200  # the paper's
# A video's pairs repeat each other: of a list at most these, evenly, by default.
LIST_PAIRS = 110


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """Options with the processes that carry them out."""

    options: Options
    workers: Workers
    tick: Callable[[str], Tick] = field(default=lambda _: lambda done, total: None)
    log: list[str] = field(default_factory=list)  # remarks for whoever reads numbers

    def note(self, remark: str) -> None:
        if remark not in self.log:
            self.log.append(remark)

    def on(self, roots: Sequence[Path]) -> Study:
        """The same study of some of the folders."""
        return replace(self, options=replace(self.options, data=roots))

    def fit_for(self, entry: Entry) -> Study:
        """The study without the folders that a bench cannot use."""
        unfit: dict[str, list[Path]] = {}
        chosen = []
        for root in self.options.data:
            reason = self._unfit(root, entry)
            if reason:
                unfit.setdefault(reason, []).append(root)
            else:
                chosen.append(root)
        if not chosen:
            said = "; ".join(_told(reason, roots) for reason, roots in unfit.items())
            raise InputError(f"The bench {entry.name} needs {entry.needs}, but {said}.")
        fit = self.on(chosen)
        if entry.truth == "homography" and not entry.protocols:
            fit = next(iter(fit.by_protocol().values()))
            others = [root for root in chosen if root not in fit.options.data]
            if others:
                unfit["another protocol, give --protocol or the folder alone"] = others
        for reason, roots in unfit.items():
            self.note(f"Left out, {_told(reason, roots)}.")
        return fit

    def _unfit(self, root: Path, entry: Entry) -> str:
        """Why a folder cannot be used; "" if it can."""
        planar = is_planar(root) or is_photos(root)
        if entry.truth == "homography":
            return "" if planar else "no homographies"
        if entry.truth == "pose":
            return "" if is_posed(root) else "no cameras"
        if entry.truth == "map":
            return "" if is_map(root) else "no map to localise in"
        if planar or (is_posed(root) and has_depth(read_pairs(root))):
            return ""
        return "no depth, so the matches' true errors are unknown"

    def by_protocol(self) -> dict[str, Study]:
        """The folders of each protocol, HPatches' first."""
        of: dict[str, list[Path]] = {}
        for root in self.options.data:
            of.setdefault(self.options.protocol_of(root), []).append(root)
        return {name: self.on(of[name]) for name in sorted(of)}

    def by_truth(self) -> dict[str, Study]:
        """The folders of each protocol, and those of cameras and depth."""
        posed = [root for root in self.options.data if is_posed(root)]
        planar = [root for root in self.options.data if root not in posed]
        parts: dict[str, Study] = {}
        if planar:
            parts.update(self.on(planar).by_protocol())
        if posed:
            parts["depth"] = self.on(posed)
        return parts

    @property
    def protocol(self) -> Protocol:
        """Of the first folder; benches that compare AUC are given one at a time."""
        return self.options.protocol_of(self.options.data[0])

    def pairs(
        self, root: Path, *, min_angle_deg: float = 0.0
    ) -> Sequence[Pair | PosedPair]:
        """The pairs of a folder; a limit takes them evenly.

        The bound on the triangulation angle holds for lists, which state it.
        """
        limit, views = self.options.limit, self.options.views
        made = self.options.seed, self.options.cache / "views"
        if is_photos(root):
            some = tuple(evenly(find_images(root), limit))
            return of_photos(some, max(1, views), *made)
        if limit is None and (root / "pairs.csv").is_file():
            limit = LIST_PAIRS
        if is_posed(root):
            return evenly(read_posed_pairs(root, min_angle_deg=min_angle_deg), limit)
        pairs = evenly(read_pairs(root), limit)
        return with_views(pairs, views, *made) if views else pairs

    def exported(
        self, matcher: str, size: tuple[int, int] | None = None
    ) -> list[Exported]:
        """All pairs of all folders with their matches in the cache."""
        asked = [
            (pair, size or self.options.size_of(root))
            for root in self.options.data
            for pair in self.pairs(root)
        ]
        return self.matched(matcher, asked)

    def matched(
        self,
        matcher: str,
        asked: Sequence[tuple[Pair | PosedPair, tuple[int, int] | None]],
        *,
        query_first: bool = False,
    ) -> list[Exported]:
        """Pairs and the size for each, None as they are, with their matches.

        With `query_first` the matcher is turned so that it refines image 0.
        """
        options = self.options
        known = repr(fingerprint(matcher, options.weights))
        jobs = []
        for pair, size in asked:
            setup = Setup(
                matcher=matcher,
                size=size,
                query_first=query_first,
                max_side=options.max_side,
                weights=options.weights,
                device=options.device,
            )
            jobs.append(
                Job(pair=pair, setup=setup, cache=options.cache, fingerprint=known)
            )
        return self._sound(self.map(attempt, jobs, f"Matching, {matcher}"))

    def _sound(self, found: Sequence[Exported | FileError]) -> list[Exported]:
        """Those that could be matched, if the user is content with them."""
        sound = [one for one in found if isinstance(one, Exported)]
        lost = dict.fromkeys(str(e) for e in found if isinstance(e, FileError))
        if not lost:
            return sound
        count = f"{len(found) - len(sound)} of {len(found)} pairs"
        if not self.options.keep_going or not sound:
            raise FileError(
                f"{count} cannot be matched; the first because: {next(iter(lost))} "
                "Mend the data, or leave such pairs out with --keep-going; the matches "
                "of the others are kept."
            )
        self.note(f"{count} are left out: {' '.join(lost)}")
        return sound

    def map(
        self, function: Callable[[Item], Answer], items: Sequence[Item], what: str
    ) -> list[Answer]:
        """The function over the items by all workers, with progress."""
        return self.workers.map(function, items, self.tick(what))

    def rows(
        self, function: Callable[[Item], Row], items: Sequence[Item], what: str
    ) -> list[Row]:
        """The same for rows, which are kept: an interrupted run goes on."""
        calls = [Call(function, item, self.options.cache / "rows") for item in items]
        return self.map(remembered, calls, what)

    def calibrations(
        self, matcher: str, exported: Sequence[Exported]
    ) -> tuple[list[Calibrations], str]:
        """The laws for each pair, and a sentence on where they are from."""
        given, source = self.options.calibration, self.options.calibrate_on
        if given is not None:
            ours = load_calibration(given)
            paper = replace(ours, location=None)
            said = f"{matcher}: calibration {Path(given).name}, location off for core."
            return [Calibrations(paper, ours)] * len(exported), said
        if source is not None:
            made, said = self._calibrated_on(matcher, source)
            return [made] * len(exported), said
        if (SHIPPED / f"{matcher}.json").exists():
            ours = load_calibration(matcher)
            faithful = f"{matcher}-faithful"
            there = (SHIPPED / f"{faithful}.json").exists()
            paper = load_calibration(faithful) if there else ours
            said = (
                f"{matcher}: the shipped calibration, from random views of photos; "
                "nothing was fitted to these pairs."
            )
            return [Calibrations(paper, ours)] * len(exported), said
        fold = folds([e.group for e in exported], FOLDS)
        pairs = [with_truth(e) for e in exported]
        by_fold = {}
        for k in sorted(set(fold.tolist())):
            rest = [p for p, f in zip(pairs, fold, strict=True) if f != k]
            by_fold[k] = Calibrations.fitted(rest)
        said = (
            f"{matcher}: no shipped calibration; fitted on the other sequences "
            f"({validated(exported)})."
        )
        return [by_fold[k] for k in fold.tolist()], said

    def _calibrated_on(self, matcher: str, root: Path) -> tuple[Calibrations, str]:
        """The paper's protocol: one fit to the pairs of another data set."""
        if root in self.options.data:
            raise InputError(
                f"--calibrate-on must be another folder than --data, but both are "
                f"{root}."
            )
        limit = self.options.limit or CALIBRATION_PAIRS
        chosen = replace(self.on([root]).options, limit=limit, views=0)
        exported = replace(self, options=chosen).exported(matcher)
        made = Calibrations.fitted([with_truth(e) for e in exported])
        said = f"{matcher}: calibrated on {len(exported)} pairs of {root.name}."
        return made, said


def evenly(entries: Sequence[Entries], limit: int | None) -> Sequence[Entries]:
    """No more than `limit` of them, taken evenly.

    >>> evenly("abcdefg", 3)
    ['a', 'c', 'e']
    """
    if limit is None or limit >= len(entries):
        return entries
    if limit < 1:
        raise InputError(f"limit must be at least 1, but is {limit}.")
    return [entries[k * len(entries) // limit] for k in range(limit)]


def _told(reason: str, roots: Sequence[Path]) -> str:
    return f"{reason}: {', '.join(root.name for root in roots)}"


@dataclass(frozen=True, slots=True)
class Calibrations:
    """The paper's law and ours, which may have a location."""

    paper: Calibration
    ours: Calibration

    @classmethod
    def fitted(cls, pairs: Sequence[tuple[Matches, FloatArray]]) -> Calibrations:
        """Both fitted to matches with their true residuals."""
        return cls(cross_fit(pairs), cross_fit(pairs, location=True))


def with_truth(exported: Exported) -> tuple[Matches, FloatArray]:
    """The matches with a finite true residual, and those residuals."""
    matches = exported.matches()
    r = residual_of(exported, matches)
    kept = np.asarray(np.isfinite(r).all(axis=1))
    return matches.take(kept), r[kept]


def residual_of(exported: Exported, matches: Matches) -> FloatArray:
    """True residuals (n, 2) px of any matches of the pair; NaN where unknown."""
    if isinstance(exported.truth, PosedPair):
        return depth_residual(exported.truth, matches)
    return residual(exported.H_01, matches)


def cross_fit(
    pairs: Sequence[tuple[Matches, FloatArray]],
    *,
    law: LawName = "mixture",
    location: bool = False,
) -> Calibration:
    """A calibration fitted on `pairs`."""
    return fit(pairs, law=law, location=location)[0]


def validated(exported: Sequence[Exported]) -> str:
    """How laws fitted on the same data are judged, for a remark."""
    count = min(FOLDS, len({e.group for e in exported}))
    return f"{count}-fold cross-validation by sequence or scene"


def folds(groups: Sequence[str], count: int) -> IntArray:
    """The fold (n,) of each pair: groups stay whole, dealt out by their digest.

    >>> folds(["a", "a", "b"], 5).tolist()
    [1, 1, 0]
    """
    names = sorted(set(groups), key=lambda g: hashlib.sha256(g.encode()).digest())
    if len(names) < 2:
        raise InputError(
            f"Cross-validation needs pairs of at least 2 sequences, but got "
            f"{len(names)}; give a calibration file instead."
        )
    place = {name: k % count for k, name in enumerate(names)}
    return np.array([place[g] for g in groups], dtype=np.int64)
