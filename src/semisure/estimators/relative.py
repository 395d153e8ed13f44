"""Relative pose of two calibrated images by the libraries' five-point RANSACs.

===============  ==========  ====================================================
name             library     what runs
===============  ==========  ====================================================
``ransac``       OpenCV      RANSAC; the best minimal sample's model as it is
``lo-ransac``    OpenCV      MSAC with inner and iterative local optimisation
``magsac++``     OpenCV      MAGSAC score with σ-consensus
``poselib``      PoseLib     LO-RANSAC with bundle adjustment (extra ``ransac``)
===============  ==========  ====================================================

The model of an estimate is [R | t], 3 × 4 with ‖t‖ = 1: X₁ = R X₀ + t.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike

from semisure.estimators.settings import (
    LINE_PX,
    RansacSettings,
    by_poselib,
    models_in,
    robust_estimate,
    sample_order,
    usac_params,
)
from semisure.geometry import epipolar
from semisure.types import (
    Estimate,
    FloatArray,
    Mask,
    Matches,
    Matrix3,
    PerMatch,
    Points3,
    Pose,
    as_choice,
)
from semisure.types.matches import require_matches

RELATIVE_ESTIMATORS: tuple[str, ...] = ("ransac", "lo-ransac", "magsac++", "poselib")
# A distance from a line ignores the error along it, so less is allowed than for points.
RELATIVE_SETTINGS = RansacSettings(threshold_px=LINE_PX, max_iterations=2000)


def estimate_relative(
    matches: Matches,
    K0: ArrayLike,
    K1: ArrayLike,
    estimator: str = "poselib",
    settings: RansacSettings | None = None,
) -> Estimate:
    """θ₀ of the matches: [R | t] with its inliers, or the reason for none.

    `K0` and `K1` are 3 × 3 intrinsics in px with pixel centres at integers.

    >>> from semisure.synthetic import SyntheticMatcher
    >>> K = np.array([[500.0, 0, 319.5], [0, 500.0, 239.5], [0, 0, 1]])
    >>> truth = np.column_stack([np.eye(3), [1.0, 0.0, 0.0]])
    >>> matches, _ = SyntheticMatcher().match_views(truth, K, count=500)
    >>> estimate = estimate_relative(matches, K, K, "magsac++")
    >>> bool(np.abs(estimate.model - truth).max() < 0.1)
    True
    """
    require_matches(matches)
    as_choice("estimator", estimator, RELATIVE_ESTIMATORS)
    K0 = epipolar.checked_intrinsics(K0, "K0")
    K1 = epipolar.checked_intrinsics(K1, "K1")
    settings = (settings or RELATIVE_SETTINGS).within(LINE_PX)
    x0, x1 = epipolar.rays(K0, matches.source), epipolar.rays(K1, matches.target)

    def find() -> list[FloatArray]:
        if estimator == "poselib":
            return models_in(_poselib(matches, K0, K1, settings), columns=4)
        if estimator == "ransac":
            E = _ransac(x0, x1, matches.confidence, (K0, K1), settings)
        else:
            source = np.ascontiguousarray(matches.source)
            target = np.ascontiguousarray(matches.target)
            params = usac_params(estimator, settings)
            E, _ = cv2.findEssentialMat(source, target, K0, K1, None, None, params)
        return [
            epipolar.pose_in_front(each, x0, x1, _near(each, x0, x1))
            for each in models_in(E)
        ]

    def inliers_of(P_01: FloatArray) -> Mask:
        # Near the line on the refined side, the point in front of both cameras.
        lines = epipolar.CalibratedViews(P_01, K0, K1).lines(matches)
        z0, z1 = epipolar.depths(P_01, x0, x1)
        near = np.abs(lines.distance) <= settings.threshold
        return np.asarray(near & (z0 > 0) & (z1 > 0))

    n, least = len(matches), epipolar.MINIMAL_SAMPLE
    return robust_estimate(estimator, "relative pose", n, least, find, inliers_of)


def _ransac(
    x0: Points3,
    x1: Points3,
    confidence: PerMatch,
    cameras: tuple[Matrix3, Matrix3],
    settings: RansacSettings,
) -> Any:
    """The essential matrix on a camera of focal length 1."""
    order = sample_order("ransac", confidence, settings)
    focal = np.mean([K[k, k] for K in cameras for k in (0, 1)])
    return cv2.findEssentialMat(
        x0[order, :2],
        x1[order, :2],
        np.eye(3),
        cv2.RANSAC,
        settings.confidence,
        float(settings.threshold / focal),
        settings.max_iterations,
    )[0]


def _near(E: Matrix3, x0: Points3, x1: Points3) -> PerMatch:
    """1 for the half of the matches that fit `E` best, 0 for the rest."""
    line = x0 @ E.T
    length = np.hypot(line[:, 0], line[:, 1])
    distance = np.abs((x1 * line).sum(axis=1)) / np.maximum(length, 1e-300)
    return (distance <= np.median(distance)).astype(np.float64)


def _poselib(
    matches: Matches, K0: Matrix3, K1: Matrix3, settings: RansacSettings
) -> Pose | None:
    # A pinhole's projection does not depend on the image size.
    pinhole = {"model": "PINHOLE", "width": 1, "height": 1}
    cameras = [
        {**pinhole, "params": [K[0, 0], K[1, 1], K[0, 2], K[1, 2]]} for K in (K0, K1)
    ]
    points = matches.source, matches.target
    pose = by_poselib("estimate_relative_pose", settings, *points, *cameras)
    if pose is None or not np.any(pose.t):
        return None
    return np.column_stack([pose.R, pose.t / np.linalg.norm(pose.t)])
