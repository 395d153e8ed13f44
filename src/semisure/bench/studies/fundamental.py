"""Beyond the paper: fundamental matrices of photos without intrinsics, by estimator.

Estimators and refits get the matches only. The true intrinsics then turn each F into a
pose, whose error is that of :mod:`semisure.bench.studies.relative`; where depth is
known, the distance of true correspondences from F's lines is measured too. Images are
matched as they are unless a size is given.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from semisure.bench.calibrations import SHIFTED
from semisure.bench.data import matched_at
from semisure.bench.exported import residual_of
from semisure.bench.outcome import Cell, Lines, Outcome, Table, where
from semisure.bench.studies.homography import auc_lines, gain_lines
from semisure.bench.studies.relative import (
    PAIRS_TAKEN,
    about,
    by_folder,
    posed,
    tasks_of,
)
from semisure.bench.study import Study, Task
from semisure.datasets.posed import PosedPair
from semisure.estimators import estimate_fundamental
from semisure.estimators.fundamental import (
    FUNDAMENTAL_ESTIMATORS,
    FUNDAMENTAL_SETTINGS,
)
from semisure.geometry import epipolar
from semisure.io.cache import Row
from semisure.metrics import pose_error_deg
from semisure.refit.core import without_bias
from semisure.refit.fundamental import FundamentalMethod, refit_fundamental
from semisure.types import Matches, Matrix3, Pose

METHODS: tuple[FundamentalMethod, ...] = ("core", "core+")
ARMS = ("base", SHIFTED, *METHODS)
PX = " px"  # after an arm: the median distance of true correspondences from its lines
THRESHOLDS = (1, 2, 5, 10, 20)  # degrees
DRAWS = 500


def evaluate(task: Task) -> Row:
    """A row of pose errors in degrees and distances in px, inf where there is no F."""
    matches, ours = task.exported.matches(), task.calibrations.ours
    start = estimate_fundamental(matches, task.estimator, task.settings)
    models = {"base": start.model}
    if ours.location is not None:
        shifted, _ = without_bias(matches, ours)
        again = estimate_fundamental(shifted, task.estimator, task.settings)
        models[SHIFTED] = again.model
    reason = None
    for method in METHODS:
        law = task.calibrations.of_arm(method)
        refit = refit_fundamental(matches, law, start, method=method)
        models[method], reason = refit.model, refit.reason
    pair, limit = posed(task), task.settings.threshold
    row = {**about(task, matches, start), "kept": reason}  # why core+ kept the start
    for arm, F in models.items():
        row[arm] = pose_error_deg(pose_of(F, pair, matches, limit), pair.P_01)
    if pair.camera0.depth is not None and pair.camera1.depth is not None:
        residual = residual_of(task.exported, matches)
        finite = np.asarray(np.isfinite(residual).all(axis=1))
        true = matches.take(finite).shifted(-residual[finite])
        if len(true):
            row |= {arm + PX: median_distance(F, true) for arm, F in models.items()}
    return row


def pose_of(
    F: Matrix3 | None, pair: PosedPair, matches: Matches, limit: float
) -> Pose | None:
    """The pose that F and the true intrinsics give, most inliers in front."""
    if F is None:
        return None
    K0, K1 = pair.camera0.K, pair.camera1.K
    rays0, rays1 = epipolar.rays(K0, matches.source), epipolar.rays(K1, matches.target)
    near = np.abs(epipolar.lines_of(F[None], matches).distance) <= limit
    return epipolar.pose_in_front(K1.T @ F @ K0, rays0, rays1, near.astype(np.float64))


def median_distance(F: Matrix3 | None, true: Matches) -> float:
    """Median distance in px of the refined points from their lines; inf without F."""
    if F is None:
        return float("inf")
    return float(np.median(np.abs(epipolar.lines_of(F[None], true).distance)))


def fundamental(study: Study) -> Outcome:
    """By matcher, folder and estimator; of several folders, all together too."""
    options = study.options
    settings = options.ransac(FUNDAMENTAL_SETTINGS)
    tasks = tasks_of(study, settings, FUNDAMENTAL_ESTIMATORS)
    rows = study.map(evaluate, tasks, "Fundamental matrices")
    printed: Lines = []
    gained: Lines = []
    for _, label, mine in study.by_matcher(rows):
        for data, part in by_folder(mine).items():
            for name in FUNDAMENTAL_ESTIMATORS:
                group = where(part, estimator=name)
                printed += arm_lines(f"{label}, {data}, {name}", group)
                gained += _gains(f"{label}, {data}, {name}", group, options.seed)
    study.note(
        f"Inliers within {settings.threshold:g} px of their line; images "
        f"{matched_at(options.size)}. {PAIRS_TAKEN}"
    )
    heads = [f"@{t}°" for t in THRESHOLDS]
    tables = [
        Table(
            name="fundamental",
            title="Fundamental matrices: pose AUC (%), median distance of true "
            "correspondences (px, then °, over pairs)",
            head=["", "arm", *heads, "px", "°", "pairs"],
            rows=printed,
        ),
        Table(
            name="fundamental_gain",
            title="fundamental: gain of AUC (%), change of the median px, ± standard "
            f"error of {DRAWS} draws of the pairs",
            head=["", "arm", *heads, "px", "pairs"],
            rows=gained,
        ),
    ]
    return Outcome(tables=tables, rows=rows)


def arm_lines(name: str, rows: Sequence[Row]) -> Lines:
    """AUC of each arm that the pairs have, then both medians."""
    lines: Lines = []
    arms = [arm for arm in ARMS if rows and arm in rows[0]]
    for arm, line in zip(arms, auc_lines(name, rows, THRESHOLDS, arms), strict=True):
        *areas, pairs = line
        far = [row[arm + PX] for row in rows if arm + PX in row]
        px: Cell = float(np.median(far)) if far else None
        degrees = float(np.median([row[arm] for row in rows]))
        lines.append([*areas, px, degrees, pairs])
    return lines


def _gains(name: str, rows: Sequence[Row], seed: int) -> Lines:
    """What core and core+ gain over the base, with standard errors over the pairs."""
    lines: Lines = []
    for *areas, pairs in gain_lines(name, rows, THRESHOLDS, seed):
        far = [row for row in rows if f"base{PX}" in row]
        lines.append([*areas, change_px(far, str(areas[1]), seed), pairs])
    return lines


def change_px(rows: Sequence[Row], arm: str, seed: int) -> str | None:
    """Change of the median distance by an arm, ± its standard error."""
    if not rows:
        return None
    both = np.array([[row[f"base{PX}"], row[arm + PX]] for row in rows])
    rng = np.random.default_rng(seed)
    drawn = both[rng.integers(0, len(both), (DRAWS, len(both)))]
    with np.errstate(invalid="ignore"):  # where most pairs have no F
        change = np.subtract(*np.median(both, axis=0)[::-1])
        spread = np.diff(np.median(drawn, axis=1), axis=1).std()
    return f"{change:+.3f} ± {spread:.3f}"
