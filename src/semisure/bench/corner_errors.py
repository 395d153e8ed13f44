"""One pair with a homography: its corner error before and after each refit.

All refits of a pair share its matches, its start and its seed. The corner error is
measured at the size the images were brought to, not rescaled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from semisure.bench.arms import CORE_ARMS, Calibrations
from semisure.bench.exported import Exported
from semisure.estimators import estimate_homography
from semisure.estimators.settings import RansacSettings
from semisure.geometry.homography import project
from semisure.metrics import corner_error
from semisure.refit.planes import refit_homography
from semisure.refit.weights import RefitMethod
from semisure.types import Estimate, Matches, Matrix3


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PairTask:
    """One pair, one estimator, some refits."""

    exported: Exported
    calibrations: Calibrations
    matcher: str
    estimator: str
    settings: RansacSettings
    methods: tuple[RefitMethod, ...] = CORE_ARMS


def start_of(task: PairTask, matches: Matches) -> Estimate:
    """The robust estimate that all refits start from."""
    return estimate_homography(matches, task.estimator, task.settings)


def refitted(
    task: PairTask, matches: Matches, start: Estimate
) -> dict[str, Matrix3 | None]:
    """The homography after each refit."""
    return {
        method: refit_homography(
            matches, task.calibrations.of_arm(method), start, method=method
        ).model
        for method in task.methods
    }


def evaluate(task: PairTask) -> dict[str, Any]:
    """A row of corner errors in px, inf where there is no model."""
    matches = task.exported.matches()
    truth, size = task.exported.H_01, matches.source_size
    start = start_of(task, matches)
    row: dict[str, Any] = {
        "pair": task.exported.name,
        "matcher": task.matcher,
        "estimator": task.estimator,
        "matches": len(matches),
        "inliers": int(start.inliers.sum()),
        "base": corner_error(start.model, truth, size),
    }
    for method, H in refitted(task, matches, start).items():
        row[method] = corner_error(H, truth, size)
    return row


def evaluate_with_inliers(task: PairTask) -> dict[str, Any]:
    """A row of corner errors and inliers before and after each refit."""
    matches = task.exported.matches()
    truth, size = task.exported.H_01, matches.source_size
    start = start_of(task, matches)
    row: dict[str, Any] = {"pair": task.exported.name, "matcher": task.matcher}
    models = {"base": start.model, **refitted(task, matches, start)}
    for arm, H in models.items():
        row[arm] = corner_error(H, truth, size)
        row[f"{arm} inliers"] = inliers(H, matches, task.settings.threshold_px)
    return row


def inliers(H: Matrix3 | None, matches: Matches, threshold_px: float) -> int:
    """Matches within `threshold_px` of the model in image 1."""
    if H is None:
        return 0
    distance = np.linalg.norm(matches.target - project(H, matches.source), axis=1)
    return int((distance <= threshold_px).sum())
