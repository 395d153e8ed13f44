"""Rotations: cross products, vectors, quaternions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from semisure.errors import InputError
from semisure.types import Matrix3, PerMatch, Points3, Pose, Vector, Vector3
from semisure.types.checks import MAX_WORLD, as_reals, in_line


def checked_motion(values: ArrayLike, name: str) -> Pose:
    """`values` as [R | t]; otherwise an error about `name`."""
    P = as_reals(name, values)
    P = P[:3] if P.shape == (4, 4) else P
    good = P.shape == (3, 4) and bool((np.abs(P) <= MAX_WORLD).all())
    if good:
        deviation = np.abs(P[:, :3] @ P[:, :3].T - np.eye(3)).max()
        good = deviation < 1e-6 and np.linalg.det(P[:, :3]) > 0
    if not good:
        raise InputError(
            f"{name} must be [R | t], 3 × 4, with a rotation R, but is {in_line(P)}."
        )
    return P.copy()


def skew(v: Vector3) -> Matrix3:
    """[v]ₓ, the matrix of the cross product: [v]ₓ w = v × w."""
    x, y, z = v
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def rotation(vector: Vector3) -> Matrix3:
    """exp([ω]ₓ): the rotation by ‖ω‖ radians about ω (Rodrigues).

    >>> rotation(np.array([0.0, 0.0, np.pi / 2])).round(9) + 0.0
    array([[ 0., -1.,  0.],
           [ 1.,  0.,  0.],
           [ 0.,  0.,  1.]])
    """
    angle = float(np.linalg.norm(vector))
    W = skew(vector)
    # np.sinc(x) is sin(πx)/(πx): both factors stay smooth through angle 0.
    half = np.sinc(angle / (2.0 * np.pi))
    return np.eye(3) + np.sinc(angle / np.pi) * W + 0.5 * half * half * (W @ W)


def nearest_rotation(before: Points3, after: Points3, weight: PerMatch) -> Matrix3:
    """The rotation that best turns the directions `before` into those `after`.

    >>> x, y, z = np.eye(3)
    >>> R = nearest_rotation(np.array([x, y]), np.array([y, -x]), np.ones(2))
    >>> (R @ x).round(9).tolist()
    [0.0, 1.0, 0.0]
    """
    a, b = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (before, after))
    U, _, Vt = np.linalg.svd((weight[:, None] * b).T @ a)
    return U @ np.diag([1.0, 1.0, np.linalg.det(U @ Vt)]) @ Vt


def rotation_vector(R: Matrix3) -> Vector3:
    """ω with exp([ω]ₓ) = R, at most π long."""
    w, x, y, z = quaternion(R)
    axis = np.array([x, y, z])
    sine = float(np.linalg.norm(axis))
    angle = 2.0 * np.arctan2(sine, w)
    return axis * (angle / sine if sine > 1e-15 else 2.0)


def quaternion(R: Matrix3) -> Vector:
    """(w, x, y, z), w ≥ 0, of a rotation, by an eigenvector: exact to rounding."""
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


def rotation_from_quaternion(q: ArrayLike) -> Matrix3:
    """The rotation of (w, x, y, z), of any length but zero."""
    q = np.asarray(q, dtype=np.float64)
    norm = float(np.linalg.norm(q))
    if not (np.isfinite(norm) and norm > 0):
        raise InputError(f"A quaternion must be finite and not zero, but is {q}.")
    q = q / norm
    W = skew(q[1:])
    return np.eye(3) + 2.0 * (q[0] * W + W @ W)
