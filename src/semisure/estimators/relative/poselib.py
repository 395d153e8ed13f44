"""Relative poses by PoseLib."""

from __future__ import annotations

import numpy as np

from semisure.estimators.poselib_options import load_poselib, ransac_options
from semisure.estimators.settings import RansacSettings
from semisure.types import Matches, Matrix3, Pose


def estimate(
    matches: Matches,
    K0: Matrix3,
    K1: Matrix3,
    name: str,
    settings: RansacSettings,
) -> Pose | None:
    """[R | t] by PoseLib, or None."""
    poselib = load_poselib()
    options = ransac_options(poselib.RansacOptions(), settings, "max_epipolar_error")
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


def _pinhole(K: Matrix3) -> dict[str, object]:
    params = [K[0, 0], K[1, 1], K[0, 2], K[1, 2]]
    # Sizes play no part in a pinhole's projection.
    return {"model": "PINHOLE", "width": 1, "height": 1, "params": params}
