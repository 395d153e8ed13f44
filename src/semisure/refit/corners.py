"""The covariance of an image's corners under a refitted homography."""

from __future__ import annotations

import numpy as np

from semisure.errors import InputError
from semisure.geometry import homography as plane
from semisure.law.error_laws import error_law
from semisure.refit.core_plus import floored, scores
from semisure.refit.covariance import Scores, covariance, radial
from semisure.types import (
    Calibration,
    FloatArray,
    Jacobian,
    Matches,
    Matrix,
    Matrix3,
    PerAxis,
    PerMatch,
    Points,
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
    x = matches.source
    if on_source.any():
        back = plane.inverse(H_01)
        if back is None:
            return None
        x = np.where(on_source[:, None], plane.project(back, matches.target), x)
    with np.errstate(all="ignore"):
        corners = _by_entry(G, frame @ unit[:2, :2]).transpose(2, 0, 1).reshape(8, 9)
        if not np.isfinite(corners).all():  # a corner lies on the horizon
            return None
        # The null direction of nine entries is their scale, which pinv leaves alone.
        J = np.linalg.pinv(corners).T @ _by_entry(G, x @ unit[:2, :2])
        return on_refined_side(H_01, matches, J)


def on_refined_side(H_01: Matrix3, matches: Matches, moves: Jacobian) -> Jacobian:
    """Moves (2, k, n) of predictions in image 1 as moves on each match's refined side.

    Where a match lives in image 0, x₀ = Π⁻¹(y) moves by −(∂Π⁻¹/∂y) dΠ(x₀).
    """
    back = plane.inverse(H_01)
    if back is None or matches.side.all():
        return moves
    local = plane.jacobian(back, matches.target)
    backward = -np.einsum("nab,bkn->akn", local, moves)
    return np.where(matches.side == 0, backward, moves)


def _by_entry(G: Matrix3, points: Points) -> Jacobian:
    """∂ project(G, p) / ∂ entries of G, (2, 9, n)."""
    lifted = np.column_stack([points, np.ones(len(points))]).T
    mapped = G @ lifted
    direction, D = lifted / mapped[2], np.zeros((2, 9, len(points)))
    D[0, :3] = D[1, 3:6] = direction
    D[:, 6:] = -(mapped[:2] / mapped[2])[:, None] * direction
    return D


def corner_covariance(
    H_01: Matrix3,
    matches: Matches,
    calibration: Calibration,
    weight: PerMatch | None = None,
    *,
    field: bool = True,
) -> Matrix | None:
    """8 × 8 px² of the images of image 0's corners, x and y in turn.

    Of ``core+``, or of least squares with a `weight`. Without `field` neighbours share
    no errors, and there is no lens or relief.
    """
    # One error of the model moves predictions in image 0 and in image 1 opposite ways.
    # With this sign, errors that neighbours share add up on either side.
    sign = np.where(matches.side == 0, -1.0, 1.0)
    places = np.clip(matches.target, 0.0, matches.target_size)
    with np.errstate(all="ignore"):  # undefined residuals do not count
        residual = plane.residual(H_01, matches)
        if weight is None:
            law = floored(error_law(matches, calibration), matches)
            own_scores = scores(law, residual)
        else:
            own_scores = Scores.of_weight(weight, residual)
        own_scores = own_scores._replace(score=sign * own_scores.score)
        J = corner_jacobian(H_01, matches)
        if J is None:
            return None
        J = sign * J
        if not field:
            return covariance(places, own_scores, J)
        frame = plane.corners(matches.source_size)
        lens = _bent(H_01, matches, matches.source, matches.target)
        at_corners = _bent(H_01, matches, frame, plane.project(H_01, frame))
        C = covariance(
            places,
            own_scores,
            J,
            lens=sign * on_refined_side(H_01, matches, lens),
            lens_at_places=at_corners.transpose(2, 0, 1).reshape(8, -1),
        )
    least = LEAST_ERROR if calibration.model_error is None else calibration.model_error
    floor = least * float(np.hypot(*matches.target_size))
    return None if C is None else C + floor**2 * np.eye(8)


def _bent(H_01: Matrix3, matches: Matches, first: Points, second: Points) -> FloatArray:
    """How a lens of either image moves points in image 1, (2, 2, n)."""
    by_first = radial(first, matches.source_size)
    by_first = -np.einsum("nab,bn->an", plane.jacobian(H_01, first), by_first)
    return np.stack([radial(second, matches.target_size), by_first], axis=1)


def corner_variance(C: Matrix, H_01: Matrix3, matches: Matches) -> PerAxis:
    """Variance of each match's prediction, px², if the corners have covariance `C`.

    0 where the prediction is undefined.
    """
    J = corner_jacobian(H_01, matches)
    if J is None:
        return np.zeros_like(matches.source)
    with np.errstate(invalid="ignore"):
        variance = np.einsum("dkn,kl,dln->nd", J, C, J, optimize=True)
    return np.where(np.isfinite(variance), variance, 0.0)


def expected_corner_error(C: Matrix) -> float:
    """Mean over corners of the distance expected under `C` (8 × 8), px.

    A normal variable has a length of √(π/2) √(uᵀΣu), averaged over directions u.

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
    angle = np.linspace(0.0, np.pi, 4096, endpoint=False)
    u = np.stack([np.cos(angle), np.sin(angle)])
    lengths = np.sqrt(np.maximum(np.einsum("an,kab,bn->kn", u, blocks, u), 0.0))
    return float(np.sqrt(0.5 * np.pi) * lengths.mean())
