"""Camera poses by OpenCV's solvePnPRansac."""

from __future__ import annotations

import cv2
import numpy as np

from semisure.estimators.pose import MINIMAL_SAMPLE
from semisure.estimators.settings import RansacSettings
from semisure.estimators.usac import seeded_order, usac_params
from semisure.geometry.camera import Camera, unproject
from semisure.geometry.rotations import rotation
from semisure.types import Points, Points3, Pose


def estimate(
    points: Points,
    world: Points3,
    camera: Camera,
    name: str,
    settings: RansacSettings,
) -> Pose | None:
    """[R | t] by OpenCV, or None."""
    # Undistorted by us and put back on a pinhole's pixels, where thresholds are px.
    K = camera.matrix
    flat = unproject(camera, points)
    sound = np.isfinite(flat).all(axis=1)
    if sound.sum() < MINIMAL_SAMPLE:
        return None
    pixels = flat[sound] @ K[:2, :2] + K[:2, 2]
    order = np.arange(len(pixels))
    if name == "ransac":
        order = seeded_order(len(pixels), settings)
    given = np.ascontiguousarray(world[sound][order]), pixels[order], K, None
    try:
        if name == "ransac":
            done, turn, t, _ = cv2.solvePnPRansac(
                *given,
                iterationsCount=settings.max_iterations,
                reprojectionError=settings.threshold_px,
                confidence=settings.confidence,
                flags=cv2.SOLVEPNP_AP3P,
            )
        else:
            params = usac_params(name, settings)
            done, _, turn, t, _ = cv2.solvePnPRansac(*given, params=params)
    except cv2.error:
        return None  # degenerate point sets trip assertions inside OpenCV's solvers
    if not done:
        return None
    return np.column_stack([rotation(np.ravel(turn)), np.ravel(t)])
