"""Supplement B.4: relative pose before and after each refit, by pose AUC.

The error of a pair is the larger of the angles of rotation and of translation
direction. All arms of a pair start from the same estimate on the same matches: the
paper's with its zero-mean law, ``core+`` with ours, which may have a location. ``base −
shift`` is the estimator on matches less that location: what of our gain is the
location's alone. The ``depth-`` arms, the paper's, are given each point's true depth
and the baseline's length, and have the pairs with depth only. Images are matched as
they are unless a size is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from semisure.bench.calibrations import SHIFTED, Calibrations
from semisure.bench.data import labels, matched_at, pairs_of
from semisure.bench.exported import AnyPair, Exported, images_of
from semisure.bench.outcome import Outcome, Table, where
from semisure.bench.studies.homography import Lines, auc_panels
from semisure.bench.study import Study
from semisure.datasets.layouts import MIN_OVERLAP
from semisure.datasets.posed import PosedPair, depth_at
from semisure.errors import InputError
from semisure.estimators.relative import (
    RELATIVE_ESTIMATORS,
    RELATIVE_SETTINGS,
    estimate_relative,
)
from semisure.estimators.settings import RansacSettings
from semisure.io.cache import Row
from semisure.metrics import auc, auc_gain, pose_error_deg
from semisure.refit.core import without_bias
from semisure.refit.relative import RelativeMethod, refit_relative
from semisure.types import Estimate, Matches, PerMatch, as_choice

METHODS: tuple[RelativeMethod, ...] = (
    "core",
    "core-lines",
    "core+",
    "depth-huber",
    "depth-core",
)
ARMS = ("base", SHIFTED, *METHODS)
MIN_ANGLE_DEG = 5.0  # of triangulation, where the list of pairs states it
PAIRS_TAKEN = (
    f"Of lists, pairs with overlap ≥ {MIN_OVERLAP:g} and triangulation angle ≥ "
    f"{MIN_ANGLE_DEG:g}°."
)
THRESHOLDS = (1, 3, 5, 10, 20)  # degrees; the paper's but the last
GAIN, ERROR = "core+ − base", "± standard error"
DRAWS = 500
# Tab. of the supplement (tab:relative_pose): EfficientLoFTR, as all of the supplement
# unless it says otherwise, on MegaDepth-1500, pose AUC at 1, 3, 5, 10°; no estimator is
# named. The last two know depth and baseline.
PAPER_PAIRS = 1500
PAPER: dict[str, tuple[float, ...]] = {
    "base": (8.06, 28.52, 41.81, 60.42),
    "core": (8.91, 21.32, 28.51, 38.98),
    "depth-huber": (12.14, 28.87, 38.58, 52.48),
    "depth-core": (26.42, 45.94, 54.24, 64.75),
}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PosedTask:
    """One pair with cameras and one estimator."""

    exported: Exported
    calibrations: Calibrations
    matcher: str
    data: str
    estimator: str
    settings: RansacSettings

    @property
    def pair(self) -> PosedPair:
        """The cameras of the images as they were matched."""
        assert isinstance(self.exported.truth, PosedPair)
        return self.exported.truth

    def about(self, matches: Matches, start: Estimate) -> Row:
        """The columns that say what a row is about."""
        return {
            "pair": self.exported.name,
            "data": self.data,
            "matcher": self.matcher,
            "estimator": self.estimator,
            "threshold_px": self.settings.threshold_px,
            "matches": len(matches),
            "inliers": int(start.inliers.sum()),
        }


def tasks_of(
    study: Study, settings: RansacSettings, estimators: Iterable[str]
) -> tuple[list[PosedTask], list[str]]:
    """The pairs of all folders by matcher and estimator, and remarks.

    Remarks say which folders have no pair to offer, and where calibrations are from.
    """
    pairs, remarks = pairs_by_folder(study)
    data = {images_of(pair): name for name, some in pairs.items() for pair in some}
    every = [(pair, study.options.size) for some in pairs.values() for pair in some]
    tasks: list[PosedTask] = []
    for matcher in study.options.matchers:
        exported = study.matched(matcher, every)
        calibrations, remark = study.calibrations(matcher, exported)
        remarks.append(remark)
        tasks += [
            PosedTask(
                exported=pair,
                calibrations=both,
                matcher=matcher,
                data=data[pair.images],
                estimator="",
                settings=settings,
            )
            for pair, both in zip(exported, calibrations, strict=True)
        ]
    return [replace(t, estimator=name) for name in estimators for t in tasks], remarks


def pairs_by_folder(study: Study) -> tuple[dict[str, Sequence[AnyPair]], list[str]]:
    """The pairs of each folder that has some, and a remark on those without."""
    options = study.options
    pairs = {
        name: pairs_of(options, root, min_angle_deg=MIN_ANGLE_DEG)
        for name, root in zip(labels(options.data), options.data, strict=True)
    }
    none = [name for name, some in pairs.items() if not some]
    lacking = f"no pair of enough overlap and angle: {', '.join(none)}."
    if len(none) == len(pairs):
        raise InputError(f"There is {lacking}")
    kept = {name: some for name, some in pairs.items() if some}
    return kept, [f"Left out, {lacking}"] if none else []


def by_folder(rows: Sequence[Row]) -> dict[str, Sequence[Row]]:
    """The rows of each folder, and, of several, all of them together.

    >>> list(by_folder([{"data": "a"}, {"data": "b"}]))
    ['a', 'b', 'all']
    """
    names = list(dict.fromkeys(row["data"] for row in rows))
    folders: dict[str, Sequence[Row]] = {name: where(rows, data=name) for name in names}
    return {**folders, "all": rows} if len(names) > 1 else folders


def evaluate(task: PosedTask) -> Row:
    """A row of pose errors in degrees, inf where there is no pose."""
    matches, ours = task.exported.matches(), task.calibrations.ours
    start = _estimate(task, matches)
    row = {**task.about(matches, start), "base": _error(task, start)}
    if ours.location is not None:
        shifted, _ = without_bias(matches, ours)
        row[SHIFTED] = _error(task, _estimate(task, shifted))
    return row | _refits(task, matches, start)


def _estimate(task: PosedTask, matches: Matches) -> Estimate:
    K = task.pair.camera0.K, task.pair.camera1.K
    return estimate_relative(matches, *K, task.estimator, task.settings)


def _error(task: PosedTask, estimate: Estimate) -> float:
    return pose_error_deg(estimate.model, task.pair.P_01)


def _refits(task: PosedTask, matches: Matches, start: Estimate) -> dict[str, float]:
    """The error after each refit."""
    pair = task.pair
    depth = anchor_depth(pair, matches)
    baseline = float(np.linalg.norm(pair.P_01[:, 3]))
    errors: dict[str, float] = {}
    for method in METHODS:
        if depth is None and method.startswith("depth"):
            continue
        refit = refit_relative(
            matches,
            task.calibrations.of_arm(method),
            start,
            pair.camera0.K,
            pair.camera1.K,
            method=method,
            depth=depth,
            baseline=baseline,
        )
        errors[method] = pose_error_deg(refit.model, pair.P_01)
    return errors


def anchor_depth(pair: PosedPair, matches: Matches) -> PerMatch | None:
    """Depth of each match's unrefined point; None where an image has none."""
    z0 = depth_at(pair.camera0, matches.source, matches.source_size)
    z1 = depth_at(pair.camera1, matches.target, matches.target_size)
    return None if z0 is None or z1 is None else np.where(matches.side == 1, z0, z1)


def relative(study: Study) -> Outcome:
    """By matcher and folder, and of all folders together."""
    options = study.options
    settings = options.ransac(RELATIVE_SETTINGS)
    as_choice(
        "The estimator of a relative pose", options.estimator, RELATIVE_ESTIMATORS
    )
    tasks, notes = tasks_of(study, settings, [options.estimator])
    rows = study.rows(evaluate, tasks, "Relative poses")
    name = "EfficientLoFTR, MegaDepth-1500, paper"
    printed: Lines = [  # the paper has no 20° and no median
        [name, arm, *numbers, None, None, PAPER_PAIRS] for arm, numbers in PAPER.items()
    ]
    for matcher in options.matchers:
        for name, mine in by_folder(where(rows, matcher=matcher)).items():
            printed += block(f"{study.label(matcher)}, {name}", mine, options.seed)
    notes.append(
        f"Inliers within {settings.threshold_px:g} px of their line, at most "
        f"{settings.max_iterations} samples; images {matched_at(options.size)}. "
        f"{PAIRS_TAKEN} Standard errors: {DRAWS} draws of the pairs, both arms alike."
    )
    table = Table(
        name="relative",
        title=f"Relative-pose AUC (%) after {options.estimator}; the paper's: "
        "supplement B.4, MegaDepth-1500",
        head=["", "arm", *(f"@{t}°" for t in THRESHOLDS), "median °", "pairs"],
        rows=printed,
    )
    panels = auc_panels(printed, THRESHOLDS, "threshold, degrees", ARMS)
    return Outcome(tables=[table], rows=rows, figures={"relative": panels}, notes=notes)


def block(name: str, rows: Sequence[Row], seed: int) -> Lines:
    """A line for each arm that any pair has, then our gain and its standard error."""
    printed: Lines = []
    for arm in ARMS:
        errors = [row[arm] for row in rows if arm in row]
        if errors:
            areas = (100.0 * area for area in auc(errors, THRESHOLDS))
            middle = float(np.median(errors))
            printed.append([name, arm, *areas, middle, len(errors)])
    base, ours = (np.array([row[arm] for row in rows]) for arm in ("base", "core+"))
    mean, spread = auc_gain(base, ours, THRESHOLDS, seed, DRAWS)
    printed.append([name, GAIN, *(100.0 * mean).tolist(), None, len(rows)])
    printed.append([name, ERROR, *(100.0 * spread).tolist(), None, len(rows)])
    return printed
