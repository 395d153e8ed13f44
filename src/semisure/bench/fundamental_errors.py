"""One pair with cameras: how good its fundamental matrix is before and after refits.

Nothing but the matches is given to estimator and refits. The true intrinsics then turn
each F into a pose, whose error is that of :mod:`semisure.bench.relative_poses`; where
depth is known, the matches moved to where they should be tell how far F's lines pass
from true correspondences.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semisure.bench.arms import SHIFTED
from semisure.bench.relative_poses import Task
from semisure.bench.true_errors import residual_of
from semisure.datasets.posed import PosedPair
from semisure.estimators import estimate_fundamental
from semisure.geometry import epipolar
from semisure.metrics import pose_error_deg
from semisure.refit.core import without_bias
from semisure.refit.fundamental import FundamentalMethod, refit_fundamental
from semisure.types import Estimate, Matches, Matrix3, Pose

METHODS: tuple[FundamentalMethod, ...] = ("core", "core+")
ARMS = ("base", SHIFTED, *METHODS)
PX = " px"  # after an arm: the median distance of true correspondences from its lines


def evaluate(task: Task) -> dict[str, Any]:
    """A row of pose errors in degrees and distances in px, inf where there is no F."""
    matches, ours = task.exported.matches(), task.calibrations.ours
    start = _estimate(task, matches)
    models = {"base": start.model}
    if ours.location is not None:
        models[SHIFTED] = _estimate(task, without_bias(matches, ours)[0]).model
    refits = {
        method: refit_fundamental(
            matches, task.calibrations.of_arm(method), start, method=method
        )
        for method in METHODS
    }
    models |= {method: refit.model for method, refit in refits.items()}
    return {
        **task.about(matches, start),
        "kept": refits["core+"].reason,  # why core+ kept the start, if it did
        **_errors(task, matches, models),
    }


def _estimate(task: Task, matches: Matches) -> Estimate:
    return estimate_fundamental(matches, task.estimator, task.settings)


def _errors(
    task: Task, matches: Matches, models: dict[str, Matrix3 | None]
) -> dict[str, float]:
    """Of each arm the pose error and, with depth, the distance."""
    pair, limit = task.pair, task.settings.threshold_px
    errors = {
        arm: pose_error_deg(_pose(F, pair, matches, limit), pair.P_01)
        for arm, F in models.items()
    }
    true = _true_correspondences(task, matches)
    if true is not None and len(true):
        errors |= {arm + PX: median_distance(F, true) for arm, F in models.items()}
    return errors


def _pose(
    F: Matrix3 | None, pair: PosedPair, matches: Matches, limit: float
) -> Pose | None:
    """The pose that F and the true intrinsics give, most inliers in front."""
    if F is None:
        return None
    K0, K1 = pair.camera0.K, pair.camera1.K
    rays0, rays1 = epipolar.rays(K0, matches.source), epipolar.rays(K1, matches.target)
    near = np.abs(epipolar.lines_of(F[None], matches).distance) <= limit
    return epipolar.pose_in_front(K1.T @ F @ K0, rays0, rays1, near.astype(np.float64))


def _true_correspondences(task: Task, matches: Matches) -> Matches | None:
    """The matches moved to their truth, those that have one; None without depth."""
    if task.pair.camera0.depth is None or task.pair.camera1.depth is None:
        return None
    residual = residual_of(task.exported, matches)
    seen = np.asarray(np.isfinite(residual).all(axis=1))
    return matches.take(seen).shifted(-residual[seen])


def median_distance(F: Matrix3 | None, true: Matches) -> float:
    """Median distance in px of the refined points from their lines; inf without F."""
    if F is None:
        return float("inf")
    return float(np.median(np.abs(epipolar.lines_of(F[None], true).distance)))
