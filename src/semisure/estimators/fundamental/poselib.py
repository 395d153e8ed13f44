"""Fundamental matrices by PoseLib."""

from __future__ import annotations

import numpy as np

from semisure.estimators.poselib_options import load_poselib, ransac_options
from semisure.estimators.settings import RansacSettings
from semisure.types import Matches, Matrix3


def estimate(matches: Matches, name: str, settings: RansacSettings) -> Matrix3 | None:
    """F by PoseLib, or None."""
    poselib = load_poselib()
    options = ransac_options(poselib.RansacOptions(), settings, "max_epipolar_error")
    F, info = poselib.estimate_fundamental(matches.source, matches.target, options)
    return np.asarray(F, dtype=np.float64) if info["num_inliers"] else None
