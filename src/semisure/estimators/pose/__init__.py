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

from dataclasses import dataclass
from types import ModuleType
from typing import Protocol, runtime_checkable

import numpy as np

from semisure.estimators.settings import RansacSettings, failure, too_few
from semisure.geometry import pose as se3
from semisure.geometry.camera import Camera
from semisure.types import Estimate, Points, Points3, Pose, WorldMatches, as_choice

POSE_ESTIMATOR_NAMES: tuple[str, ...] = (
    "ransac",
    "lo-ransac",
    "magsac++",
    "poselib",
    "pycolmap",
)
MINIMAL_SAMPLE = 4  # three, and a fourth to tell P3P's solutions apart


@runtime_checkable
class PoseEstimator(Protocol):
    """Anything that turns pixels, world points and a camera into an estimate."""

    def __call__(self, points: Points, world: Points3, camera: Camera) -> Estimate: ...


def load_pose_estimator(
    name: str, settings: RansacSettings | None = None
) -> PoseEstimator:
    """The robust pose estimator called `name`."""
    as_choice("estimator", name, POSE_ESTIMATOR_NAMES)
    return _Checked(name, settings or RansacSettings())


def estimate_pose(
    matches: WorldMatches,
    camera: Camera,
    estimator: str | PoseEstimator = "lo-ransac",
    settings: RansacSettings | None = None,
) -> Estimate:
    """θ₀ of the matches: [R | t] with its inliers, or the reason for none.

    >>> from semisure.synthetic import EXAMPLE_CAMERA, SyntheticMatcher
    >>> matches, _ = SyntheticMatcher().match_world(np.eye(3, 4), count=500)
    >>> estimate = estimate_pose(matches, EXAMPLE_CAMERA, "ransac")
    >>> bool(np.abs(estimate.model - np.eye(3, 4)).max() < 0.1)
    True
    """
    if isinstance(estimator, str):
        estimator = load_pose_estimator(estimator, settings)
    return estimator(matches.points, matches.world, camera)


@dataclass(frozen=True, slots=True)
class _Checked:
    """A library's estimator between our checks of its input and its answer."""

    name: str
    settings: RansacSettings

    def __call__(self, points: Points, world: Points3, camera: Camera) -> Estimate:
        lacking = too_few(len(points), self.name, "pose", MINIMAL_SAMPLE)
        if lacking is not None:
            return lacking
        library = _library(self.name)
        pose = library.estimate(points, world, camera, self.name, self.settings)
        return outcome(
            pose, points, world, camera, self.settings.threshold_px, self.name
        )


def _library(name: str) -> ModuleType:
    """The file of the library that runs an estimator; loaded when it is needed."""
    if name == "poselib":
        from semisure.estimators.pose import poselib

        return poselib
    if name == "pycolmap":
        from semisure.estimators.pose import pycolmap

        return pycolmap
    from semisure.estimators.pose import opencv

    return opencv


def outcome(
    pose: Pose | None,
    points: Points,
    world: Points3,
    camera: Camera,
    threshold_px: float,
    name: str,
) -> Estimate:
    """The estimate for a library's answer, with the mask recomputed by us."""
    if pose is None or not np.isfinite(pose).all():
        return failure(len(points), name, "no pose was consistent with enough matches")
    distance = np.linalg.norm(points - se3.project(pose, camera, world), axis=1)
    inliers = distance <= threshold_px  # False for NaN: behind the camera
    if inliers.sum() < MINIMAL_SAMPLE:
        reason = f"the pose found has fewer than {MINIMAL_SAMPLE} inliers"
        return failure(len(points), name, reason)
    return Estimate(model=pose, inliers=inliers, estimator=name)
