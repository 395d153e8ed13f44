"""Robust homographies behind one call.

===============  ==========  ====================================================
name             library     what runs
===============  ==========  ====================================================
``ransac``       OpenCV      4-point RANSAC, then DLT + LM on the inliers
``lo-ransac``    OpenCV      MSAC with inner and iterative local optimisation
``prosac``       OpenCV      PROSAC sampling on matches sorted by confidence
``gc-ransac``    OpenCV      MSAC with graph-cut local optimisation
``magsac++``     OpenCV      MAGSAC score with σ-consensus
``poselib``      PoseLib     LO-RANSAC with bundle adjustment (extra ``ransac``)
===============  ==========  ====================================================
"""

from __future__ import annotations

from functools import partial
from typing import Any

import cv2
import numpy as np

from semisure.estimators.settings import (
    POINT_PX,
    RansacSettings,
    by_poselib,
    models_in,
    robust_estimate,
    sample_order,
    usac_params,
)
from semisure.geometry.homography import normalised, project
from semisure.types import (
    Estimate,
    FloatArray,
    Mask,
    Matches,
    PerMatch,
    Points,
    RobustEstimator,
    as_choice,
)
from semisure.types.matches import require_matches

PAPER_ESTIMATORS = ("ransac", "lo-ransac", "prosac", "gc-ransac", "magsac++")
ESTIMATOR_NAMES: tuple[str, ...] = (*PAPER_ESTIMATORS, "poselib")
MINIMAL_SAMPLE = 4


def estimate_homography(
    matches: Matches,
    estimator: str = "magsac++",
    settings: RansacSettings | None = None,
) -> Estimate:
    """θ₀ of the matches: a homography with its inliers, or the reason for none.

    Estimators ignore a law's location: pass matches `without_bias`.

    >>> import numpy as np
    >>> from semisure.synthetic import SyntheticMatcher
    >>> matches, _ = SyntheticMatcher().match(np.eye(3), count=1000)
    >>> estimate = estimate_homography(matches, "magsac++")
    >>> bool(np.abs(estimate.model - np.eye(3)).max() < 1)
    True
    >>> estimate_homography(matches.take(slice(3)), "magsac++").reason
    'only 3 matches, a homography needs 4'
    """
    require_matches(matches)
    run = load_estimator(estimator, settings)
    return run(matches.source, matches.target, matches.confidence)


def load_estimator(
    name: str, settings: RansacSettings | None = None
) -> RobustEstimator:
    """The robust homography estimator called `name`.

    >>> import numpy as np
    >>> estimator = load_estimator("ransac")
    >>> square = np.array([[0.0, 0], [9, 0], [9, 9], [0, 9], [4, 5]])
    >>> estimate = estimator(square, square + 3, np.ones(5))
    >>> estimate.model[:2, 2].round(6).tolist(), int(estimate.inliers.sum())
    ([3.0, 3.0], 5)
    """
    as_choice("estimator", name, ESTIMATOR_NAMES)
    chosen = (settings or RansacSettings()).within(POINT_PX)
    return partial(_estimate, name=name, settings=chosen)


def _estimate(
    source: Points,
    target: Points,
    confidence: PerMatch,
    *,
    name: str,
    settings: RansacSettings,
) -> Estimate:
    def find() -> list[FloatArray]:
        if name == "poselib":
            H = by_poselib("estimate_homography", settings, source, target)
        else:
            order = sample_order(name, confidence, settings)
            H = _opencv(source[order], target[order], name, settings)
        return [normalised(each) for each in models_in(H)]

    def inliers_of(H: FloatArray) -> Mask:
        distance = np.linalg.norm(target - project(H, source), axis=1)
        return np.asarray(distance <= settings.threshold)

    least = MINIMAL_SAMPLE
    return robust_estimate(name, "homography", len(source), least, find, inliers_of)


def _opencv(source: Points, target: Points, name: str, settings: RansacSettings) -> Any:
    if name != "ransac":
        return cv2.findHomography(source, target, usac_params(name, settings))[0]
    return cv2.findHomography(
        source,
        target,
        cv2.RANSAC,
        settings.threshold,
        maxIters=settings.max_iterations,
        confidence=settings.confidence,
    )[0]
