"""A homography by the places to which it takes the corners of image 0."""

from __future__ import annotations

import numpy as np

from semisure.errors import InputError
from semisure.geometry import homography as plane
from semisure.refit.covariance import Scores, covariance, radial
from semisure.types import (
    FloatArray,
    Jacobian,
    Matches,
    Matrix,
    Matrix3,
    PerAxis,
    Points,
    Vector,
)

# The least error at the corners of a photograph, in diagonals: no wall is quite flat
# and no lens quite a pinhole.
LEAST_ERROR = 5e-4


def corner_jacobian(H_01: Matrix3, matches: Matches) -> Jacobian | None:
    """∂ prediction / ∂ corner images, (2, 8, n), on each match's refined side.

    None where a match lives in image 0 and `H_01` has no inverse, or a corner of image
    0 has no image.
    """
    frame = plane.corners(matches.source_size)
    unit = np.diag([*(1.0 / np.maximum(frame.max(axis=0), 1.0)), 1.0])
    G = H_01 @ np.linalg.inv(unit)
    G = G / np.linalg.norm(G)
    on_source = matches.side == 0
    at = matches.source
    if on_source.any():
        back = plane.inverse(H_01)
        if back is None:
            return None
        at = np.where(on_source[:, None], plane.project(back, matches.target), at)
    with np.errstate(all="ignore"):
        corners = _by_entry(G, frame @ unit[:2, :2]).transpose(2, 0, 1).reshape(8, 9)
        if not np.isfinite(corners).all():  # a corner lies on the horizon
            return None
        # The null direction of nine entries is their scale, which pinv leaves alone.
        J = np.linalg.pinv(corners).T @ _by_entry(G, at @ unit[:2, :2])
        return on_refined_side(H_01, matches, J)


def on_refined_side(H_01: Matrix3, matches: Matches, moves: Jacobian) -> Jacobian:
    """Moves (2, k, n) of predictions in image 1 as moves on each match's refined side.

    Where a match lives in image 0, x₀ = Π⁻¹(y) moves by −(∂Π/∂x)⁻¹ dΠ(x₀).
    """
    on_source = matches.side == 0
    if on_source.any():
        at = plane.project(np.linalg.inv(H_01), matches.target[on_source])
        local = plane.inverses_2x2(plane.jacobian(H_01, at))
        moves = moves.copy()
        moves[:, :, on_source] = -np.einsum(
            "nab,bkn->akn", local, moves[:, :, on_source]
        )
    return moves


def _by_entry(G: Matrix3, points: Points) -> Jacobian:
    """∂ project(G, p) / ∂ entries of G, (2, 9, n)."""
    x, y = points.T
    mapped = G @ np.stack([x, y, np.ones(len(points))])
    D = np.zeros((2, 9, len(points)))
    over_depth = D[0, :3]
    np.divide(1.0, mapped[2], out=over_depth[2])
    np.multiply(points.T, over_depth[2], out=over_depth[:2])
    D[1, 3:6] = over_depth
    for row, along in zip(D, mapped, strict=False):
        np.multiply(over_depth, -along * over_depth[2], out=row[6:])
    return D


def corner_covariance(
    H_01: Matrix3,
    matches: Matches,
    scores: Scores,
    *,
    least: float = LEAST_ERROR,
    copies: int = 1,
    field: bool = True,
) -> Matrix | None:
    """8 × 8 px² of the images of image 0's corners, x and y in turn.

    `least` is the least error at the corners, in diagonals. Without `field` there is
    none, nor a lens or relief. Each match stands for so many `copies`.
    """
    # What moves a point of image 1 one way moves its match in image 0 the other way:
    # turned round, errors that neighbours share add up on whichever side they are.
    sign = np.where(matches.side == 0, -1.0, 1.0)
    places = np.clip(matches.target, 0.0, matches.target_size)
    scores = scores._replace(score=sign * scores.score)
    with np.errstate(all="ignore"):  # what is undefined is not counted
        J = corner_jacobian(H_01, matches)
        if J is None:
            return None
        J = sign * J
        if not field:
            return covariance(places, scores, J, copies=copies)
        frame = plane.corners(matches.source_size)
        lens = _bent(H_01, matches, matches.source, matches.target)
        there = _bent(H_01, matches, frame, plane.project(H_01, frame))
        C = covariance(
            places,
            scores,
            J,
            lens=sign * on_refined_side(H_01, matches, lens),
            lens_there=there.transpose(2, 0, 1).reshape(8, -1),
            copies=copies,
        )
    floor = least * float(np.hypot(*matches.target_size))
    return None if C is None else C + floor**2 * np.eye(8)


def _bent(H_01: Matrix3, matches: Matches, first: Points, second: Points) -> FloatArray:
    """How a lens of either image moves points in image 1, (2, 2, n)."""
    by_first = radial(first, matches.source_size)
    by_first = -np.einsum("nab,bn->an", plane.jacobian(H_01, first), by_first)
    return np.stack([radial(second, matches.target_size), by_first], axis=1)


def corner_variance(C: Matrix, H_01: Matrix3, matches: Matches) -> PerAxis:
    """px² of where `H_01` puts each match, of corners with covariance `C`.

    0 where it puts a match nowhere.
    """
    J = corner_jacobian(H_01, matches)
    if J is None:
        return np.zeros_like(matches.source)
    with np.errstate(invalid="ignore"):
        variance = np.einsum("dkn,kl,dln->nd", J, C, J, optimize=True)
    return np.where(np.isfinite(variance), variance, 0.0)


def expected_corner_error(C: Matrix) -> float:
    """Mean over corners of the distance expected under `C` (8 × 8), px.

    E‖N(0, Σ)‖ of a 2 × 2 Σ with eigenvalues a ≥ b is √(2a/π) E(1 − b/a), with E the
    complete elliptic integral.

    >>> round(expected_corner_error(np.eye(8)), 12)  # √(π/2)
    1.253314137316
    """
    C = np.asarray(C)
    if C.shape != (8, 8):
        raise InputError(
            "C must be the 8 × 8 covariance of a refitted homography, "
            "refit.covariance, which is None where matches do not determine one."
        )
    blocks = np.stack([C[i : i + 2, i : i + 2] for i in range(0, 8, 2)])
    small, large = np.maximum(np.linalg.eigvalsh(blocks), 0.0).T
    ratio = np.divide(small, large, out=np.ones_like(small), where=large > 0)
    return float((np.sqrt(2.0 * large / np.pi) * _elliptic_e(1.0 - ratio)).mean())


def _elliptic_e(m: Vector) -> Vector:
    """The complete elliptic integral of the second kind, by arithmetic-geometric means.

    SciPy's needs half a second to import. Abramowitz and Stegun, 17.6.

    >>> _elliptic_e(np.array([0.0, 0.5, 1.0]))  # E(1/2) by a table: 1.350643881048
    array([1.57079633, 1.35064388, 1.        ])
    """
    a, b = np.ones_like(m), np.sqrt(1.0 - m)
    total, power = 0.5 * m, 0.5
    for _ in range(8):  # digits double in each
        half_apart = 0.5 * (a - b)
        a, b = 0.5 * (a + b), np.sqrt(a * b)
        power *= 2.0
        total = total + power * half_apart**2
    return np.where(m < 1.0, 0.5 * np.pi / a * (1.0 - total), 1.0)
