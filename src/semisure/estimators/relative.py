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

import cv2
import numpy as np
from numpy.typing import ArrayLike

from semisure.estimators.settings import (
    RansacSettings,
    poselib_with,
    robust_estimate,
    sample_order,
    sound,
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
RELATIVE_SETTINGS = RansacSettings(threshold_px=1.0, max_iterations=2000)


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
    settings = settings or RELATIVE_SETTINGS

    def find() -> FloatArray | None:
        if estimator == "poselib":
            return _poselib(matches, K0, K1, settings)
        return _opencv(matches, K0, K1, estimator, settings)

    return robust_estimate(
        estimator,
        "relative pose",
        len(matches),
        epipolar.MINIMAL_SAMPLE,
        find,
        lambda P_01: _inliers(P_01, matches, K0, K1, settings),
    )


def _inliers(
    P_01: Pose, matches: Matches, K0: Matrix3, K1: Matrix3, settings: RansacSettings
) -> Mask:
    """Near the line on the refined side, with the point in front of both cameras."""
    lines = epipolar.CalibratedViews(P_01, K0, K1).lines(matches)
    x0, x1 = epipolar.rays(K0, matches.source), epipolar.rays(K1, matches.target)
    z0, z1 = epipolar.depths(P_01, x0, x1)
    near = np.abs(lines.distance) <= settings.threshold_px
    return np.asarray(near & (z0 > 0) & (z1 > 0))


def _opencv(
    matches: Matches, K0: Matrix3, K1: Matrix3, name: str, settings: RansacSettings
) -> Pose | None:
    x0, x1 = epipolar.rays(K0, matches.source), epipolar.rays(K1, matches.target)
    if name == "ransac":
        order = sample_order(name, matches.confidence, settings)
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
        source = np.ascontiguousarray(matches.source)
        target = np.ascontiguousarray(matches.target)
        params = usac_params(name, settings)
        E, _ = cv2.findEssentialMat(source, target, K0, K1, None, None, params)
    stacked = sound(E)
    if stacked is None or len(stacked) < 3:
        return None
    # Five matches may leave several matrices, stacked; the rest must choose.
    candidates = [
        epipolar.pose_in_front(each, x0, x1, _near(each, x0, x1))
        for each in stacked.reshape(-1, 3, 3)
    ]
    return max(
        candidates, key=lambda P_01: _inliers(P_01, matches, K0, K1, settings).sum()
    )


def _near(E: Matrix3, x0: Points3, x1: Points3) -> PerMatch:
    """1 for the half of the matches that fit `E` best, 0 for the rest."""
    line = x0 @ E.T
    length = np.hypot(line[:, 0], line[:, 1])
    distance = np.abs((x1 * line).sum(axis=1)) / np.maximum(length, 1e-300)
    return (distance <= np.median(distance)).astype(np.float64)


def _poselib(
    matches: Matches, K0: Matrix3, K1: Matrix3, settings: RansacSettings
) -> Pose | None:
    poselib, options = poselib_with(settings, "max_epipolar_error")
    # Sizes play no part in a pinhole's projection.
    pinhole = {"model": "PINHOLE", "width": 1, "height": 1}
    cameras = [
        {**pinhole, "params": [K[0, 0], K[1, 1], K[0, 2], K[1, 2]]} for K in (K0, K1)
    ]
    pose, info = poselib.estimate_relative_pose(
        matches.source, matches.target, *cameras, options, {}
    )
    if not info["num_inliers"]:
        return None
    P_01 = sound(np.column_stack([pose.R, pose.t]))
    if P_01 is None or not P_01[:, 3].any():
        return None
    P_01[:, 3] /= np.linalg.norm(P_01[:, 3])
    return P_01
