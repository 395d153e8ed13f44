"""A homography by the places to which it takes the corners of image 0."""

from __future__ import annotations

import numpy as np

from semisure.errors import InputError
from semisure.geometry import homography as plane
from semisure.refit import model_error
from semisure.types import FloatArray, Jacobian, Matches, Matrix, Matrix3, Points


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
        J = np.einsum(
            "den,ek->dkn", _by_entry(G, at @ unit[:2, :2]), np.linalg.pinv(corners)
        )
        if on_source.any():
            # x₀ = Π⁻¹(y) moves by −(∂Π/∂x)⁻¹ dΠ(x₀).
            local = plane.inverses_2x2(plane.jacobian(H_01, at[on_source]))
            J[:, :, on_source] = -np.einsum("nab,bkn->akn", local, J[:, :, on_source])
    return J


def _by_entry(G: Matrix3, points: Points) -> Jacobian:
    """∂ project(G, p) / ∂ entries of G, (2, 9, n)."""
    per_depth = 1.0 / plane.depth(G, points)
    x = np.stack([points[:, 0] * per_depth, points[:, 1] * per_depth, per_depth])
    u, v = plane.project(G, points).T
    D = np.zeros((2, 9, len(points)))
    D[0, :3] = D[1, 3:6] = x
    D[0, 6:], D[1, 6:] = -u * x, -v * x
    return D


def field_at(H_01: Matrix3, matches: Matches, points: Points) -> FloatArray:
    """What no homography follows, at points of image 0: px of the refined side.

    Cosines over image 0, and the lenses of both images, (q, 2, n).
    """
    size0, size1 = np.array(matches.source_size), np.array(matches.target_size)
    local = plane.jacobian(H_01, points)
    lens0 = model_error.radial(points, size0)
    lens1 = model_error.radial(plane.project(H_01, points), size1)
    if _refined_in_target(matches):
        lens0 = np.einsum("nab,bn->an", local, lens0)
    else:
        regular = np.abs(np.linalg.det(local)) > 1e-12
        local[~regular] = np.nan
        lens1 = np.einsum("nab,bn->an", np.linalg.inv(local), lens1)
    waves = model_error.on_both_axes(model_error.cosines(points, size0))
    return np.concatenate([waves, np.stack([lens0, lens1])])


def _refined_in_target(matches: Matches) -> bool:
    return 2 * np.count_nonzero(matches.side) >= len(matches)


def field_at_corners(H_01: Matrix3, matches: Matches) -> FloatArray:
    """What each function of the field does to the places of the corners, (8, q).

    A corner is where the field takes it. Where image 0 was refined the field is in its
    pixels, and moves the corner the other way.
    """
    frame = plane.corners(matches.source_size)
    field = field_at(H_01, matches, frame)
    if not _refined_in_target(matches):
        field = -np.einsum("cab,qbc->qac", plane.jacobian(H_01, frame), field)
    return field.transpose(2, 1, 0).reshape(8, -1)


def expected_corner_error(C: Matrix) -> float:
    """Mean over corners of the distance expected under `C` (8 × 8), px.

    E‖N(0, Σ)‖ of a 2 × 2 Σ with eigenvalues a ≥ b is √(2a/π) E(1 − b/a), with E the
    complete elliptic integral.

    >>> round(expected_corner_error(np.eye(8)), 12)  # √(π/2)
    1.253314137316
    """
    from scipy.special import ellipe

    C = np.asarray(C)
    if C.shape != (8, 8):
        raise InputError(
            "C must be the 8 × 8 covariance of a refitted homography, "
            "refit.covariance, which is None where matches do not determine one."
        )
    blocks = np.stack([C[i : i + 2, i : i + 2] for i in range(0, 8, 2)])
    small, large = np.maximum(np.linalg.eigvalsh(blocks), 0.0).T
    ratio = np.divide(small, large, out=np.ones_like(small), where=large > 0)
    return float((np.sqrt(2.0 * large / np.pi) * ellipe(1.0 - ratio)).mean())
