"""What every bench is given: the pairs, the exported matches, the calibrations."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from semisure.bench import WITHOUT_HOMOGRAPHY
from semisure.bench.depth import depth_residual
from semisure.bench.export import Exported, Job, Setup, export
from semisure.bench.parallel import Answer, Item, Tick, Workers
from semisure.calibrate import fit
from semisure.datasets.folders import read_homographies
from semisure.datasets.megadepth import read_megadepth
from semisure.datasets.posed import PosedPair, read_posed
from semisure.errors import InputError
from semisure.estimators.settings import RansacSettings
from semisure.files import SHIPPED, load_calibration
from semisure.geometry.homography import residual
from semisure.matchers import check_name, fingerprint
from semisure.types import Calibration, FloatArray, IntArray, LawName, Matches, Pair

Protocol = Literal["hpatches", "mtv"]
PROTOCOLS: tuple[str, ...] = get_args(Protocol)
SIZES: dict[str, tuple[int, int]] = {"hpatches": (1280, 960), "mtv": (960, 640)}
THRESHOLDS: dict[str, tuple[int, ...]] = {
    "hpatches": (1, 3, 5, 10),
    "mtv": (10, 30, 50, 100),
}
FOLDS = 5
MIN_OVERLAP = 0.3  # of posed pairs, where their list states it


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user asked for."""

    data: Sequence[Path]
    matchers: Sequence[str] = ("daisy",)
    protocol: Protocol = "hpatches"
    size: tuple[int, int] | None = None  # None: the paper's for the protocol
    max_side: int | None = None
    weights: Path | None = None
    device: str | None = None
    estimator: str = "ransac"  # the paper's
    threshold_px: float | None = None  # None: the bench's own
    calibration: str | None = None  # a file; None: shipped, else cross-validated
    cache: Path = Path("semisure-cache")
    limit: int | None = None  # of pairs
    seed: int = 0

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise InputError(
                f"protocol must be one of {', '.join(PROTOCOLS)}, but is "
                f"{self.protocol!r}."
            )
        for name in self.matchers:
            check_name(name)
        if not self.matchers:
            raise InputError("A bench needs at least one matcher.")

    @property
    def image_size(self) -> tuple[int, int]:
        return self.size or SIZES[self.protocol]

    @property
    def thresholds(self) -> tuple[int, ...]:
        return THRESHOLDS[self.protocol]

    def ransac(self, usual: RansacSettings | None = None) -> RansacSettings:
        """The usual settings with our seed and, where one was given, the threshold."""
        settings = replace(usual or RansacSettings(), seed=self.seed)
        if self.threshold_px is None:
            return settings
        return replace(settings, threshold_px=self.threshold_px)


@dataclass(frozen=True, slots=True, eq=False)
class Study:
    """Options with the processes that carry them out."""

    options: Options
    workers: Workers
    tick: Callable[[str], Tick] = field(default=lambda _: lambda done, total: None)

    def pairs(self, *, posed: bool = False) -> list[Pair | PosedPair]:
        """All pairs of all folders; a limit takes them evenly from each folder.

        Posed pairs have no homography, and only what needs none asks for them.
        """
        return [p for root in self.options.data for p in self._pairs_of(root, posed)]

    def _pairs_of(self, root: Path, posed: bool) -> Sequence[Pair | PosedPair]:
        if is_posed(root) and not posed:
            raise InputError(
                f"{root} holds cameras, not homographies; only the benches "
                f"{', '.join((*WITHOUT_HOMOGRAPHY, 'relative'))} can use it."
            )
        pairs: Sequence[Pair | PosedPair] = (
            read_posed_pairs(root) if is_posed(root) else read_homographies(root)
        )
        limit = self.options.limit
        if limit is None or limit >= len(pairs):
            return pairs
        if limit < 1:
            raise InputError(f"limit must be at least 1, but is {limit}.")
        return [pairs[k * len(pairs) // limit] for k in range(limit)]

    def exported(
        self,
        matcher: str,
        size: tuple[int, int] | None = None,
        *,
        posed: bool = False,
    ) -> list[Exported]:
        """The pairs with their matches in the cache."""
        options = self.options
        setup = Setup(
            matcher=matcher,
            size=size or options.image_size,
            max_side=options.max_side,
            weights=options.weights,
            device=options.device,
        )
        known = fingerprint(matcher, options.weights)
        jobs = [
            Job(pair=p, setup=setup, cache=options.cache, fingerprint=repr(known))
            for p in self.pairs(posed=posed)
        ]
        return self.map(export, jobs, f"Matching, {matcher}")

    def map(
        self, function: Callable[[Item], Answer], items: Sequence[Item], what: str
    ) -> list[Answer]:
        """The function over the items by all workers, with progress."""
        return self.workers.map(function, items, self.tick(what))

    def calibrations(
        self, matcher: str, exported: Sequence[Exported]
    ) -> tuple[list[Calibrations], str]:
        """The laws for each pair, and a sentence on where they are from."""
        given = self.options.calibration
        if given is not None:
            ours = load_calibration(given)
            paper = replace(ours, location=None)
            said = f"{matcher}: calibration {Path(given).name}, location off for core."
            return [Calibrations(paper, ours)] * len(exported), said
        if (SHIPPED / f"{matcher}.json").exists():
            ours = load_calibration(matcher)
            faithful = f"{matcher}-faithful"
            there = (SHIPPED / f"{faithful}.json").exists()
            paper = load_calibration(faithful) if there else ours
            said = (
                f"{matcher}: the shipped calibration, from random views of other "
                "photos; nothing was fitted to this data."
            )
            return [Calibrations(paper, ours)] * len(exported), said
        fold = folds([e.group for e in exported], FOLDS)
        pairs = [with_truth(e) for e in exported]
        by_fold = {}
        for k in sorted(set(fold.tolist())):
            rest = [p for p, f in zip(pairs, fold, strict=True) if f != k]
            paper, ours = (cross_fit(rest, location=at) for at in (False, True))
            by_fold[k] = Calibrations(paper, ours)
        said = (
            f"{matcher}: no shipped calibration; fitted on the other sequences "
            f"({validated(exported)})."
        )
        return [by_fold[k] for k in fold.tolist()], said


@dataclass(frozen=True, slots=True)
class Calibrations:
    """The paper's law and ours, which may have a location."""

    paper: Calibration
    ours: Calibration


def with_truth(exported: Exported) -> tuple[Matches, FloatArray]:
    """The matches with a finite true residual, and those residuals."""
    matches = exported.matches()
    if isinstance(exported.truth, PosedPair):
        r = depth_residual(exported.truth, matches)
    else:
        r = residual(exported.H_01, matches)
    kept = np.asarray(np.isfinite(r).all(axis=1))
    return matches.take(kept), r[kept]


def is_posed(root: Path) -> bool:
    """True for folders of cameras, and for MegaDepth's index."""
    return (
        (root / "cameras.txt").is_file()
        or (root / "new-vis-pairs").is_dir()
        or any(root.glob("scene_info/*.npz"))
    )


def read_posed_pairs(root: Path, *, min_angle_deg: float = 0.0) -> list[PosedPair]:
    """The pairs of a folder of cameras, those of lists with some overlap only."""
    if any(root.glob("scene_info/*.npz")):
        return read_megadepth(root)
    return read_posed(root, min_overlap=MIN_OVERLAP, min_angle_deg=min_angle_deg)


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
