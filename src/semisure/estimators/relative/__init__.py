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

from types import ModuleType

import numpy as np
from numpy.typing import ArrayLike

from semisure.estimators.settings import RansacSettings, failure, too_few
from semisure.geometry import epipolar
from semisure.types import Estimate, Mask, Matches, Matrix3, Pose, as_choice
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
    K0, K1 = (
        epipolar.checked_intrinsics(K, name) for K, name in ((K0, "K0"), (K1, "K1"))
    )
    settings = settings or RELATIVE_SETTINGS
    n, least = len(matches), epipolar.MINIMAL_SAMPLE
    lacking = too_few(n, estimator, "relative pose", least)
    if lacking is not None:
        return lacking
    library = _library(estimator)
    P_01 = library.estimate(matches, K0, K1, estimator, settings)
    if P_01 is None:
        return failure(n, estimator, "no model was consistent with enough matches")
    inliers = inliers_of(P_01, matches, K0, K1, settings.threshold_px)
    if inliers.sum() < least:
        reason = f"the model found has fewer than {least} inliers"
        return failure(n, estimator, reason)
    return Estimate(model=P_01, inliers=inliers, estimator=estimator)


def _library(name: str) -> ModuleType:
    """The file of the library that runs an estimator; loaded when it is needed."""
    if name == "poselib":
        from semisure.estimators.relative import poselib

        return poselib
    from semisure.estimators.relative import opencv

    return opencv


def inliers_of(
    P_01: Pose, matches: Matches, K0: Matrix3, K1: Matrix3, limit: float
) -> Mask:
    """Within `limit` px of the line, with the point in front of both cameras.

    Recomputed by us, on the refined side: libraries mean different distances by it.
    """
    lines = epipolar.epipolar_lines(P_01, matches, K0, K1)
    x0, x1 = epipolar.rays(K0, matches.source), epipolar.rays(K1, matches.target)
    z0, z1 = epipolar.depths(P_01, x0, x1)
    return (np.abs(lines.distance) <= limit) & (z0 > 0) & (z1 > 0)
