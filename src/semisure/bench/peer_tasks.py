"""One pair as somebody else's matcher sees it: a robust estimate and its error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from semisure.bench.exported import Exported
from semisure.datasets.posed import PosedPair
from semisure.estimators import estimate_homography
from semisure.estimators.relative import estimate_relative
from semisure.estimators.settings import RansacSettings
from semisure.metrics import corner_error, pose_error_deg


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PeerTask:
    """One pair, one estimator; there are no cues, so there is nothing to refit by."""

    exported: Exported
    peer: str
    estimator: str
    settings: RansacSettings


def evaluate(task: PeerTask) -> dict[str, Any]:
    """A row with the corner error in px, or with cameras the pose error in degrees."""
    matches, truth = task.exported.matches(), task.exported.truth
    if isinstance(truth, PosedPair):
        K = truth.camera0.K, truth.camera1.K
        start = estimate_relative(matches, *K, task.estimator, task.settings)
        error = pose_error_deg(start.model, truth.P_01)
    else:
        assert isinstance(truth, np.ndarray)
        start = estimate_homography(matches, task.estimator, task.settings)
        error = corner_error(start.model, truth, matches.source_size)
    return {
        "pair": task.exported.name,
        "matcher": task.peer,
        "estimator": task.estimator,
        "matches": len(matches),
        "inliers": int(start.inliers.sum()),
        "base": error,
    }
