"""Fundamental matrices of two uncalibrated images by the libraries' RANSACs.

The names are those of :mod:`semisure.estimators.homography`; ``ransac`` samples seven
points and fits the inliers by the eight-point method.

The model of an estimate is F, 3 × 3 of rank 2 and norm 1, with y F x = 0 for pixels x
of image 0 and y of image 1.
"""

from __future__ import annotations

import cv2
import numpy as np

from semisure.estimators.homography import ESTIMATOR_NAMES
from semisure.estimators.settings import (
    RansacSettings,
    poselib_with,
    robust_estimate,
    sample_order,
    sound,
    usac_params,
)
from semisure.geometry import epipolar
from semisure.geometry import fundamental as fm
from semisure.types import Estimate, FloatArray, Mask, Matches, as_choice
from semisure.types.matches import require_matches

FUNDAMENTAL_ESTIMATORS = ESTIMATOR_NAMES
# A distance from a line ignores the error along it, so less is allowed than for points.
FUNDAMENTAL_SETTINGS = RansacSettings(threshold_px=1.0)


def estimate_fundamental(
    matches: Matches,
    estimator: str = "magsac++",
    settings: RansacSettings | None = None,
) -> Estimate:
    """θ₀ of the matches: F with its inliers, or the reason for none.

    Estimators know no location: give them matches `without_bias`.

    >>> from semisure.synthetic import SyntheticMatcher
    >>> K = np.array([[500.0, 0, 319.5], [0, 500.0, 239.5], [0, 0, 1]])
    >>> P_01 = np.column_stack([np.eye(3), [1.0, 0.0, 0.0]])
    >>> matches, _ = SyntheticMatcher().match_views(P_01, K, count=500)
    >>> estimate = estimate_fundamental(matches, "ransac")
    >>> estimate.model.shape, bool(estimate.inliers.mean() > 0.5)
    ((3, 3), True)
    """
    require_matches(matches)
    as_choice("estimator", estimator, FUNDAMENTAL_ESTIMATORS)
    settings = settings or FUNDAMENTAL_SETTINGS

    def find() -> FloatArray | None:
        if estimator == "poselib":
            F = _poselib(matches, settings)
        else:
            F = _opencv(matches, estimator, settings)
        return None if F is None else fm.of_rank_2(F)

    return robust_estimate(
        estimator,
        "fundamental matrix",
        len(matches),
        fm.MINIMAL_SAMPLE + 1,
        find,
        lambda F: _inliers(F, matches, settings),
    )


def _inliers(F: FloatArray, matches: Matches, settings: RansacSettings) -> Mask:
    """Within the threshold of the line on the refined side."""
    distance = epipolar.lines_of(F[None], matches).distance
    return np.asarray(np.abs(distance) <= settings.threshold_px)


def _opencv(matches: Matches, name: str, settings: RansacSettings) -> FloatArray | None:
    order = sample_order(name, matches.confidence, settings)
    source = np.ascontiguousarray(matches.source[order])
    target = np.ascontiguousarray(matches.target[order])
    if name == "ransac":
        F, _ = cv2.findFundamentalMat(
            source,
            target,
            cv2.FM_RANSAC,
            settings.threshold_px,
            settings.confidence,
            settings.max_iterations,
        )
    else:
        F, _ = cv2.findFundamentalMat(source, target, usac_params(name, settings))
    stacked = sound(F)
    if stacked is None or len(stacked) < 3:
        return None
    # Seven matches may leave several matrices, stacked; the rest must choose.
    candidates = [fm.of_rank_2(one) for one in stacked.reshape(-1, 3, 3) if one.any()]
    return max(candidates, key=lambda F: _inliers(F, matches, settings).sum())


def _poselib(matches: Matches, settings: RansacSettings) -> FloatArray | None:
    poselib, options = poselib_with(settings, "max_epipolar_error")
    F, info = poselib.estimate_fundamental(matches.source, matches.target, options)
    return sound(F) if info["num_inliers"] else None
