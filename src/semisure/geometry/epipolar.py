"""Two calibrated views: [R | t] up to scale, epipolar lines, and their derivatives.

A relative pose is P_01 = [R | t], 3 × 4 with ‖t‖ = 1: X₁ = R X₀ + t. Each match is
looked at from its *anchor*, the point that was not refined; the anchor's epipolar line
runs through the image of the refined point, where the match's error lives.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from semisure.errors import InputError
from semisure.geometry.homography import RANK_TOLERANCE
from semisure.geometry.rotations import rotation, rotation_vector, skew
from semisure.types import (
    FloatArray,
    Mask,
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
from semisure.types.checks import MAX_PX, MAX_WORLD, as_reals, in_line

MINIMAL_SAMPLE = 5  # matches that determine an essential matrix
NO_LINE = 1e-100  # of a line's first two entries: shorter is rounding
LINEAR_SAMPLE = 8  # that determine it linearly
# How far intrinsics and lenses deviate, as a share of the image's diagonal. Smaller
# than a plane's (core_plus.MODEL_FLOOR): an epipolar line bends less than a scene does.
CAMERA_FLOOR = 1e-4


def essential(P_01: Pose) -> Matrix3:
    """E = [t]ₓ R, with x₁ᵀ E x₀ = 0 for rays of one point."""
    return skew(P_01[:, 3]) @ P_01[:, :3]


def fundamental(P_01: Pose, K0: Matrix3, K1: Matrix3) -> Matrix3:
    """F = K₁⁻ᵀ E K₀⁻¹, the same for pixels."""
    return np.linalg.inv(K1).T @ essential(P_01) @ np.linalg.inv(K0)


def checked_pose(values: ArrayLike, name: str = "initial") -> Pose:
    """`values` as [R | t] with ‖t‖ = 1, or a sentence that calls them by `name`."""
    P = as_reals(name, values).copy()
    good = P.shape == (3, 4) and bool((np.abs(P) <= MAX_WORLD).all())
    if good:
        R, length = P[:, :3], float(np.linalg.norm(P[:, 3]))
        off = np.abs(R @ R.T - np.eye(3)).max()
        good = off < 1e-6 and np.linalg.det(R) > 0 and length > 0
    if not good:
        raise InputError(
            f"{name} must be [R | t], 3 × 4, with a rotation R and t ≠ 0 such that "
            f"X₁ = R X₀ + t, but is {in_line(P)}."
        )
    P[:, 3] /= length
    return P


def checked_intrinsics(values: ArrayLike, name: str) -> Matrix3:
    """`values` as a pinhole's K, or a sentence that calls them by `name`."""
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


def poses_from_essential(E: Matrix3) -> list[Pose]:
    """The four [R | t] of an essential matrix; only one has the scene in front."""
    U, _, Vt = np.linalg.svd(E)
    U, Vt = U * np.linalg.det(U), Vt * np.linalg.det(Vt)
    W = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    turns, t = (U @ W @ Vt, U @ W.T @ Vt), U[:, 2]
    return [np.column_stack([R, s * t]) for R in turns for s in (1.0, -1.0)]


def pose_in_front(E: Matrix3, rays0: Points3, rays1: Points3, weight: PerMatch) -> Pose:
    """Of the four poses, the one with most weight in front of both cameras."""

    def seen(P: Pose) -> float:
        z0, z1 = depths(P, rays0, rays1)
        return float(weight[(z0 > 0) & (z1 > 0)].sum())

    return max(poses_from_essential(E), key=seen)


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Each match's refined point against its anchor's epipolar line."""

    distance: PerMatch  # px, signed: point − line along the normal
    normal: PerAxis  # of length 1
    jacobian: FloatArray  # (n, k), ∂distance / ∂ the model's k parameters

    @property
    def offset(self) -> PerAxis:
        """Refined point minus its foot on the line, px."""
        return self.distance[:, None] * self.normal

    def variance(self, C: Matrix) -> PerMatch:
        """px² of each line next to its match, of parameters with covariance `C`."""
        return np.asarray(np.einsum("nk,nk->n", self.jacobian @ C, self.jacobian))


def tangents(t: Vector3) -> FloatArray:
    """Two unit vectors across `t`, (3, 2): the directions in which it can move."""
    return np.linalg.svd(t[:, None])[0][:, 1:]


def moved(P_01: Pose, step: Vector) -> Pose:
    """The pose after a step of 5: a turn of R and a move of t on the sphere."""
    t = P_01[:, 3] + tangents(P_01[:, 3]) @ step[3:]
    return np.column_stack([rotation(step[:3]) @ P_01[:, :3], t / np.linalg.norm(t)])


def tangent(P_01: Pose, other: Pose) -> Vector:
    """The turn and the angle of t, on its two tangents, from a pose to another, (5,).

    >>> P_01 = np.column_stack([np.eye(3), [0.0, 0.0, 1.0]])
    >>> step = np.array([0.1, 0.3, -0.2, 0.003, -0.001])
    >>> tangent(P_01, moved(P_01, step)).round(6).tolist()
    [0.1, 0.3, -0.2, 0.003, -0.001]
    """
    turn = rotation_vector(other[:, :3] @ P_01[:, :3].T)
    t = P_01[:, 3]
    aside = tangents(t).T @ other[:, 3]
    length = float(np.linalg.norm(aside))
    angle = float(np.arctan2(length, t @ other[:, 3]))
    return np.concatenate([turn, aside * (angle / length if length > 0 else 1.0)])


def epipolar_lines(P_01: Pose, matches: Matches, K0: Matrix3, K1: Matrix3) -> Lines:
    """Distances on each match's refined side, normals and derivatives."""
    R, t = P_01[:, :3], P_01[:, 3]
    turns = [skew(t) @ skew(axis) @ R for axis in np.eye(3)]
    shifts = [skew(b) @ R for b in tangents(t).T]
    back0, back1 = np.linalg.inv(K0), np.linalg.inv(K1)
    # The derivatives are by the parameters of `moved`: three turns, two shifts.
    F = np.stack([back1.T @ E @ back0 for E in (essential(P_01), *turns, *shifts)])
    return lines_of(F, matches)


def lines_of(F: FloatArray, matches: Matches) -> Lines:
    """The same from a fundamental matrix and its k derivatives, (1 + k, 3, 3).

    Moving the line l moves a point's distance from it as it moves the line at the
    point's foot: ∂d = footᵀ ∂l / ‖l₁₂‖, with foot = (p − d n, 1).
    """
    count = len(matches)
    lines = Lines(
        np.empty(count),
        np.empty((count, 2)),
        np.empty((count, len(F) - 1)),
    )
    for side, G in ((0, F.transpose(0, 2, 1)), (1, F)):
        which = matches.side == side
        if which.any():
            point, anchor = refined_and_anchor(matches, side, which)
            _fill(lines, which, point, anchor, G)
    return lines


def refined_and_anchor(
    matches: Matches, side: int, which: Mask
) -> tuple[Points, Points]:
    """Refined points and their anchors of the matches refined in image `side`."""
    source, target = matches.source[which], matches.target[which]
    return (target, source) if side == 1 else (source, target)


def _fill(
    lines: Lines,
    which: Mask,
    point: Points,
    anchor: Points,
    G: FloatArray,
) -> None:
    ones = np.ones((len(point), 1))
    line = np.hstack([anchor, ones]) @ G.transpose(0, 2, 1)  # (6, n, 3)
    length = np.hypot(line[0, :, 0], line[0, :, 1])
    # An anchor on the epipole has no line: any direction will do, at no distance.
    on_epipole = ~(length > NO_LINE)
    safe = np.where(on_epipole, 1.0, length)
    normal = line[0, :, :2] / safe[:, None]
    normal[on_epipole] = [1.0, 0.0]
    distance = (point * normal).sum(axis=1) + line[0, :, 2] / safe
    foot = np.hstack([point - distance[:, None] * normal, ones])
    lines.distance[which], lines.normal[which] = distance, normal
    lines.jacobian[which] = np.einsum("ni,kni->nk", foot, line[1:]) / safe[:, None]


def weighted_eight_point(
    rays0: Points3, rays1: Points3, weight: PerMatch
) -> Matrix3 | None:
    """The essential matrix of least Σ ω (x₁ᵀ E x₀)², or None if there are several.

    Hartley's normalisation, itself weighted, and the singular values set to 1, 1, 0.
    """
    used = weight > 0
    if used.sum() < LINEAR_SAMPLE:
        return None
    E = _linear(rays0[used, :2], rays1[used, :2], weight[used])
    if E is None:
        return None
    U, _, Vt = np.linalg.svd(E)
    return U @ np.diag([1.0, 1.0, 0.0]) @ Vt


def weighted_fundamental(
    source: Points, target: Points, weight: PerMatch
) -> Matrix3 | None:
    """The same in pixels, of rank 2, its smallest singular value set to 0."""
    used = weight > 0
    if used.sum() < LINEAR_SAMPLE:
        return None
    F = _linear(source[used], target[used], weight[used])
    if F is None:
        return None
    U, values, Vt = np.linalg.svd(F)
    return U @ np.diag([values[0], values[1], 0.0]) @ Vt


def _linear(x0: Points, x1: Points, weight: PerMatch) -> Matrix3 | None:
    """The matrix of least Σ ω (x₁ᵀ M x₀)², or None if there are several."""
    T0, p0 = _normalised(x0, weight)
    T1, p1 = _normalised(x1, weight)
    rows = (p1[:, :, None] * p0[:, None, :]).reshape(-1, 9)
    values, vectors = np.linalg.eigh(rows.T @ (weight[:, None] * rows))
    if not values[1] > RANK_TOLERANCE**2 * values[-1]:
        return None
    return T1.T @ vectors[:, 0].reshape(3, 3) @ T0


def _normalised(points: Points, weight: PerMatch) -> tuple[Matrix3, Points3]:
    share = weight / weight.sum()
    centre = share @ points
    spread = float(np.sqrt(share @ ((points - centre) ** 2).sum(axis=1) / 2.0))
    s = 1.0 / spread if spread > 0 else 1.0
    T = np.array([[s, 0, -s * centre[0]], [0, s, -s * centre[1]], [0, 0, 1.0]])
    return T, np.column_stack([points, np.ones(len(points))]) @ T.T


@dataclass(frozen=True, slots=True, eq=False)
class CalibratedViews:
    """A relative pose with its cameras: epipolar geometry with five parameters."""

    P_01: Pose
    K0: Matrix3
    K1: Matrix3

    def lines(self, matches: Matches) -> Lines:
        """Each refined point against its anchor's line."""
        return epipolar_lines(self.P_01, matches, self.K0, self.K1)

    def moved(self, step: Vector) -> CalibratedViews:
        """The geometry after a step of 5, see :func:`moved`."""
        return CalibratedViews(moved(self.P_01, step), self.K0, self.K1)


def at_infinity(P_01: Pose, matches: Matches, K0: Matrix3, K1: Matrix3) -> Points:
    """Where each refined point would lie were its scene point infinitely far, (n, 2).

    Infinite where that is behind the camera.
    """
    R, seen = P_01[:, :3], np.empty((len(matches), 2))
    for side, turn, K, K_anchor in ((0, R.T, K0, K1), (1, R, K1, K0)):
        which = matches.side == side
        if which.any():
            _, anchor = refined_and_anchor(matches, side, which)
            seen[which] = _seen(rays(K_anchor, anchor) @ turn.T @ K.T)
    return seen


def _seen(X: Points3) -> Points:
    with np.errstate(divide="ignore", invalid="ignore"):
        pixel = X[:, :2] / X[:, 2:]
    return np.where(X[:, 2:] > 0, pixel, np.inf)


def reprojection(
    P_01: Pose,
    matches: Matches,
    K0: Matrix3,
    K1: Matrix3,
    depth: PerMatch,
    baseline: float,
) -> tuple[PerAxis, FloatArray]:
    """Residuals (n, 2) px and their derivatives (n, 2, 5), given the anchors' depths.

    `baseline` is ‖t‖ in the unit of `depth`. Infinite behind the camera.
    """
    R, t, B = P_01[:, :3], P_01[:, 3], tangents(P_01[:, 3])
    residual, J = np.empty((len(matches), 2)), np.empty((len(matches), 2, 5))
    for side, K, K_anchor in ((0, K0, K1), (1, K1, K0)):
        which = matches.side == side
        if not which.any():
            continue
        point, anchor = refined_and_anchor(matches, side, which)
        X = depth[which, None] * rays(K_anchor, anchor)
        if side == 1:  # X₁ = R X₀ + ‖t‖ t: turning moves it by ω × R X₀
            lever = X @ R.T
            Y, moves = lever + baseline * t, -_skews(lever)
            shift = baseline * B
        else:  # X₀ = Rᵀ (X₁ − ‖t‖ t)
            lever = X - baseline * t
            Y, moves = lever @ R, R.T @ _skews(lever)
            shift = -baseline * R.T @ B
        toward = np.concatenate([moves, np.broadcast_to(shift, (len(X), 3, 2))], axis=2)
        pixels = Y @ K.T
        predicted = _seen(pixels)
        residual[which] = point - predicted
        J[which] = -_pinhole_jacobian(pixels, K @ toward)
    return residual, J


def _skews(v: Points3) -> FloatArray:
    x, y, z = v.T
    zero = np.zeros_like(x)
    rows = [[zero, -z, y], [z, zero, -x], [-y, x, zero]]
    return np.moveaxis(np.array(rows), 2, 0)


def _pinhole_jacobian(X: Points3, moves: FloatArray) -> FloatArray:
    """∂(X₁/X₃, X₂/X₃) for derivatives `moves` (n, 3, k) of X."""
    with np.errstate(divide="ignore", invalid="ignore"):
        pixel = X[:, :2] / X[:, 2:]
        J = (moves[:, :2] - pixel[:, :, None] * moves[:, 2:]) / X[:, 2, None, None]
    return np.nan_to_num(J, nan=0.0, posinf=0.0, neginf=0.0)
