"""Camera poses: [R | t] from world to camera, their steps, their reprojections.

A pose is a 3 × 4 matrix: X_cam = R X + t, COLMAP's ``cam_from_world``. Its tangent is
six numbers (ω, v), rotation first, in the camera's own frame:

    R ← exp([ω]×) R,   t ← exp([ω]×) t + v,   so   dX_cam = ω × X_cam + v.

The camera's centre then moves by −Rᵀv: ω is the error of the orientation (rad), v that
of the position (world units, camera axes).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from semisure.geometry import camera as lens
from semisure.geometry.camera import Camera
from semisure.geometry.epipolar import CalibratedViews, rays, tangents
from semisure.geometry.homography import far_not_undefined
from semisure.geometry.rotations import (
    quaternion,
    rotation,
    rotation_from_quaternion,
    rotation_vector,
    skew,
)
from semisure.types import (
    FloatArray,
    Jacobian,
    Matches,
    Matrix,
    PerAxis,
    PerMatch,
    Points,
    Points3,
    Pose,
    Vector,
    Vector3,
)

RANK_TOLERANCE = 1e-12  # of the scaled normal matrix's eigenvalues: squared
UNIT_CAMERA = Camera.from_matrix(np.eye(3), (1, 1))


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
    """World points (n, 3) in the camera's frame."""
    return (pose[:, :3] @ world.T + pose[:, 3:]).T


def project(pose: Pose, camera: Camera, world: Points3) -> Points:
    """Pixels (n, 2) of world points; NaN behind the camera."""
    return lens.project(camera, to_camera(pose, world))


def look(pose: Pose, camera: Camera, world: Points3) -> tuple[Points, Jacobian]:
    """Pixels of world points, and ∂ pixels / ∂ (ω, v), (2, 6, n).

    Behind the camera NaN and 0.
    """
    points = to_camera(pose, world)
    pixels, by_point = lens.look(camera, points)
    J = np.empty((2, 6, len(world)))
    J[:, 3:] = np.where(points[:, 2] > 0, by_point, 0.0)
    (x, y, z), (a, b, c) = points.T, J[:, 3:].transpose(1, 0, 2)
    # (a, b, c) · (ω × X) = ω · (X × (a, b, c))
    J[:, 0], J[:, 1], J[:, 2] = y * c - z * b, z * a - x * c, x * b - y * a
    return pixels, J


def normal_equations(
    J: Jacobian, residual: PerAxis, weight: PerAxis
) -> tuple[Matrix, Vector]:
    """Σ JᵀWJ (6 × 6) and Σ JᵀWr (6,) of the residual observed − projected."""
    weighted = J * weight.T[:, None]
    normal = (weighted @ J.transpose(0, 2, 1)).sum(axis=0)
    return normal, np.einsum("akn,na->k", weighted, residual)


def reprojection(
    views: CalibratedViews, matches: Matches, depth: PerMatch, baseline: float
) -> tuple[PerAxis, FloatArray]:
    """Residuals (n, 2) px and their derivatives (n, 2, 5), given the anchors' depths.

    `baseline` is ‖t‖ in the unit of `depth`. Very large behind the camera.
    """
    R, t = views.P_01[:, :3], baseline * views.P_01[:, 3]
    across = baseline * tangents(views.P_01[:, 3])
    nothing = np.zeros((3, 2))
    # The five parameters' steps in the tangent of a pose: backward that of camera 0 in
    # the frame of camera 1, forward that of camera 1 in the frame of camera 0.
    backward = -np.block([[R.T, nothing], [np.zeros((3, 3)), R.T @ across]])
    forward = np.block([[np.eye(3), nothing], [skew(t), across]])
    residual, J = np.empty((len(matches), 2)), np.empty((len(matches), 2, 5))
    for side, pose, K, K_anchor, anchors, steps in (
        (0, [R.T, -R.T @ t], views.K0, views.K1, matches.target, backward),
        (1, [R, t], views.K1, views.K0, matches.source, forward),
    ):
        rows = matches.side == side
        world = depth[rows, None] * rays(K_anchor, anchors[rows])
        plain, moves = look(np.column_stack(pose), UNIT_CAMERA, world)
        residual[rows] = matches.refined[rows] - (plain @ K[:2, :2].T + K[:2, 2])
        J[rows] = -np.einsum("ab,bkn,kl->nal", K[:2, :2], moves, steps, optimize=True)
    return far_not_undefined(residual), J


def solve(normal: Matrix, pull: Vector) -> Vector | None:
    """N⁻¹ pull, or None if the points do not determine a pose."""
    scale = np.sqrt(np.diag(normal))
    if not (np.isfinite([*normal, pull]).all() and (scale > 0).all()):
        return None
    scaled = normal / np.outer(scale, scale)
    # Scaled to a unit diagonal, so that metres and radians can be compared.
    if not np.linalg.eigvalsh(scaled)[0] > RANK_TOLERANCE:
        return None
    return np.linalg.solve(scaled, pull / scale) / scale
