"""Fundamental matrices of two uncalibrated images by the libraries' RANSACs.

The names are those of :mod:`semisure.estimators.homography`; ``ransac`` samples seven
points and fits the inliers by the eight-point method.

The model of an estimate is F, 3 × 3 of rank 2 and norm 1, with y F x = 0 for pixels x
of image 0 and y of image 1.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from semisure.estimators.homography import ESTIMATOR_NAMES
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
from semisure.geometry import fundamental as fm
from semisure.types import Estimate, FloatArray, Mask, Matches, as_choice
from semisure.types.matches import require_matches

FUNDAMENTAL_ESTIMATORS = ESTIMATOR_NAMES
# A distance from a line ignores the error along it, so less is allowed than for points.
FUNDAMENTAL_SETTINGS = RansacSettings(threshold_px=LINE_PX)


def estimate_fundamental(
    matches: Matches,
    estimator: str = "magsac++",
    settings: RansacSettings | None = None,
) -> Estimate:
    """θ₀ of the matches: F with its inliers, or the reason for none.

    Estimators ignore a law's location: pass matches `without_bias`.

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
    settings = (settings or FUNDAMENTAL_SETTINGS).within(LINE_PX)

    def find() -> list[FloatArray]:
        if estimator == "poselib":
            points = matches.source, matches.target
            F = by_poselib("estimate_fundamental", settings, *points)
        else:
            F = _opencv(matches, estimator, settings)
        return [fm.of_rank_2(each) for each in models_in(F)]

    def inliers_of(F: FloatArray) -> Mask:
        # By the distance from the line on the refined side.
        distance = epipolar.lines_of(F[None], matches).distance
        return np.asarray(np.abs(distance) <= settings.threshold)

    n, least = len(matches), fm.MINIMAL_SAMPLE + 1
    return robust_estimate(estimator, "fundamental matrix", n, least, find, inliers_of)


def _opencv(matches: Matches, name: str, settings: RansacSettings) -> Any:
    order = sample_order(name, matches.confidence, settings)
    source = np.ascontiguousarray(matches.source[order])
    target = np.ascontiguousarray(matches.target[order])
    if name != "ransac":
        return cv2.findFundamentalMat(source, target, usac_params(name, settings))[0]
    return cv2.findFundamentalMat(
        source,
        target,
        cv2.FM_RANSAC,
        settings.threshold,
        settings.confidence,
        settings.max_iterations,
    )[0]
