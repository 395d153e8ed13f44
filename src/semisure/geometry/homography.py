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
    with np.errstate(all="ignore"):
        mapped = H[:, :2] @ points.T + H[:, 2:]
        return (mapped[:2] / mapped[2]).T


def depth(H: Matrix3, points: Points) -> PerMatch:
    """Third homogeneous coordinate of the mapped points, (n,), 0 on the horizon."""
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


def checked(values: ArrayLike, name: str) -> Matrix3:
    """`values` as a homography; otherwise an error about `name`."""
    H = checked_matrix(values, name)
    largest, _, smallest = np.linalg.svd(H, compute_uv=False)
    if not smallest > 3 * np.finfo(float).eps * largest:  # as matrix_rank has it
        raise _no_homography(H, name)
    return H


def checked_matrix(values: ArrayLike, name: str) -> Matrix3:
    """The same for the model of an estimator, which may be singular."""
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
    with np.errstate(all="ignore"):  # none at the horizon
        down = project(H, points)[:, :, None] * H[2, :2]
        return (H[:2, :2] - down) / depth(H, points)[:, None, None]


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
    """The residuals with undefined ones (horizon, behind the camera) very large."""
    with np.errstate(invalid="ignore"):  # +∞ and −∞
        if np.isfinite(residual.sum()):  # a cheap test: then every term is finite
            return residual
    return np.nan_to_num(residual, nan=FAR_PX, posinf=FAR_PX, neginf=-FAR_PX)


def true_residual(H_01: Matrix3, matches: Matches) -> PerAxis:
    """Residuals under a homography that is the truth, for laws to be fitted to.

    A match whose true point lies outside the other image, or beyond the horizon, is a
    failure. The size of its residual, thousands of pixels near the horizon, tells
    nothing about the matcher: :func:`capped` limits it.

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
    finite = np.where(defined, residual, 0.0)
    length = np.hypot(finite[:, :1], finite[:, 1:])
    share = np.minimum(1.0, diagonal / np.maximum(length, 1e-300))
    return np.where(defined, share * finite, diagonal / np.sqrt(2.0))


def weighted_dlt(source: Points, target: Points, weight: PerMatch) -> Matrix3 | None:
    """H minimising Σ ω ‖ŷ × Hx̃‖² (algebraic), or None if it is not determined.

    Hartley's normalisation is weighted too: otherwise matches of weight zero
    still move the result.

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
    x = np.column_stack([p, np.ones(len(p))])
    squares = (x[:, :, None] * x[:, None]).reshape(-1, 9)
    factors = weight * np.stack([np.ones_like(weight), *q.T, (q**2).sum(axis=1)])
    one, by_u, by_v, by_both = (factors @ squares).reshape(4, 3, 3)
    nothing = np.zeros((3, 3))  # of the rows (x̃, 0, −u x̃) and (0, x̃, −v x̃)
    G = null_matrix(
        np.block(
            [[one, nothing, -by_u], [nothing, one, -by_v], [-by_u, -by_v, by_both]]
        )
    )
    return None if G is None else normalised(np.linalg.solve(T1, G @ T0))


def null_matrix(normal: Matrix) -> Matrix3 | None:
    """The G of norm 1 with the least gᵀNg, None if there are several.

    g are the nine entries of G, row after row.
    """
    values, vectors = np.linalg.eigh(normal)
    # Eigenvalues are squared singular values.
    if not values[1] > RANK_TOLERANCE**2 * values[-1]:
        return None
    return vectors[:, 0].reshape(3, 3)


def framed(points: Points, weight: PerMatch) -> tuple[Matrix3, Points] | None:
    """Hartley's frame, weighted, as a 3 × 3 map, and the points in it.

    Their weighted centroid becomes the origin and their rms distance √2; None if
    all weights are 0 or all points coincide.
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
    area = _signed_area(project(H, frame))
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
