"""What a model itself cannot follow: a lens, relief, a shutter that rolls.

Thousands of matches average their own errors away, but not the model's. No homography
is what a lens makes of a plane: the residuals then have a smooth part over the image,
of some tenths of a pixel or more, that no further match makes smaller.

It is taken as a random smooth field: for each axis, cosines of few periods over the
image, whose standard deviations fall with the square of their frequency, and besides
the radial distortion of lenses, which is largest where it matters: of one that took
both images, as a rule, and a tenth of it by which they differ. The field is
fitted to the residuals together with the model, by the matches' own law. How large it
is, its root mean square τ, has a posterior: the coefficients' likelihood, with noise
that is independent only from block to block, times a wide prior. The coefficients'
posterior second moment M then moves the model, and where parameters stand for places
in the image, as corners do, the field is part of their error:

    C += V (M + τ₀²) Vᵀ,    v_f = A⁻¹ Σ Jᵀψ′φ_f − φ_f(corner)

with A the bread of the sandwich, φ_f the cosines, and τ₀ the least that is ever
assumed of a photograph (:data:`LEAST_OF_PLANES`, :data:`LEAST_OF_CAMERAS`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import hypot

import numpy as np

from semisure.geometry.squares import together
from semisure.refit.field_fit import Sample, Weighed, ridged, second_moment
from semisure.refit.field_size import MOST
from semisure.types import (
    FloatArray,
    Labels,
    Mask,
    Matrix,
    PerAxis,
    Points,
    Vector,
)

# τ₀ as a share of the image's diagonal. Under a homography it makes 5e-4 of it at the
# corners, 0.4 px of 800: what a good lens or a flat wall keeps. Cameras bend less than
# planes do.
LEAST_OF_PLANES, LEAST_OF_CAMERAS = 2e-4, 5e-5
# The largest τ of lenses and shutters: cheap ones make that. Relief may be anything.
MOST_OF_CAMERAS = 0.005
MAX_FREQUENCY = 2  # half periods over the image
FALLOFF = 4.0  # of a cosine's variance with its frequency
LENS = 4.0  # size of a lens' distortion at half a diagonal, at τ = 1
APART = 0.1  # the lens by which two images differ, against the one that both have
ROWS = 2000  # matches looked at, taken evenly
BLOCK_PX = 32.0  # matches in one block err together
SMOOTH_PX = 96.0  # how far a matcher's own smooth error reaches
# These numbers were chosen on random views of photos, with and without a simulated lens
# or relief, by actual against expected corner errors (benchmarks/honest.py).


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Misfit:
    """What is needed to find the field of one pair."""

    waves: FloatArray  # (q, axes, n), each as large as usual at τ = 1
    lenses: int  # how many of the last of them are lenses
    own: FloatArray | float  # the field at what parameters stand for, (p, q)
    points: Points
    residual: FloatArray  # (n, axes)
    # Of some matches, by their rows, and other residuals: ψ/r and ψ′, (n, axes).
    rescored: Callable[[Labels, FloatArray], tuple[FloatArray, FloatArray]]
    extent_px: float  # the image's diagonal
    least_px: float  # τ₀
    most: float = MOST  # largest τ that is tried, in diagonals
    # Errors of known size beside the field, such as those of intrinsics, (k, axes, n).
    known: FloatArray | None = None

    def all_waves(self) -> FloatArray:
        """Those of the field, then those of known size."""
        if self.known is None:
            return self.waves
        return np.concatenate([self.waves, self.known])


def least_px(share: float | None, extent_px: float, *, plane: bool) -> float:
    """τ₀ for an image of that diagonal; `share` None stands for a photograph."""
    if share is None:
        share = LEAST_OF_PLANES if plane else LEAST_OF_CAMERAS
    return share * extent_px


def cosines(points: Points, size: FloatArray) -> FloatArray:
    """The cosines at points of an image, times their standard deviations, (f, n).

    The variances add up to a mean square of 1 over the image.

    >>> grid = np.stack(np.meshgrid(np.arange(64.0), np.arange(48.0)), axis=-1)
    >>> values = cosines(grid.reshape(-1, 2), np.array([64, 48]))
    >>> len(values), round(float((values**2).mean(axis=1).sum()), 9)
    (8, 1.0)
    """
    once = np.cos((points + 0.5) * (np.pi / size)).T
    waves = np.empty((2, MAX_FREQUENCY + 1, len(points)))
    waves[:, 0], waves[:, 1] = 1.0, once
    for k in range(2, MAX_FREQUENCY + 1):  # cos kx = 2 cos x cos (k − 1)x − …
        np.multiply(2.0 * once, waves[:, k - 1], out=waves[:, k])
        waves[:, k] -= waves[:, k - 2]
    products = waves[0][:, None] * waves[1]
    return products.reshape(-1, len(points))[1:] * _DEVIATIONS[:, None]


def _deviations() -> Vector:
    """Standard deviations of the cosines, x and y in turn, but the constant."""
    i, j = np.indices((MAX_FREQUENCY + 1, MAX_FREQUENCY + 1)).reshape(2, -1)[:, 1:]
    variance = (i**2 + j**2) ** (-0.5 * FALLOFF)
    mean_square = np.where(i > 0, 0.5, 1.0) * np.where(j > 0, 0.5, 1.0)
    return np.sqrt(variance / (variance @ mean_square))


_DEVIATIONS = _deviations()


def radial(points: Points, size: FloatArray) -> FloatArray:
    """The distortion of a lens at points of its image, LENS at half a diagonal, (2, n).

    >>> radial(np.array([[0.0, 0.0], [319.5, 239.5]]), np.array([640, 480])).T.round(1)
    array([[-3.2, -2.4],
           [ 0. ,  0. ]])
    """
    if size.ndim == 1:
        scale, shift = from_the_middle(*size.tolist())
    else:
        diagonal = np.sqrt((size * size).sum(axis=-1))
        scale, shift = 2.0 / diagonal, (1.0 - size.T) / diagonal
    off = points.T * scale
    off += shift
    return distorted(off)


def distorted(off: FloatArray) -> FloatArray:
    """That distortion, where 1 is half a diagonal from the middle, (…, 2, n)."""
    square = off * off
    square = square[..., :1, :] + square[..., 1:, :]
    square *= LENS
    off *= square
    return off


@lru_cache(maxsize=8)
def from_the_middle(width: float, height: float) -> tuple[float, FloatArray]:
    """Scale and shift (2, 1) after which 1 is half a diagonal from the middle."""
    diagonal = hypot(width, height)
    off = np.array([[1.0 - width], [1.0 - height]]) / diagonal
    return 2.0 / diagonal, off


def across_lines(points: Points, size: FloatArray, normal: PerAxis) -> FloatArray:
    """Cosines across epipolar lines of unit `normal`, and the refined image's lens."""
    lens = (normal.T * radial(points, size)).sum(axis=0)
    return np.concatenate([cosines(points, size), lens[None]])[:, None]


def added_covariance(
    J: FloatArray,
    good: Mask,
    response: FloatArray,
    misfit: Misfit,
    matcher_px2: float = 0.0,
) -> Matrix:
    """What the field adds to the parameters' covariance.

    `J` (axes, p, n) is ∂ prediction, and `response` (p, q) is how far each wave
    moves the parameters. Matches that are not `good` say nothing. `matcher_px2` is
    the variance of the smooth error that the matcher itself makes.
    """
    rows = np.flatnonzero(good)
    rows = rows[:: stride(len(rows))]
    order, starts = together(misfit.points[rows].T, SMOOTH_PX)
    rows = rows[order]
    some = J[:, :, rows]
    scaled = some / np.sqrt((some**2).sum(axis=(0, 2)))[:, None]
    X = np.concatenate([scaled, misfit.waves[:, :, rows].transpose(1, 0, 2)], axis=1)

    def weighed(residual: Vector) -> Weighed:
        weight, slope = misfit.rescored(rows, residual.reshape(len(J), -1).T)
        return weight.T.ravel(), float(slope.sum())

    sample = Sample(
        X=np.hstack(list(X)),
        axes=len(X),
        count=len(rows),
        block=block_ids(misfit.points[rows], BLOCK_PX),
        starts=starts,
        residual=misfit.residual[rows].T.ravel(),
        column=None,
        weighed=weighed,
    )
    known = misfit.known
    moment = second_moment(
        sample,
        J.shape[1],
        misfit.lenses,
        misfit.extent_px,
        matcher_px2,
        most=misfit.most,
        known=None if known is None else known[:, :, rows].reshape(len(known), -1),
    )
    by_field, by_known = np.split(response, [len(moment)], axis=1)
    field = spread_of(by_field - misfit.own, moment, misfit.least_px)
    return np.asarray(field + by_known @ by_known.T)


def stride(count: int) -> int:
    """Every how-manieth of so many matches is looked at."""
    return max(1, -(-count // ROWS))


def spread_of(v: FloatArray, moment: Matrix, least_px: Vector | float) -> FloatArray:
    """V (M + τ₀²) Vᵀ, with a least size of each wave or of all."""
    return v @ ridged(moment, least_px**2) @ v.T


def positive_part(C: Matrix) -> Matrix:
    """`C`, or the nearest matrix to it without negative variances, made by rounding.

    >>> positive_part(np.diag([2.0, -1e-20])).tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """
    try:  # quick, and nearly always enough
        np.linalg.cholesky(C)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(0.5 * (C + C.T))
        if values[0] < 0.0:
            return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
    return C


def block_ids(points: Points, side_px: float) -> Labels:
    """Which square of the image each point lies in, counted from 0."""
    cells = np.floor(points / side_px).astype(np.int64)
    cells -= cells.min(axis=0)
    columns, rows = (int(most) + 1 for most in cells.max(axis=0))
    flat = cells[:, 0] * rows + cells[:, 1]
    if columns * rows > 16 * len(points):  # too many squares to look at each
        return np.unique(flat, return_inverse=True)[1].astype(np.int64)
    held = np.bincount(flat, minlength=columns * rows) > 0
    return (np.cumsum(held) - 1)[flat]
