"""Fundamental matrices by OpenCV's findFundamentalMat."""

from __future__ import annotations

import cv2
import numpy as np

from semisure.estimators.fundamental import inliers_of
from semisure.estimators.settings import RansacSettings
from semisure.estimators.usac import seeded_order, usac_params
from semisure.geometry import fundamental as fm
from semisure.types import Matches, Matrix3


def estimate(matches: Matches, name: str, settings: RansacSettings) -> Matrix3 | None:
    """F by OpenCV, or None."""
    order = np.arange(len(matches))
    if name == "ransac":
        order = seeded_order(len(matches), settings)
    elif name == "prosac":  # which wants the best first
        order = np.argsort(-matches.confidence, kind="stable")
    source = np.ascontiguousarray(matches.source[order])
    target = np.ascontiguousarray(matches.target[order])
    try:
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
    except cv2.error:
        # Degenerate point sets trip assertions inside OpenCV's solvers.
        return None
    if F is None or len(F) < 3 or not np.isfinite(F).all():
        return None
    # Seven matches may leave several matrices, stacked; the rest must choose.
    candidates = np.asarray(F, dtype=np.float64).reshape(-1, 3, 3)
    limit = settings.threshold_px
    sound = [fm.of_rank_2(one) for one in candidates if np.any(one)]
    return max(sound, key=lambda F: inliers_of(F, matches, limit).sum(), default=None)
