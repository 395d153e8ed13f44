"""Relative poses by OpenCV's findEssentialMat."""

from __future__ import annotations

import cv2
import numpy as np

from semisure.estimators.relative import inliers_of
from semisure.estimators.settings import RansacSettings
from semisure.estimators.usac import seeded_order, usac_params
from semisure.geometry import epipolar
from semisure.types import Matches, Matrix3, PerMatch, Points3, Pose


def estimate(
    matches: Matches,
    K0: Matrix3,
    K1: Matrix3,
    name: str,
    settings: RansacSettings,
) -> Pose | None:
    """[R | t] by OpenCV, or None."""
    x0, x1 = epipolar.rays(K0, matches.source), epipolar.rays(K1, matches.target)
    try:
        if name == "ransac":
            order = seeded_order(len(x0), settings)
            focal = np.mean([K0[0, 0], K0[1, 1], K1[0, 0], K1[1, 1]])
            E, _ = cv2.findEssentialMat(
                x0[order, :2],
                x1[order, :2],
                np.eye(3),
                cv2.RANSAC,
                settings.confidence,
                float(settings.threshold_px / focal),
                settings.max_iterations,
            )
        else:
            params = usac_params(name, settings)
            points = (
                np.ascontiguousarray(matches.source),
                np.ascontiguousarray(matches.target),
            )
            E, _ = cv2.findEssentialMat(*points, K0, K1, None, None, params)
    except cv2.error:
        # Degenerate point sets trip assertions inside OpenCV's solvers.
        return None
    if E is None or E.shape[0] < 3 or not np.isfinite(E).all():
        return None
    # Five matches may leave several matrices, stacked; the rest must choose.
    stacked = np.asarray(E, dtype=np.float64).reshape(-1, 3, 3)
    candidates = [
        epipolar.pose_in_front(each, x0, x1, _near(each, x0, x1)) for each in stacked
    ]
    limit = settings.threshold_px
    return max(candidates, key=lambda P: inliers_of(P, matches, K0, K1, limit).sum())


def _near(E: Matrix3, x0: Points3, x1: Points3) -> PerMatch:
    """1 for the half of the matches that fit `E` best, 0 for the rest."""
    line = x0 @ E.T
    length = np.hypot(line[:, 0], line[:, 1])
    distance = np.abs((x1 * line).sum(axis=1)) / np.maximum(length, 1e-300)
    return (distance <= np.median(distance)).astype(np.float64)
