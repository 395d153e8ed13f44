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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from semisure.errors import InputError, MissingExtraError
from semisure.estimators.settings import RansacSettings, failure
from semisure.geometry import pose as se3
from semisure.geometry.camera import CORNER_TO_CENTRE_PX, Camera, unproject
from semisure.types import Estimate, FloatArray
from semisure.world import WorldMatches

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

    def __call__(
        self, points: FloatArray, world: FloatArray, camera: Camera
    ) -> Estimate: ...


def load_pose_estimator(
    name: str, settings: RansacSettings | None = None
) -> PoseEstimator:
    """The robust pose estimator called `name`."""
    if name not in POSE_ESTIMATOR_NAMES:
        raise InputError(
            "A pose estimator must be one of "
            f"{', '.join(POSE_ESTIMATOR_NAMES)}, but is {name!r}."
        )
    return _Checked(name, settings or RansacSettings())


def estimate_pose(
    matches: WorldMatches,
    camera: Camera,
    estimator: str | PoseEstimator = "lo-ransac",
    settings: RansacSettings | None = None,
) -> Estimate:
    """θ₀ of the matches: [R | t] with its inliers, or the reason for none."""
    if isinstance(estimator, str):
        estimator = load_pose_estimator(estimator, settings)
    return estimator(matches.points, matches.world, camera)


@dataclass(frozen=True, slots=True)
class _Checked:
    """A library's estimator between our checks of its input and its answer."""

    name: str
    settings: RansacSettings

    def __call__(
        self, points: FloatArray, world: FloatArray, camera: Camera
    ) -> Estimate:
        if len(points) < MINIMAL_SAMPLE:
            found = "no matches" if len(points) == 0 else f"only {len(points)} matches"
            reason = f"{found}, a pose needs {MINIMAL_SAMPLE}"
            return failure(len(points), self.name, reason)
        run = _RUNNERS.get(self.name, _opencv)
        pose = run(points, world, camera, self.name, self.settings)
        return outcome(
            pose, points, world, camera, self.settings.threshold_px, self.name
        )


def outcome(
    pose: FloatArray | None,
    points: FloatArray,
    world: FloatArray,
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


def _opencv(
    points: FloatArray,
    world: FloatArray,
    camera: Camera,
    name: str,
    settings: RansacSettings,
) -> FloatArray | None:
    import cv2

    # Undistorted by us and put back on a pinhole's pixels, where thresholds are px.
    K = camera.matrix
    flat = unproject(camera, points)
    sound = np.isfinite(flat).all(axis=1)
    if sound.sum() < MINIMAL_SAMPLE:
        return None
    pixels = flat[sound] @ K[:2, :2] + K[:2, 2]
    order = np.arange(len(pixels))
    if name == "ransac" and settings.seed:  # seeded by its order alone
        order = np.random.default_rng(settings.seed).permutation(len(pixels))
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
            from semisure.estimators.opencv import usac_params

            params = usac_params(name, settings)
            done, _, turn, t, _ = cv2.solvePnPRansac(*given, params=params)
    except cv2.error:
        return None  # degenerate point sets trip assertions inside OpenCV's solvers
    if not done:
        return None
    return np.column_stack([se3.rotation(np.ravel(turn)), np.ravel(t)])


def _poselib(
    points: FloatArray,
    world: FloatArray,
    camera: Camera,
    name: str,
    settings: RansacSettings,
) -> FloatArray | None:
    try:
        import poselib
    except ImportError:
        raise MissingExtraError("poselib", "pose", "PoseLib's RANSAC") from None
    from semisure.estimators.poselib import _options

    known = _options(dict(poselib.RansacOptions()), settings)
    described = {
        "model": camera.model,
        "width": camera.width,
        "height": camera.height,
        "params": list(camera.params),
    }
    corner = points + CORNER_TO_CENTRE_PX
    found, info = poselib.estimate_absolute_pose(corner, world, described, known)
    return np.asarray(found.Rt) if info["num_inliers"] else None


def _pycolmap(
    points: FloatArray,
    world: FloatArray,
    camera: Camera,
    name: str,
    settings: RansacSettings,
) -> FloatArray | None:
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
    found: dict[str, Any] | None = pycolmap.estimate_and_refine_absolute_pose(
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
    return None if found is None else np.asarray(found["cam_from_world"].matrix())


_RUNNERS: dict[str, Callable[..., FloatArray | None]] = {
    "poselib": _poselib,
    "pycolmap": _pycolmap,
}
