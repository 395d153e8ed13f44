"""Two calibrated views: [R | t] up to scale, epipolar lines, and their derivatives.

A relative pose is P_01 = [R | t], 3 × 4 with ‖t‖ = 1: X₁ = R X₀ + t. The *anchor* of a
match is the point that was not refined; its epipolar line runs through the image of the
refined point, where the match's error lives.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from semisure.errors import InputError
from semisure.geometry.homography import framed, null_matrix
from semisure.geometry.rotations import checked_motion, rotation, skew
from semisure.types import (
    FloatArray,
    Matches,
    Matrix,
    Matrix3,
    PerAxis,
    PerMatch,
    Points,
    Points3,
    Pose,
    Vector,
    Vector3,
)
from semisure.types.checks import MAX_PX, as_reals, in_line

MINIMAL_SAMPLE = 5  # matches that determine an essential matrix
NO_LINE = 1e-100  # a normal shorter than this is rounding
LINEAR_SAMPLE = 8  # matches that determine one linearly
# How far intrinsics and lenses deviate, as a share of the image's diagonal. Smaller
# than a plane's (core_plus.MODEL_FLOOR): an epipolar line bends less than a scene does.
CAMERA_FLOOR = 1e-4
LEAST_MOTION = 1e-6  # of singular values: those of a rotation are equal


def essential(P_01: Pose) -> Matrix3:
    """E = [t]ₓ R, with x₁ᵀ E x₀ = 0 for rays of one point."""
    return skew(P_01[:, 3]) @ P_01[:, :3]


def fundamental(P_01: Pose, K0: Matrix3, K1: Matrix3) -> Matrix3:
    """F = K₁⁻ᵀ E K₀⁻¹, the same for pixels."""
    return np.linalg.inv(K1).T @ essential(P_01) @ np.linalg.inv(K0)


def checked_pose(values: ArrayLike, name: str = "initial") -> Pose:
    """`values` as [R | t] with ‖t‖ = 1; otherwise an error about `name`."""
    P = checked_motion(values, name)
    length = float(np.linalg.norm(P[:, 3]))
    if not length > 0:
        raise InputError(
            f"{name} must have t ≠ 0, such that X₁ = R X₀ + t, but is {in_line(P)}."
        )
    P[:, 3] /= length
    return P


def checked_intrinsics(values: ArrayLike, name: str) -> Matrix3:
    """`values` as a pinhole's K; otherwise an error about `name`."""
    K = as_reals(name, values)
    good = K.shape == (3, 3) and bool((np.abs(K) <= MAX_PX).all())
    if good:
        least = min(K[0, 0], K[1, 1])
        good = least >= 1.0 / MAX_PX and bool((K[2] == [0, 0, 1]).all())
    if not good:
        raise InputError(
            f"{name} must be 3 × 3 intrinsics in px with positive focal lengths and "
            f"last row 0 0 1, but is {in_line(K)}."
        )
    return K


def rays(K: Matrix3, points: Points) -> Points3:
    """K⁻¹ (x, y, 1) of each point, (n, 3)."""
    return np.column_stack([points, np.ones(len(points))]) @ np.linalg.inv(K).T


def depths(P_01: Pose, rays0: Points3, rays1: Points3) -> tuple[PerMatch, PerMatch]:
    """Depths along both rays of the point nearest to them, in units of ‖t‖."""
    a, t = rays0 @ P_01[:, :3].T, P_01[:, 3]
    aa, bb, ab = (a * a).sum(1), (rays1 * rays1).sum(1), (a * rays1).sum(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        per_det = 1.0 / (aa * bb - ab * ab)
        at, bt = a @ t, rays1 @ t
        return (ab * bt - bb * at) * per_det, (aa * bt - ab * at) * per_det


def pose_in_front(E: Matrix3, rays0: Points3, rays1: Points3, weight: PerMatch) -> Pose:
    """The one of the four [R | t] of E with most weight in front of both cameras."""
    U, _, Vt = np.linalg.svd(E)
    U, Vt = U * np.linalg.det(U), Vt * np.linalg.det(Vt)
    W = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    turns, t = (U @ W @ Vt, U @ W.T @ Vt), U[:, 2]

    def in_front(P: Pose) -> float:
        z0, z1 = depths(P, rays0, rays1)
        return float(weight[(z0 > 0) & (z1 > 0)].sum())

    poses = [np.column_stack([R, s * t]) for R in turns for s in (1.0, -1.0)]
    return max(poses, key=in_front)


def poses_of_plane(H_01: Matrix3, K0: Matrix3, K1: Matrix3) -> list[Pose]:
    """The two [R | t], ‖t‖ = 1, that move a plane as `H_01` does; none for a rotation.

    K₁⁻¹ H K₀ = R + t nᵀ / d up to scale keeps lengths in two planes (Zhang and Hanson,
    1996). The sign of t stays open. Points of the plane fit both poses.

    >>> K, R = np.diag([500.0, 500.0, 1.0]), np.eye(3)
    >>> H_01 = K @ (R + np.outer([0.1, 0.0, 0.0], [0.0, 0.0, 1.0])) @ np.linalg.inv(K)
    >>> [np.abs(P[:, 3]).round(2).tolist() for P in poses_of_plane(H_01, K, K)]
    [[0.05, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    H = np.linalg.inv(K1) @ H_01 @ K0
    _, (high, unit, low), (first, middle, last) = np.linalg.svd(H)
    if not high - low > LEAST_MOTION * high:
        return []
    H = H / (unit * np.sign(np.linalg.det(H)) or 1.0)
    up, down = np.sqrt(unit**2 - low**2), np.sqrt(high**2 - unit**2)
    poses = []
    for sign in (1.0, -1.0):
        side = (up * first + sign * down * last) / np.hypot(up, down)
        a, b, normal = H @ middle, H @ side, np.cross(middle, side)
        before = np.column_stack([middle, side, normal])
        R = np.column_stack([a, b, np.cross(a, b)]) @ before.T
        t = (H - R) @ normal
        poses.append(np.column_stack([R, t / np.linalg.norm(t)]))
    return poses


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Distances of refined points from the epipolar lines of their anchors."""

    distance: PerMatch  # px, signed: point − line along the normal
    normal: PerAxis  # of length 1
    jacobian: FloatArray  # (n, k), ∂distance / ∂ the model's k parameters

    @property
    def offset(self) -> PerAxis:
        """Refined point minus its foot on the line, px."""
        return self.distance[:, None] * self.normal

    def variance(self, C: Matrix) -> PerMatch:
        """Variance of each line at its match, px²; `C` is that of the parameters."""
        return np.asarray(np.einsum("nk,nk->n", self.jacobian @ C, self.jacobian))


def tangents(t: Vector3) -> FloatArray:
    """Two unit vectors across `t`, (3, 2): the directions in which it can move."""
    return np.linalg.svd(t[:, None])[0][:, 1:]


def moved(P_01: Pose, step: Vector) -> Pose:
    """The pose after a step of 5: a turn of R and a move of t on the sphere."""
    t = P_01[:, 3] + tangents(P_01[:, 3]) @ step[3:]
    return np.column_stack([rotation(step[:3]) @ P_01[:, :3], t / np.linalg.norm(t)])


def lines_of(F: FloatArray, matches: Matches) -> Lines:
    """The lines of a fundamental matrix and its k derivatives, (1 + k, 3, 3).

    A point's distance changes as its line l does at the point's foot (p − d n, 1):
    ∂d = footᵀ ∂l / ‖l₁₂‖.
    """
    ahead, ones = (matches.side == 1)[:, None], np.ones((len(matches), 1))
    anchor = np.hstack([np.where(ahead, matches.source, matches.target), ones])
    line = np.where(ahead, anchor @ F.transpose(0, 2, 1), anchor @ F)  # (1 + k, n, 3)
    length = np.hypot(line[0, :, 0], line[0, :, 1])
    # An anchor on the epipole has no line: any normal, at distance 0, stands for it.
    on_epipole = ~(length > NO_LINE)
    length[on_epipole] = 1.0
    normal = line[0, :, :2] / length[:, None]
    normal[on_epipole] = [1.0, 0.0]
    point = matches.refined
    distance = (point * normal).sum(axis=1) + line[0, :, 2] / length
    foot = np.hstack([point - distance[:, None] * normal, ones])
    jacobian = np.einsum("ni,kni->nk", foot, line[1:]) / length[:, None]
    return Lines(distance, normal, jacobian)


def weighted_eight_point(
    x0: FloatArray, x1: FloatArray, weight: PerMatch
) -> Matrix3 | None:
    """The matrix of least Σ ω (x₁ᵀ M x₀)², or None if there are several.

    From rays an essential matrix, from pixels a fundamental one, whose singular values
    are not yet enforced. Only x and y count. Hartley's normalisation is weighted too.
    """
    used = weight > 0
    if used.sum() < LINEAR_SAMPLE:
        return None
    weight = weight[used]
    frame0, frame1 = (framed(x[used, :2], weight) for x in (x0, x1))
    if frame0 is None or frame1 is None:
        return None
    (T0, p), (T1, q) = frame0, frame1
    p, q = (np.column_stack([x, np.ones(len(x))]) for x in (p, q))
    rows = (q[:, :, None] * p[:, None, :]).reshape(-1, 9)
    M = null_matrix(rows.T @ (weight[:, None] * rows))
    return None if M is None else T1.T @ M @ T0


@dataclass(frozen=True, slots=True, eq=False)
class CalibratedViews:
    """A relative pose with its cameras: epipolar geometry with five parameters."""

    P_01: Pose
    K0: Matrix3
    K1: Matrix3

    @property
    def model(self) -> Pose:
        return self.P_01

    def lines(self, matches: Matches) -> Lines:
        """Distances of refined points from the lines of their anchors."""
        R, t = self.P_01[:, :3], self.P_01[:, 3]
        turns = [skew(t) @ skew(axis) @ R for axis in np.eye(3)]
        shifts = [skew(b) @ R for b in tangents(t).T]
        back0, back1 = np.linalg.inv(self.K0), np.linalg.inv(self.K1)
        # The derivatives are by the parameters of `moved`: three turns, two shifts.
        parts = essential(self.P_01), *turns, *shifts
        return lines_of(np.stack([back1.T @ E @ back0 for E in parts]), matches)

    def moved(self, step: Vector) -> CalibratedViews:
        """The geometry after a step of 5, see :func:`moved`."""
        return CalibratedViews(moved(self.P_01, step), self.K0, self.K1)
