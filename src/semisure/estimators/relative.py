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

import numpy as np
from numpy.typing import ArrayLike

from semisure.errors import InputError, MissingExtraError
from semisure.estimators.settings import RansacSettings, failure
from semisure.geometry import epipolar
from semisure.types import BoolArray, Estimate, FloatArray, Matches

RELATIVE_ESTIMATORS: tuple[str, ...] = ("ransac", "lo-ransac", "magsac++", "poselib")
# Lines forgive more than points: what is usual for essential matrices.
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
    """
    if estimator not in RELATIVE_ESTIMATORS:
        raise InputError(
            f"estimator must be one of {', '.join(RELATIVE_ESTIMATORS)}, "
            f"but is {estimator!r}."
        )
    K0, K1 = (
        epipolar.checked_intrinsics(K, name) for K, name in ((K0, "K0"), (K1, "K1"))
    )
    settings = settings or RELATIVE_SETTINGS
    n, least = len(matches), epipolar.MINIMAL_SAMPLE
    if n < least:
        found = f"only {n} matches" if n else "no matches"
        return failure(n, estimator, f"{found}, a relative pose needs {least}")
    run = _poselib if estimator == "poselib" else _opencv
    P_01 = run(matches, K0, K1, estimator, settings)
    if P_01 is None:
        return failure(n, estimator, "no model was consistent with enough matches")
    inliers = _inliers(P_01, matches, K0, K1, settings.threshold_px)
    if inliers.sum() < least:
        reason = f"the model found has fewer than {least} inliers"
        return failure(n, estimator, reason)
    return Estimate(model=P_01, inliers=inliers, estimator=estimator)


def _inliers(
    P_01: FloatArray, matches: Matches, K0: FloatArray, K1: FloatArray, limit: float
) -> BoolArray:
    """Within `limit` px of the line, with the point in front of both cameras.

    Recomputed by us, on the refined side: libraries mean different distances by it.
    """
    lines = epipolar.epipolar_lines(P_01, matches, K0, K1)
    x0, x1 = epipolar.rays(K0, matches.source), epipolar.rays(K1, matches.target)
    z0, z1 = epipolar.depths(P_01, x0, x1)
    return (np.abs(lines.distance) <= limit) & (z0 > 0) & (z1 > 0)


def _opencv(
    matches: Matches,
    K0: FloatArray,
    K1: FloatArray,
    name: str,
    settings: RansacSettings,
) -> FloatArray | None:
    import cv2

    from semisure.estimators.opencv import usac_params

    x0, x1 = epipolar.rays(K0, matches.source), epipolar.rays(K1, matches.target)
    try:
        if name == "ransac":
            order = np.arange(len(x0))
            if settings.seed:  # it is seeded by the order alone
                order = np.random.default_rng(settings.seed).permutation(order)
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
    return max(candidates, key=lambda P: _inliers(P, matches, K0, K1, limit).sum())


def _near(E: FloatArray, x0: FloatArray, x1: FloatArray) -> FloatArray:
    """1 for the half of the matches that fit `E` best, 0 for the rest."""
    line = x0 @ E.T
    length = np.hypot(line[:, 0], line[:, 1])
    distance = np.abs((x1 * line).sum(axis=1)) / np.maximum(length, 1e-300)
    return (distance <= np.median(distance)).astype(np.float64)


def _poselib(
    matches: Matches,
    K0: FloatArray,
    K1: FloatArray,
    name: str,
    settings: RansacSettings,
) -> FloatArray | None:
    try:
        import poselib
    except ImportError:
        raise MissingExtraError("poselib", "ransac", "PoseLib's RANSAC") from None
    known = dict(poselib.RansacOptions())
    # It ignores unknown names in silence, and the threshold's was changed.
    threshold = "max_epipolar_error" if "max_epipolar_error" in known else "max_error"
    options = {
        threshold: settings.threshold_px,
        "max_iterations": settings.max_iterations,
        "min_iterations": min(1000, settings.max_iterations),
        "success_prob": settings.confidence,
        "seed": settings.seed,
    }
    pose, info = poselib.estimate_relative_pose(
        matches.source, matches.target, _pinhole(K0), _pinhole(K1), options, {}
    )
    if not info["num_inliers"]:
        return None
    t = np.asarray(pose.t, dtype=np.float64)
    length = float(np.linalg.norm(t))
    P_01 = np.column_stack([np.asarray(pose.R, dtype=np.float64), t])
    if not (np.isfinite(P_01).all() and length > 0):
        return None
    P_01[:, 3] /= length
    return P_01


def _pinhole(K: FloatArray) -> dict[str, object]:
    params = [K[0, 0], K[1, 1], K[0, 2], K[1, 2]]
    # Sizes play no part in a pinhole's projection.
    return {"model": "PINHOLE", "width": 1, "height": 1, "params": params}
