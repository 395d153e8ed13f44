"""Camera poses by COLMAP."""

from __future__ import annotations

from typing import Any

import numpy as np

from semisure.errors import MissingExtraError
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
    """[R | t] by COLMAP, or None."""
    try:
        import pycolmap
    except ImportError:
        raise MissingExtraError("pycolmap", "pose", "COLMAP's RANSAC") from None
    ransac = pycolmap.RANSACOptions(
        max_error=settings.threshold_px,
        confidence=settings.confidence,
        max_num_trials=settings.max_iterations,
        min_num_trials=min(1000, settings.max_iterations),
        min_inlier_ratio=0.01,
        random_seed=settings.seed,
    )
    answer: dict[str, Any] | None = pycolmap.estimate_and_refine_absolute_pose(
        points + CORNER_TO_CENTRE_PX,
        world,
        pycolmap.Camera(
            model=camera.model,
            width=camera.width,
            height=camera.height,
            params=list(camera.params),
        ),
        pycolmap.AbsolutePoseEstimationOptions(ransac=ransac),
    )
    return None if answer is None else np.asarray(answer["cam_from_world"].matrix())
