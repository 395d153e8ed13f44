"""Camera poses by PoseLib."""

from __future__ import annotations

import numpy as np

from semisure.estimators.poselib_options import load_poselib, ransac_options
from semisure.estimators.settings import RansacSettings
from semisure.geometry.camera import CORNER_TO_CENTRE_PX, Camera
from semisure.types import Points, Points3, Pose


def estimate(
    points: Points,
    world: Points3,
    camera: Camera,
    name: str,
    settings: RansacSettings,
) -> Pose | None:
    """[R | t] by PoseLib, or None."""
    poselib = load_poselib()
    options = ransac_options(poselib.RansacOptions(), settings, "max_reproj_error")
    described = {
        "model": camera.model,
        "width": camera.width,
        "height": camera.height,
        "params": list(camera.params),
    }
    corner = points + CORNER_TO_CENTRE_PX
    pose, info = poselib.estimate_absolute_pose(corner, world, described, options)
    return np.asarray(pose.Rt) if info["num_inliers"] else None
