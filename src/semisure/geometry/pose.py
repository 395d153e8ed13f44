"""Camera poses: [R | t] from world to camera, residuals, one Gauss–Newton step.

A pose is a 3 × 4 matrix: X_cam = R X + t, COLMAP's ``cam_from_world``. Its tangent is
six numbers (ω, v), rotation first, in the camera's own frame:

    R ← exp([ω]×) R,   t ← exp([ω]×) t + v,   so   dX_cam = ω × X_cam + v.

The camera's centre then moves by −Rᵀv: ω is the error of the orientation (rad), v that
of the position (world units, camera axes).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from semisure.errors import InputError
from semisure.geometry import camera as lens
from semisure.geometry.camera import Camera
from semisure.geometry.rotations import (
    quaternion,
    rotation,
    rotation_from_quaternion,
    rotation_vector,
)
from semisure.types import (
    Jacobian,
    Matrix,
    PerAxis,
    Points,
    Points3,
    Pose,
    Vector,
    Vector3,
)
from semisure.types.checks import MAX_WORLD, as_reals

RANK_TOLERANCE = 1e-12  # of the scaled normal matrix's eigenvalues: squared
_ORTHONORMAL_TOLERANCE = 1e-6


def checked(values: ArrayLike, name: str) -> Pose:
    """`values` as a pose, or a sentence that calls them by `name`."""
    pose = as_reals(name, values)
    if pose.shape == (4, 4):
        pose = pose[:3]
    if pose.shape != (3, 4) or not (np.abs(pose) <= MAX_WORLD).all():
        raise InputError(
            f"{name} must be a finite 3 × 4 pose [R | t] from world to camera, "
            f"but has shape {pose.shape}."
        )
    R = pose[:, :3]
    off = float(np.abs(R @ R.T - np.eye(3)).max())
    if off > _ORTHONORMAL_TOLERANCE or np.linalg.det(R) < 0:
        raise InputError(
            f"{name} must hold a rotation, but R Rᵀ is off the identity by {off:.2g} "
            f"and det R is {np.linalg.det(R):.3g}."
        )
    return pose.copy()


def moved(pose: Pose, tangent: Vector) -> Pose:
    """The pose after a step (ω, v)."""
    turned = rotation(tangent[:3]) @ pose
    turned[:, 3] += tangent[3:]
    return turned


def tangent(pose: Pose, other: Pose) -> Vector:
    """The step (ω, v) from `pose` to `other`: ``moved(pose, tangent) == other``."""
    E = other[:, :3] @ pose[:, :3].T
    omega = rotation_vector(E)
    return np.concatenate([omega, other[:, 3] - E @ pose[:, 3]])


def from_quaternion(q: ArrayLike, t: ArrayLike) -> Pose:
    """[R | t] from (w, x, y, z), of any length but zero."""
    R = rotation_from_quaternion(q)
    return np.column_stack([R, np.asarray(t, dtype=np.float64)])


def seven_numbers(pose: Pose) -> Vector:
    """qw qx qy qz tx ty tz, as COLMAP and Aachen write poses."""
    return np.concatenate([quaternion(pose[:, :3]), pose[:, 3]])


def centre(pose: Pose) -> Vector3:
    """Where the camera stands in the world, (3,)."""
    return -pose[:, :3].T @ pose[:, 3]


def errors(pose: Pose, truth: Pose) -> tuple[float, float]:
    """Distance of the centres (world units) and angle between the poses (degrees)."""
    apart = float(np.linalg.norm(centre(pose) - centre(truth)))
    turn = rotation_vector(pose[:, :3] @ truth[:, :3].T)
    return apart, float(np.degrees(np.linalg.norm(turn)))


def to_camera(pose: Pose, world: Points3) -> Points3:
    """World points (n, 3) in the camera's frame, one coordinate after the other."""
    return (pose[:, :3] @ world.T + pose[:, 3:]).T


def project(pose: Pose, camera: Camera, world: Points3) -> Points:
    """Pixels (n, 2) of world points; NaN behind the camera."""
    return lens.project(camera, to_camera(pose, world))


def jacobian(pose: Pose, camera: Camera, world: Points3) -> Jacobian:
    """∂ project / ∂ (ω, v), (2, 6, n); zero for points behind the camera."""
    return look(pose, camera, world)[1]


def look(pose: Pose, camera: Camera, world: Points3) -> tuple[Points, Jacobian]:
    """Pixels of world points and their derivatives: `project` and `jacobian` in one."""
    points = to_camera(pose, world)
    at = np.empty((2, 6, len(world)))
    ahead = points[:, 2] > 0
    if ahead.all():
        pixels, at[:, 3:] = lens.look(camera, points)
    else:
        pixels = lens.project(camera, points)
        seen = np.where(ahead[:, None], points, [0, 0, 1.0])
        at[:, 3:] = np.where(ahead, lens.jacobian(camera, seen), 0.0)
    x, y, z = points.T
    a, b, c = at[:, 3], at[:, 4], at[:, 5]
    # (a, b, c) · (ω × X) = ω · (X × (a, b, c))
    np.subtract(y * c, z * b, out=at[:, 0])
    np.subtract(z * a, x * c, out=at[:, 1])
    np.subtract(x * b, y * a, out=at[:, 2])
    return pixels, at


def normal_equations(
    J: Jacobian, residual: PerAxis, weight: PerAxis
) -> tuple[Matrix, Vector]:
    """Σ JᵀWJ (6 × 6) and Σ JᵀWr (6,) of the residual observed − projected."""
    normal, pull = np.zeros((6, 6)), np.zeros(6)
    for rows, r, w in zip(J, residual.T, weight.T, strict=True):
        weighted = rows * w
        normal += weighted @ rows.T
        pull += np.einsum("kn,n->k", weighted, r)  # BLAS would start threads
    return normal, pull


def solve(normal: Matrix, pull: Vector) -> Vector | None:
    """N⁻¹ pull, or None if the points do not determine a pose."""
    scale = np.sqrt(np.diag(normal))
    if not (
        np.isfinite(normal).all() and np.isfinite(pull).all() and (scale > 0).all()
    ):
        return None
    scaled = normal / np.outer(scale, scale)
    # Scaled to a unit diagonal, so that metres and radians can be compared.
    if not np.linalg.eigvalsh(scaled)[0] > RANK_TOLERANCE:
        return None
    return np.linalg.solve(scaled, pull / scale) / scale
