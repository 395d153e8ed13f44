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
from typing import TypeAlias

import numpy as np

from semisure.geometry.squares import together
from semisure.refit.field_size import MOST, posterior_moment
from semisure.types import (
    FloatArray,
    IntArray,
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
BEYOND_BLOCKS = 3.0  # how much more sums vary, on exact views, than blocks tell
STEPS = 3  # of the fit
SMOOTH_PX = 96.0  # how far a matcher's own smooth error reaches
# These numbers were chosen on random views of photos, with and without a simulated lens
# or relief, by actual against expected corner errors (benchmarks/honest.py).
MIN_SLOPE = 0.2  # least mean of ψ′ against ψ/r


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
        scale, shift = _from_the_middle(*size.tolist())
    else:
        diagonal = np.sqrt((size * size).sum(axis=-1))
        scale, shift = 2.0 / diagonal, (1.0 - size.T) / diagonal
    off = points.T * scale
    off += shift
    square = off * off
    off *= LENS * (square[0] + square[1])
    return off


@lru_cache(maxsize=8)
def _from_the_middle(width: float, height: float) -> tuple[float, FloatArray]:
    """Scale and shift (2, 1) after which 1 is half a diagonal from the middle."""
    diagonal = hypot(width, height)
    off = np.array([[1.0 - width], [1.0 - height]]) / diagonal
    return 2.0 / diagonal, off


def across_lines(points: Points, size: FloatArray, normal: PerAxis) -> FloatArray:
    """Cosines across epipolar lines of unit `normal`, and the refined image's lens."""
    lens = (normal.T * radial(points, size)).sum(axis=0)
    return np.concatenate([cosines(points, size), lens[None]])[:, None]


Scored: TypeAlias = tuple[Vector, Vector]  # ψ/r and ψ′


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Sample:
    """Residuals of some matches, all axes in a row, and what moves them.

    Residuals in one column move alike: an axis of a match, or of matches so close to
    each other that no parameter and no wave tells them apart.
    """

    X: FloatArray  # by parameters and waves, (p + q, columns): all x, then all y
    axes: int
    count: int  # of places that matches are in
    block: IntArray | None  # of each place; None where each is a block
    starts: IntArray  # larger blocks begin at these places, and end at the next
    residual: Vector
    weight: Vector  # of the residuals, ψ/r
    column: IntArray | None  # of each residual; None where each has its own
    rescored: Callable[[Vector], Scored]  # of other residuals

    def summed(self, values: Vector) -> FloatArray:
        """What values of residuals add up to in columns."""
        if self.column is None:
            return values
        return np.asarray(np.bincount(self.column, values, self.X.shape[1]), float)

    def left(self, coefficients: Vector) -> FloatArray:
        """The residuals, less what parameters and waves make of them."""
        moved = coefficients @ self.X
        return self.residual - (moved if self.column is None else moved[self.column])

    def normal(self, weight: FloatArray) -> Matrix:
        """Σ x w xᵀ, given the weights of columns."""
        return steadied((self.X * weight) @ self.X.T)


def steadied(matrix: Matrix) -> Matrix:
    """The same, with a billionth more on its diagonal, lest a solver divide by 0."""
    diagonal = matrix.reshape(-1)[:: len(matrix) + 1]
    diagonal += 1e-9 * float(diagonal.sum()) / len(matrix)
    return matrix


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

    def rescored(residual: Vector) -> Scored:
        weight, slope = misfit.rescored(rows, residual.reshape(len(J), -1).T)
        return weight.T.ravel(), slope.T.ravel()

    residual = misfit.residual[rows].T.ravel()
    sample = Sample(
        X=np.hstack(list(X)),
        axes=len(X),
        count=len(rows),
        block=block_ids(misfit.points[rows], BLOCK_PX),
        starts=starts,
        residual=residual,
        weight=rescored(residual)[0],
        column=None,
        rescored=rescored,
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
    return v @ _ridged(moment, least_px**2) @ v.T


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


def second_moment(
    sample: Sample,
    parameters: int,
    lenses: int,
    extent_px: float,
    matcher_px2: float,
    *,
    taken_off: int = 0,
    most: float = MOST,
    known: FloatArray | None = None,
    quick: bool = False,
) -> Matrix:
    """E[c cᵀ] of the waves' coefficients c, given the residuals of some matches.

    Rows of X are `parameters` and then waves, whose last are `lenses`; of parameters
    that are not there, as many were `taken_off` the waves. To these, errors of `known`
    size (k, columns) are noise. A `quick` fit is one step, and half a step more from
    where that ends.
    """
    p, size, X = parameters, len(sample.X), sample.X
    ridge = np.zeros(size)
    ridge[p:] = (most * extent_px) ** -2
    fitted, residual = _fitted(sample, ridge, 1 if quick else STEPS)
    weight, slope = sample.rescored(residual)
    # The scores rise by ψ′ where the fit takes ψ/r: its coefficients are less certain.
    total = float(weight.sum())
    if not total > 0.0:
        raise np.linalg.LinAlgError("no match has weight once the field is taken off")
    rise = max(MIN_SLOPE, float(slope.sum()) / total)
    pull, by_column = sample.summed(weight * residual), sample.summed(weight)
    normal = sample.normal(by_column)
    if quick:
        more = np.linalg.solve(_ridged(normal, ridge), X @ pull) / rise
        fitted += more
        pull -= rise * by_column * (more @ X)
    G, left = normal, X
    if p:
        follows = np.linalg.solve(normal[:p, :p], normal[:p, p:])
        G = normal[p:, p:] - normal[p:, :p] @ follows
        left = X[p:] - follows.T @ X[:p]
    noise = _noise(left * pull, sample, (size + taken_off) / sample.axes)
    noise *= BEYOND_BLOCKS / rise**2
    if matcher_px2:
        felt = (left * by_column).reshape(len(left), sample.axes, -1)
        noise += matcher_px2 * _matchers_own(felt, sample.starts)
    if known is not None:
        felt = (left * by_column) @ known.T
        noise += felt @ felt.T
    # What s = G c + noise says of c.
    heard = G.T @ np.linalg.solve(steadied(noise), G)
    return posterior_moment(heard, heard @ fitted[p:], lenses, extent_px, most)


def _fitted(sample: Sample, ridge: Vector, steps: int) -> tuple[Vector, FloatArray]:
    """Parameters and coefficients by the matches' law, and the residuals left."""
    residual, weight = sample.residual, sample.weight
    for step in range(steps):
        if step:
            weight, _ = sample.rescored(residual)
        normal = _ridged(sample.normal(sample.summed(weight)), ridge)
        pull = sample.X @ sample.summed(weight * sample.residual)
        fitted = np.linalg.solve(normal, pull)
        residual = sample.left(fitted)
    return fitted, residual


def _ridged(matrix: Matrix, ridge: Vector | float) -> Matrix:
    """The matrix with some more on its diagonal."""
    total = matrix.copy()
    total.reshape(-1)[:: len(total) + 1] += ridge
    return total


def _noise(scores: FloatArray, sample: Sample, taken: float) -> Matrix:
    """Covariance of Σ scores (q, columns), of which a fit took degrees of freedom."""
    scores = scores.reshape(len(scores), sample.axes, -1).sum(axis=1)
    n, block = sample.count, sample.block
    blocks = 0 if block is None else int(block.max()) + 1
    # Too few blocks say less of their own noise than single matches do.
    if block is not None and blocks > 2 * taken:
        n, scores = blocks, np.array([np.bincount(block, row) for row in scores])
    return scores @ scores.T * (n / max(n - taken, 0.2 * n))


def _matchers_own(scores: FloatArray, starts: IntArray) -> Matrix:
    """Covariance of Σ scores where all matches of a larger block err alike, by 1 px.

    A smooth error of the matcher's own is heard as the model's, and is none. `scores`
    (q, axes, n) are those of errors of 1 px; a block begins at each of `starts`.
    """
    sums = np.add.reduceat(scores, starts, axis=2).reshape(len(scores), -1)
    return sums @ sums.T


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
