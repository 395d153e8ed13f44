"""Robust absolute pose from 2D–3D matches, behind one call.

=============  ========  ======================================================
name           library   what runs
=============  ========  ======================================================
``ransac``     OpenCV    P3P RANSAC, then EPnP on the inliers
``lo-ransac``  OpenCV    MSAC with inner and iterative local optimisation
``magsac++``   OpenCV    MAGSAC score with σ-consensus
``poselib``    PoseLib   LO-RANSAC with bundle adjustment (extra ``pose``)
``pycolmap``   COLMAP    LO-RANSAC with bundle adjustment (extra ``pose``)
=============  ========  ======================================================
"""

from __future__ import annotations

from dataclasses import asdict
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
from semisure.geometry import pose as se3
from semisure.geometry.camera import CORNER_TO_CENTRE_PX, Camera, unproject
from semisure.geometry.rotations import rotation
from semisure.io.colmap import pycolmap as colmap
from semisure.types import Estimate, FloatArray, Mask, Pose, WorldMatches, as_choice

POSE_ESTIMATOR_NAMES: tuple[str, ...] = (
    "ransac",
    "lo-ransac",
    "magsac++",
    "poselib",
    "pycolmap",
)
MINIMAL_SAMPLE = 4  # three, and a fourth to choose among P3P's solutions


def estimate_pose(
    matches: WorldMatches,
    camera: Camera,
    estimator: str = "lo-ransac",
    settings: RansacSettings | None = None,
) -> Estimate:
    """θ₀ of the matches: [R | t] with its inliers, or the reason for none.

    >>> from semisure.synthetic import EXAMPLE_CAMERA, SyntheticMatcher
    >>> matches, _ = SyntheticMatcher().match_world(np.eye(3, 4), count=500)
    >>> estimate = estimate_pose(matches, EXAMPLE_CAMERA, "ransac")
    >>> bool(np.abs(estimate.model - np.eye(3, 4)).max() < 0.1)
    True
    """
    as_choice("estimator", estimator, POSE_ESTIMATOR_NAMES)
    settings = (settings or RansacSettings()).within(POINT_PX)

    def find() -> list[FloatArray]:
        if estimator == "poselib":
            pose = _poselib(matches, camera, settings)
        elif estimator == "pycolmap":
            pose = _pycolmap(matches, camera, settings)
        else:
            pose = _opencv(matches, camera, estimator, settings)
        return models_in(pose, columns=4)

    def inliers_of(pose: FloatArray) -> Mask:
        pixels = se3.project(pose, camera, matches.world)
        distance = np.linalg.norm(matches.points - pixels, axis=1)
        # False for NaN: behind the camera.
        return np.asarray(distance <= settings.threshold)

    n = len(matches)
    return robust_estimate(estimator, "pose", n, MINIMAL_SAMPLE, find, inliers_of)


def _opencv(
    matches: WorldMatches, camera: Camera, name: str, settings: RansacSettings
) -> Pose | None:
    # Undistorted to the pixels of a pinhole camera, so that thresholds are in px.
    K = camera.matrix
    flat = unproject(camera, matches.points)
    finite = np.isfinite(flat).all(axis=1)
    if finite.sum() < MINIMAL_SAMPLE:
        return None
    pixels = flat[finite] @ K[:2, :2] + K[:2, 2]
    order = sample_order(name, matches.confidence[finite], settings)
    args = np.ascontiguousarray(matches.world[finite][order]), pixels[order], K, None
    if name == "ransac":
        success, turn, t, _ = cv2.solvePnPRansac(
            *args,
            iterationsCount=settings.max_iterations,
            reprojectionError=settings.threshold,
            confidence=settings.confidence,
            flags=cv2.SOLVEPNP_AP3P,
        )
    else:
        params = usac_params(name, settings)
        success, _, turn, t, _ = cv2.solvePnPRansac(*args, params=params)
    if not success:
        return None
    return np.column_stack([rotation(np.ravel(turn)), np.ravel(t)])


def _poselib(
    matches: WorldMatches, camera: Camera, settings: RansacSettings
) -> Pose | None:
    corner = matches.points + CORNER_TO_CENTRE_PX
    points = corner, matches.world, asdict(camera)
    pose = by_poselib("estimate_absolute_pose", settings, *points)
    return None if pose is None else pose.Rt


def _pycolmap(
    matches: WorldMatches, camera: Camera, settings: RansacSettings
) -> Pose | None:
    pycolmap = colmap("COLMAP's RANSAC")
    ransac = pycolmap.RANSACOptions(
        max_error=settings.threshold,
        confidence=settings.confidence,
        max_num_trials=settings.max_iterations,
        min_num_trials=min(1000, settings.max_iterations),
        min_inlier_ratio=0.01,
        random_seed=settings.seed,
    )
    answer: dict[str, Any] | None = pycolmap.estimate_and_refine_absolute_pose(
        matches.points + CORNER_TO_CENTRE_PX,
        matches.world,
        pycolmap.Camera(**asdict(camera)),
        pycolmap.AbsolutePoseEstimationOptions(ransac=ransac),
    )
    return None if answer is None else answer["cam_from_world"].matrix()
