"""Relative poses from a homography: two calibrated views of a plane have two.

K₁⁻¹ H K₀ = R + t nᵀ / d up to scale, with the plane's normal n and distance d in
camera 0. Of the decompositions by Zhang and Hanson (1996) two remain when the sign of t
is left to what lies in front of the cameras. Matches on the plane lie on the epipolar
lines of both, so that only what departs from the plane tells them apart.
"""

from __future__ import annotations

import numpy as np

from semisure.types import Matrix3, Pose, Vector3

LEAST_MOTION = 1e-6  # of singular values: a rotation leaves all of them 1


def poses_of_plane(H_01: Matrix3, K0: Matrix3, K1: Matrix3) -> list[Pose]:
    """The two [R | t], ‖t‖ = 1, of either sign of t; none where the camera only turned.

    >>> K, R = np.diag([500.0, 500.0, 1.0]), np.eye(3)
    >>> H_01 = K @ (R + np.outer([0.1, 0.0, 0.0], [0.0, 0.0, 1.0])) @ np.linalg.inv(K)
    >>> [np.abs(P[:, 3]).round(2).tolist() for P in poses_of_plane(H_01, K, K)]
    [[0.05, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    H = np.linalg.inv(K1) @ H_01 @ K0
    values = np.linalg.svd(H, compute_uv=False)
    if not (np.isfinite(values).all() and values[1] > 0):
        return []
    H = H / (values[1] * np.sign(np.linalg.det(H)) or 1.0)
    high, _, low = values / values[1]
    if not high - low > LEAST_MOTION:
        return []
    _, _, Vt = np.linalg.svd(H)
    first, middle, last = Vt
    up, down = np.sqrt(max(1.0 - low**2, 0.0)), np.sqrt(max(high**2 - 1.0, 0.0))
    width = np.sqrt(high**2 - low**2)
    sides = [(up * first + sign * down * last) / width for sign in (1.0, -1.0)]
    return [P for P in (_pose(H, middle, side) for side in sides) if P is not None]


def _pose(H: Matrix3, middle: Vector3, side: Vector3) -> Pose | None:
    """`middle` and `side` span the plane of directions whose length H keeps."""
    normal = np.cross(middle, side)
    before = np.column_stack([middle, side, normal])
    a, b = H @ middle, H @ side
    R = np.column_stack([a, b, np.cross(a, b)]) @ before.T
    t = (H - R) @ normal
    length = float(np.linalg.norm(t))
    return np.column_stack([R, t / length]) if length > LEAST_MOTION else None
