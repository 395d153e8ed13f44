"""Homographies: projection, residuals on the refined side, the weighted DLT."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from semisure.errors import InputError
from semisure.types import (
    FloatArray,
    Matches,
    Matrix,
    Matrix3,
    PerAxis,
    PerMatch,
    Points,
)
from semisure.types.checks import as_reals, in_line
from semisure.types.matches import require_matches

# Below this share of the largest singular value, a second null direction exists:
# the weighted points do not determine one homography.
RANK_TOLERANCE = 1e-7
FAR_PX = 1e15  # stands for infinity where ∞ − ∞ would follow; its square is a float32


def project(H: Matrix3, points: Points) -> Points:
    """Image of `points` (n, 2) under `H`; infinite where a point meets the horizon."""
    x, y = points[:, 0], points[:, 1]
    mapped = np.empty_like(points)
    with np.errstate(all="ignore"):
        per_depth = 1.0 / depth(H, points)
        mapped[:, 0] = (H[0, 0] * x + H[0, 1] * y + H[0, 2]) * per_depth
        mapped[:, 1] = (H[1, 0] * x + H[1, 1] * y + H[1, 2]) * per_depth
    return mapped


def depth(H: Matrix3, points: Points) -> PerMatch:
    """Third homogeneous coordinate of the mapped points, (n,); its sign is a side."""
    return H[2, 0] * points[:, 0] + H[2, 1] * points[:, 1] + H[2, 2]


def inverse(H: Matrix3) -> Matrix3 | None:
    """H_10 from H_01 with the same normalisation, or None if H is singular."""
    try:
        with np.errstate(all="ignore"):
            back = np.linalg.inv(H)
            back = back / np.abs(back).max()
    except np.linalg.LinAlgError:
        return None
    return normalised(back) if np.isfinite(back).all() else None


def inverses_2x2(A: FloatArray) -> FloatArray:
    """A⁻¹ of each matrix of (n, 2, 2); infinite or NaN where there is none."""
    (a, b), (c, d) = A.transpose(1, 2, 0)
    with np.errstate(all="ignore"):
        adjugate = np.array([[d, -b], [-c, a]])
        adjugate /= a * d - b * c
    return adjugate.transpose(2, 0, 1)


def times_2x2(A: FloatArray, v: FloatArray) -> FloatArray:
    """A v of each matrix of (n, 2, 2) and each column of (2, n)."""
    (a, b), (c, d) = A.transpose(1, 2, 0)
    return np.stack([a * v[0] + b * v[1], c * v[0] + d * v[1]])


def checked(values: ArrayLike, name: str) -> Matrix3:
    """`values` as a homography, or a sentence that calls them by `name`."""
    H = checked_matrix(values, name)
    largest, _, smallest = np.linalg.svd(H, compute_uv=False)
    if not smallest > 3 * np.finfo(float).eps * largest:  # as matrix_rank has it
        raise _no_homography(H, name)
    return H


def checked_matrix(values: ArrayLike, name: str) -> Matrix3:
    """The same for what an estimator found, which may be singular."""
    H = as_reals(name, values)
    if H.shape != (3, 3) or not np.isfinite(H).all() or not np.any(H):
        raise _no_homography(H, name)
    peak = float(np.abs(H).max())
    # Squares of its entries must neither overflow nor vanish.
    return normalised(H if 1e-100 < peak < 1e100 else H / peak)


def _no_homography(H: FloatArray, name: str) -> InputError:
    return InputError(
        f"{name} must be an invertible, finite 3 × 3 homography from image 0 to "
        f"image 1, but is {in_line(H)}."
    )


def normalised(H: Matrix3) -> Matrix3:
    """`H` over its last entry, or over its norm where that entry vanishes."""
    last = H[2, 2]
    norm = float(np.linalg.norm(H))
    return H / last if abs(last) > 1e-12 * norm else H / norm


def jacobian(H: Matrix3, points: Points) -> FloatArray:
    """∂ project(H, p) / ∂p at each point, (n, 2, 2)."""
    mapped = project(H, points).T
    J = np.empty((2, 2, len(points)))  # an entry after the other in memory
    with np.errstate(all="ignore"):  # none at the horizon
        per_depth = 1.0 / depth(H, points)
        for a, b in np.ndindex(2, 2):
            J[a, b] = (H[a, b] - mapped[a] * H[2, b]) * per_depth
    return J.transpose(2, 0, 1)


def residual(H: Matrix3, matches: Matches) -> PerAxis:
    """Predicted minus reference on each match's refined side (eq. geom_residual).

    Where image 1 was refined this is ŷ − Π(x); where image 0 was, x − Π⁻¹(y).

    >>> from semisure.synthetic import SyntheticMatcher
    >>> matches, truth = SyntheticMatcher().match(np.eye(3), count=5)
    >>> np.allclose(residual(np.eye(3), matches), truth)
    True
    """
    require_matches(matches)
    if not isinstance(H, np.ndarray):
        H = checked_matrix(H, "H")
    on_target = matches.side == 1
    if on_target.all():
        return matches.target - project(H, matches.source)
    backward = inverse(H)
    if backward is None:
        return np.full((len(matches), 2), np.inf)
    on_source = matches.source - project(backward, matches.target)
    if not on_target.any():
        return on_source
    forward = matches.target - project(H, matches.source)
    return np.where(on_target[:, None], forward, on_source)


def far_not_undefined(residual: FloatArray) -> FloatArray:
    """The residuals with undefined ones (horizon, behind the camera) very far off."""
    # One finite sum means that every term is finite: a cheaper look than n of them.
    with np.errstate(invalid="ignore"):  # +∞ and −∞
        total = residual.sum()
    if np.isfinite(total):
        return residual
    return np.nan_to_num(residual, nan=FAR_PX, posinf=FAR_PX, neginf=-FAR_PX)


def true_residual(H_01: Matrix3, matches: Matches) -> PerAxis:
    """Residuals under a homography that is the truth, for laws to be fitted to.

    A match whose true point lies outside the other image, or beyond the horizon, has
    failed, and counts as such. But how far off that point would be says nothing of the
    matcher: near the horizon it is thousands of pixels. See :func:`capped`.

    >>> from semisure.synthetic import SyntheticMatcher
    >>> matches, truth = SyntheticMatcher().match(np.eye(3), count=5)
    >>> near_horizon = np.array([[1, 0, 0], [0, 1, 0], [-1 / 320, 0, 1]])
    >>> lengths = np.linalg.norm(true_residual(near_horizon, matches), axis=1)
    >>> bool((lengths <= 800.000001).all())  # of 640 × 480 px
    True
    """
    return capped(residual(H_01, matches), matches)


def capped(residual: PerAxis, matches: Matches) -> PerAxis:
    """True residuals, none longer than the diagonal of the image they are in.

    One that is undefined has the diagonal's length, in equal parts of both axes.
    """
    diagonal = np.linalg.norm(matches.refined_size, axis=1, keepdims=True)
    defined = np.isfinite(residual).all(axis=1, keepdims=True)
    known = np.where(defined, residual, 0.0)
    length = np.hypot(known[:, :1], known[:, 1:])
    share = np.minimum(1.0, diagonal / np.maximum(length, 1e-300))
    return np.where(defined, share * known, diagonal / np.sqrt(2.0))


def weighted_dlt(source: Points, target: Points, weight: PerMatch) -> Matrix3 | None:
    """H minimising Σ ω ‖ŷ × Hx̃‖² (algebraic), or None if it is not determined.

    Hartley's normalisation is weighted too: otherwise matches of weight zero
    still move the result. The 9 × 9 normal matrix is built from moments,
    Σ ω {1, u, v, u² + v²} ⊗ x̃x̃ᵀ, so the 2n × 9 matrix is never formed.

    >>> import numpy as np
    >>> square = np.array([[0.0, 0], [1, 0], [1, 1], [0, 1]])
    >>> weighted_dlt(square, 2 * square + 1, np.ones(4)).round(9) + 0.0
    array([[2., 0., 1.],
           [0., 2., 1.],
           [0., 0., 1.]])
    """
    frame0, frame1 = framed(source, weight), framed(target, weight)
    if frame0 is None or frame1 is None:
        return None
    (T0, p), (T1, q) = frame0, frame1
    values, vectors = np.linalg.eigh(_dlt_matrix(p, q, weight))
    # Eigenvalues are squared singular values.
    if not values[1] > RANK_TOLERANCE**2 * values[-1]:
        return None
    return normalised(np.linalg.solve(T1, vectors[:, 0].reshape(3, 3) @ T0))


def framed(points: Points, weight: PerMatch) -> tuple[Matrix3, Points] | None:
    """Hartley's frame, weighted, as a 3 × 3 map, and the points in it.

    Their weighted centroid becomes the origin and their rms distance √2; None if
    no weight is left or all points coincide.
    """
    total = float(weight.sum())
    if not (total > 0.0 and np.isfinite(total)):
        return None
    center = (weight @ points) / total
    moved = points - center
    rms = float(np.sqrt((weight @ (moved * moved)).sum() / total))
    if not (np.isfinite(rms) and rms > 1e-12 * (1.0 + float(np.abs(center).max()))):
        return None
    scale = float(np.sqrt(2.0)) / rms
    moved *= scale
    T = np.array(
        [[scale, 0, -scale * center[0]], [0, scale, -scale * center[1]], [0, 0, 1]]
    )
    return T, moved


def _dlt_matrix(p: Points, q: Points, weight: PerMatch) -> Matrix:
    """Σ ω AᵀA (9 × 9) of the rows (x̃, 0, −u x̃) and (0, x̃, −v x̃), (u, v) = q."""
    u, v = q[:, 0], q[:, 1]
    factors = np.empty((4, len(weight)))
    factors[0] = weight
    np.multiply(weight, u, out=factors[1])
    np.multiply(weight, v, out=factors[2])
    factors[3] = factors[1] * u + factors[2] * v
    one, by_u, by_v, by_uv = _outer_moments(factors, p[:, 0], p[:, 1])
    matrix = np.zeros((9, 9))
    matrix[0:3, 0:3] = matrix[3:6, 3:6] = one
    matrix[0:3, 6:9] = matrix[6:9, 0:3] = -by_u
    matrix[3:6, 6:9] = matrix[6:9, 3:6] = -by_v
    matrix[6:9, 6:9] = by_uv
    return matrix


def _outer_moments(factors: FloatArray, x: PerMatch, y: PerMatch) -> FloatArray:
    """Σ factor · ttᵀ for each row of factors, (k, 3, 3), with t = (x, y, 1)."""
    products = np.empty((6, len(x)))
    np.multiply(x, x, out=products[0])
    np.multiply(x, y, out=products[1])
    np.multiply(y, y, out=products[2])
    products[3], products[4], products[5] = x, y, 1.0
    moments = factors @ products.T
    return moments[:, [0, 1, 3, 1, 2, 4, 3, 4, 5]].reshape(-1, 3, 3)


def corners(size: tuple[int, int]) -> Points:
    """Centres of the four corner pixels, clockwise from the top left, (4, 2)."""
    right, bottom = size[0] - 1.0, size[1] - 1.0
    return np.array([[0.0, 0.0], [right, 0.0], [right, bottom], [0.0, bottom]])


def defect(H: Matrix3, size: tuple[int, int]) -> str | None:
    """Why `H` is no view of an image of `size`, or None if it is one.

    Such a view is finite, invertible, keeps the whole image on one side of the
    horizon, and does not shrink it to less than a ten-thousandth of its area.
    """
    if not np.isfinite(H).all():
        return "it is not finite"
    frame = corners(size)
    w = depth(H, frame)
    if not ((w > 0).all() or (w < 0).all()):
        return "it turns the image inside out"
    seen = project(H, frame)
    area = _signed_area(seen)
    if not abs(area) > 1e-4 * abs(_signed_area(frame)):
        return "it collapses the image"
    return None


def _signed_area(quad: Points) -> float:
    (a, b), (c, d) = quad[2] - quad[0], quad[3] - quad[1]
    return 0.5 * float(a * d - b * c)


def mirrors(H: Matrix3) -> bool:
    """True where `H` flips orientation, as a mirror does."""
    # The local orientation is the sign of det H / depth³, and depth is ±1 · H[2, 2]
    # on the image's side of the horizon.
    return bool(np.linalg.det(H) * H[2, 2] < 0)
