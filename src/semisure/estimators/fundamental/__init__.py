"""Fundamental matrices of two uncalibrated images by the libraries' RANSACs.

===============  ==========  ====================================================
name             library     what runs
===============  ==========  ====================================================
``ransac``       OpenCV      7-point RANSAC, then the eight-point fit of inliers
``lo-ransac``    OpenCV      MSAC with inner and iterative local optimisation
``prosac``       OpenCV      PROSAC sampling on matches sorted by confidence
``gc-ransac``    OpenCV      MSAC with graph-cut local optimisation
``magsac++``     OpenCV      MAGSAC score with σ-consensus
``poselib``      PoseLib     LO-RANSAC with bundle adjustment (extra ``ransac``)
``superansac``   SupeRANSAC  MAGSAC score, nested LO (extra ``superansac``)
===============  ==========  ====================================================

The model of an estimate is F, 3 × 3 of rank 2 and norm 1, with y F x = 0 for pixels x
of image 0 and y of image 1.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np

from semisure.estimators.homography import ESTIMATOR_NAMES
from semisure.estimators.settings import RansacSettings, failure, too_few
from semisure.geometry import epipolar
from semisure.geometry import fundamental as fm
from semisure.types import Estimate, Mask, Matches, Matrix3, as_choice
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
    n, least = len(matches), fm.MINIMAL_SAMPLE + 1
    lacking = too_few(n, estimator, "fundamental matrix", least)
    if lacking is not None:
        return lacking
    F = _library(estimator).estimate(matches, estimator, settings)
    if F is None or not np.isfinite(F).all() or not np.any(F):
        return failure(n, estimator, "no model was consistent with enough matches")
    model = fm.of_rank_2(F)
    inliers = inliers_of(model, matches, settings.threshold_px)
    if inliers.sum() < least:
        reason = f"the model found has fewer than {least} inliers"
        return failure(n, estimator, reason)
    return Estimate(model=model, inliers=inliers, estimator=estimator)


def inliers_of(F: Matrix3, matches: Matches, limit: float) -> Mask:
    """Within `limit` px of the line on the refined side, recomputed by us."""
    return np.abs(epipolar.lines_of(F[None], matches).distance) <= limit


def _library(name: str) -> ModuleType:
    """The file of the library that runs an estimator; loaded when it is needed."""
    if name == "poselib":
        from semisure.estimators.fundamental import poselib

        return poselib
    if name == "superansac":
        from semisure.estimators.fundamental import superansac

        return superansac
    from semisure.estimators.fundamental import opencv

    return opencv
