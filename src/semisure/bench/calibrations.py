"""The two laws that benches compare, where they come from, and how they are fitted.

The paper's law has no location, ours may have one. A law fitted with a location is
never the paper's, not even without it: its other parameters were fitted under another
objective. Both laws are, in this order:

* given as files;
* fitted to the pairs of another folder, ``calibrate_on``: the paper's protocol;
* shipped with the matcher;
* fitted to the other sequences of the same data; table rows are then labelled.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from semisure.bench.exported import Exported, with_truth
from semisure.bench.options import Options
from semisure.errors import InputError
from semisure.io.files import is_shipped, load_calibration
from semisure.law.fit_law import FitReport, Optimiser, fit
from semisure.refit.weights import RefitMethod
from semisure.types import Calibration, Labels, LawName

Some = TypeVar("Some")
CORE_ARMS: tuple[RefitMethod, ...] = ("core", "core+")
SHIFTED = "base − shift"  # the estimator on matches less their location
# After the name of a law: its twin, fitted to the same pairs without location.
FAITHFUL = "-faithful"
CROSS_VALIDATED = " (law fitted on these data, cross-validated)"  # after a matcher
OTHERS = "fitted on the other sequences or scenes"  # for a remark
FOLDS = 5
# Laws that need an optimiser; the others have closed forms.
_SEARCHED: tuple[LawName, ...] = ("mixture", "gaussian", "no_confidence_gate")


@dataclass(frozen=True, slots=True)
class Calibrations:
    """The paper's law, and ours, which may have a location."""

    paper: Calibration
    ours: Calibration

    def of_arm(self, arm: str) -> Calibration:
        """Ours for core+; the paper's for core and all weights of its ablation."""
        return self.ours if arm == "core+" else self.paper


def both_laws(name: str) -> Calibrations:
    """A law by file or shipped name, and the paper's: itself if it has no location.

    Otherwise it is the law's twin, ``NAME-faithful`` beside it.
    """
    ours = load_calibration(name)
    if ours.location is None:
        return Calibrations(ours, ours)
    twin = _twin(name)
    if not (Path(twin).is_file() or (is_shipped(twin) and not Path(name).is_file())):
        raise InputError(
            f"{name} was fitted with a location, which the paper's law does not have: "
            f"put a law fitted without --location beside it, as {Path(twin).name}, or "
            "give --calibrate-on FOLDER instead, which fits both."
        )
    paper = load_calibration(twin)
    if paper.location is not None:
        raise InputError(
            f"{twin} must be a law without a location; fit it without --location."
        )
    return Calibrations(paper, ours)


def _twin(name: str) -> str:
    """The paper's law beside a law.

    >>> _twin("daisy"), _twin("mine/daisy.json")
    ('daisy-faithful', 'mine/daisy-faithful.json')
    """
    path = Path(name)
    return str(path.with_stem(f"{path.stem}{FAITHFUL}"))


def given(name: str) -> tuple[Calibrations, str]:
    """Both laws by the user's file, and a remark on which file serves which arm."""
    both, files = both_laws(name), Path(name).name
    if both.paper is not both.ours:
        files += f" for core+, {Path(_twin(name)).name} for the paper's arms"
    return both, f"calibration {files}"


def is_cross_validated(options: Options, matcher: str) -> bool:
    """Whether the laws of a matcher are fitted and judged on the same data."""
    source = options.calibration or options.calibrate_on
    return source is None and (options.cross_validate or not is_shipped(matcher))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Fit:
    """A law to be fitted to some pairs."""

    exported: Sequence[Exported]
    law: LawName = "mixture"
    location: bool = False
    optimiser: Optimiser = "newton"


def fit_law(task: Fit) -> tuple[Calibration, FitReport]:
    """The law, and how it was fitted: one with a location, ours, by Newton's method."""
    searched = task.law in _SEARCHED and not task.location
    return fit(
        [with_truth(one) for one in task.exported],
        law=task.law,
        location=task.location,
        optimiser=task.optimiser if searched else "newton",
    )


def folds(groups: Sequence[str], count: int = FOLDS) -> Labels:
    """The fold of each pair: groups stay whole, dealt out by their digest.

    >>> folds(["a", "a", "b"]).tolist()
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


def halves(groups: Sequence[str]) -> Labels:
    """0 or 1 for each pair: groups stay whole, each goes to the smaller half.

    >>> halves(["a", "b", "b", "b", "c"]).tolist()
    [1, 0, 0, 0, 1]
    """
    size = Counter(groups)
    total, place = [0, 0], {}
    for name in sorted(size, key=lambda name: (-size[name], name)):
        place[name] = int(total[1] < total[0])
        total[place[name]] += size[name]
    return np.array([place[name] for name in groups], dtype=np.int64)


def split(pairs: Sequence[Some], fold: Labels, k: int) -> tuple[list[Some], list[Some]]:
    """The pairs of all other folds, to fit to, and those of fold `k`, to judge on."""
    others = [pair for pair, f in zip(pairs, fold, strict=True) if f != k]
    return others, [pair for pair, f in zip(pairs, fold, strict=True) if f == k]
