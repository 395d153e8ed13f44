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
from semisure.types import FloatArray

RANK_TOLERANCE = 1e-12  # of the scaled normal matrix's eigenvalues: squared
_ORTHONORMAL_TOLERANCE = 1e-6


def checked(values: ArrayLike, name: str) -> FloatArray:
    """`values` as a pose, or a sentence that calls them by `name`."""
    pose = np.asarray(values, dtype=np.float64)
    if pose.shape == (4, 4):
        pose = pose[:3]
    if pose.shape != (3, 4) or not np.isfinite(pose).all():
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


def rotation(omega: FloatArray) -> FloatArray:
    """exp([ω]×), by Rodrigues' formula.

    >>> rotation(np.array([0.0, 0.0, np.pi / 2])).round(9) + 0.0
    array([[ 0., -1.,  0.],
           [ 1.,  0.,  0.],
           [ 0.,  0.,  1.]])
    """
    angle = float(np.linalg.norm(omega))
    x, y, z = omega
    W = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    # sinc has no 0/0 at the identity; NumPy's is of πx.
    first = np.sinc(angle / np.pi)
    second = 0.5 * np.sinc(0.5 * angle / np.pi) ** 2
    return np.eye(3) + first * W + second * (W @ W)


def moved(pose: FloatArray, tangent: FloatArray) -> FloatArray:
    """The pose after a step (ω, v)."""
    turned = rotation(tangent[:3]) @ pose
    turned[:, 3] += tangent[3:]
    return turned


def tangent(pose: FloatArray, other: FloatArray) -> FloatArray:
    """The step (ω, v) from `pose` to `other`: ``moved(pose, tangent) == other``."""
    E = other[:, :3] @ pose[:, :3].T
    omega = rotation_vector(E)
    return np.concatenate([omega, other[:, 3] - E @ pose[:, 3]])


def rotation_vector(R: FloatArray) -> FloatArray:
    """ω with exp([ω]×) = R, at most π long."""
    w, x, y, z = quaternion(R)
    axis = np.array([x, y, z])
    sine = float(np.linalg.norm(axis))
    angle = 2.0 * np.arctan2(sine, w)
    return axis * (angle / sine if sine > 1e-15 else 2.0)


def quaternion(R: FloatArray) -> FloatArray:
    """(w, x, y, z), w ≥ 0, of a rotation: the eigenvector that keeps every digit."""
    (a, b, c), (d, e, f), (g, h, i) = R
    K = np.array(
        [
            [a + e + i, h - f, c - g, d - b],
            [h - f, a - e - i, b + d, c + g],
            [c - g, b + d, e - a - i, f + h],
            [d - b, c + g, f + h, i - a - e],
        ]
    )
    q = np.linalg.eigh(K)[1][:, -1]
    return -q if q[0] < 0 else q


def from_quaternion(q: ArrayLike, t: ArrayLike) -> FloatArray:
    """[R | t] from (w, x, y, z), of any length but zero."""
    q = np.asarray(q, dtype=np.float64)
    norm = float(np.linalg.norm(q))
    if not (np.isfinite(norm) and norm > 0):
        raise InputError(f"A quaternion must be finite and not zero, but is {q}.")
    w, x, y, z = q / norm
    R = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.column_stack([R, np.asarray(t, dtype=np.float64)])


def centre(pose: FloatArray) -> FloatArray:
    """Where the camera stands in the world, (3,)."""
    return -pose[:, :3].T @ pose[:, 3]


def errors(pose: FloatArray, truth: FloatArray) -> tuple[float, float]:
    """Distance of the centres (world units) and angle between the poses (degrees)."""
    apart = float(np.linalg.norm(centre(pose) - centre(truth)))
    turn = rotation_vector(pose[:, :3] @ truth[:, :3].T)
    return apart, float(np.degrees(np.linalg.norm(turn)))


def to_camera(pose: FloatArray, world: FloatArray) -> FloatArray:
    """World points (n, 3) in the camera's frame, one coordinate after the other."""
    return (pose[:, :3] @ world.T + pose[:, 3:]).T


def project(pose: FloatArray, camera: Camera, world: FloatArray) -> FloatArray:
    """Pixels (n, 2) of world points; NaN behind the camera."""
    return lens.project(camera, to_camera(pose, world))


def jacobian(pose: FloatArray, camera: Camera, world: FloatArray) -> FloatArray:
    """∂ project / ∂ (ω, v), (2, 6, n); zero for points behind the camera."""
    points = to_camera(pose, world)
    at = np.empty((2, 6, len(world)))
    by_point = lens.jacobian(camera, np.where(points[:, 2:] > 0, points, [0, 0, 1.0]))
    at[:, 3:] = np.where(points[:, 2] > 0, by_point, 0.0)
    x, y, z = points.T
    a, b, c = at[:, 3], at[:, 4], at[:, 5]
    # (a, b, c) · (ω × X) = ω · (X × (a, b, c))
    np.subtract(y * c, z * b, out=at[:, 0])
    np.subtract(z * a, x * c, out=at[:, 1])
    np.subtract(x * b, y * a, out=at[:, 2])
    return at


def normal_equations(
    J: FloatArray, residual: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Σ JᵀWJ (6 × 6) and Σ JᵀWr (6,) of the residual observed − projected."""
    rows = J.transpose(1, 0, 2).reshape(6, -1)
    w = weight.T.reshape(-1)
    weighted = rows * w
    return weighted @ rows.T, weighted @ residual.T.reshape(-1)


def solve(normal: FloatArray, pull: FloatArray, damping: float) -> FloatArray | None:
    """(N + λ diag N)⁻¹ pull, or None if the points do not determine a pose."""
    scale = np.sqrt(np.diag(normal))
    if not (
        np.isfinite(normal).all() and np.isfinite(pull).all() and (scale > 0).all()
    ):
        return None
    scaled = normal / np.outer(scale, scale)
    # Scaled to a unit diagonal, so that metres and radians can be compared.
    if not np.linalg.eigvalsh(scaled)[0] > RANK_TOLERANCE:
        return None
    return np.linalg.solve(scaled + damping * np.eye(6), pull / scale) / scale
