"""A smooth field fitted to residuals by the matches' own law, and what they say of it.

What the field is, :mod:`semisure.refit.model_error` says; its numbers and those below
were chosen together. How large it may be is in :mod:`semisure.refit.field_size`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from semisure.refit.field_size import MOST, posterior_moment
from semisure.types import FloatArray, IntArray, Matrix, Vector

BEYOND_BLOCKS = 3.0  # how much more sums vary, on exact views, than blocks tell
STEPS = 3  # of the fit
MIN_SLOPE = 0.2  # least mean of ψ′ against ψ/r

Weighed: TypeAlias = tuple[Vector, float]  # ψ/r, and the sum of ψ′


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
    column: IntArray | None  # of each residual; None where each has its own
    weighed: Callable[[Vector], Weighed]  # of any residuals

    def summed(self, values: Vector) -> FloatArray:
        """What values of residuals add up to in columns."""
        if self.column is None:
            return values
        return np.asarray(np.bincount(self.column, values, self.X.shape[1]), float)

    def left(self, coefficients: Vector) -> FloatArray:
        """The residuals, less what parameters and waves make of them."""
        moved = coefficients @ self.X
        if self.column is not None:
            moved = moved.take(self.column)
        return np.asarray(self.residual - moved)


def steadied(matrix: Matrix) -> Matrix:
    """The same, with a billionth more on its diagonal, lest a solver divide by 0."""
    diagonal = matrix.reshape(-1)[:: len(matrix) + 1]
    diagonal += 1e-9 * float(diagonal.sum()) / len(matrix)
    return matrix


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Fit:
    """Waves fitted to residuals, less what the parameters follow of them."""

    left: FloatArray  # what the waves do to columns then, (q, columns)
    felt: FloatArray  # the same times ψ/r
    normal: Matrix  # Σ of left, felt
    pull: FloatArray  # ψ that the fit leaves in columns
    coefficients: Vector
    rise: float  # of scores, against ψ/r: coefficients are the less certain


def second_moment(
    sample: Sample,
    parameters: int,
    lenses: int,
    extent_px: float,
    matcher_px2: float,
    *,
    most: float = MOST,
    known: FloatArray | None = None,
) -> Matrix:
    """E[c cᵀ] of the waves' coefficients c, given the residuals of some matches.

    Rows of X are `parameters` and then waves, whose last are `lenses`. To these, errors
    of `known` size (k, columns) are noise.
    """
    p, X = parameters, sample.X
    ridge = np.zeros(len(X))
    ridge[p:] = (most * extent_px) ** -2
    residual = sample.residual
    for _ in range(STEPS):
        weight, _slope = sample.weighed(residual)
        normal = steadied((X * sample.summed(weight)) @ X.T)
        pull = X @ sample.summed(weight * sample.residual)
        fitted = np.linalg.solve(ridged(normal, ridge), pull)
        residual = sample.left(fitted)
    weight, slope = sample.weighed(residual)
    rise, by_column = _rise(weight, slope), sample.summed(weight)
    normal = steadied((X * by_column) @ X.T)
    follows = np.linalg.solve(normal[:p, :p], normal[:p, p:])
    left = X[p:] - follows.T @ X[:p]
    fit = Fit(
        left=left,
        felt=left * by_column,
        normal=normal[p:, p:] - normal[p:, :p] @ follows,
        pull=sample.summed(weight * residual),
        coefficients=fitted[p:],
        rise=rise,
    )
    noise = _noise(fit, sample, len(X), matcher_px2)
    if known is not None:
        felt = fit.felt @ known.T
        noise += felt @ felt.T
    return _told(fit, noise, lenses, extent_px, most)


def quick_moment(
    sample: Sample,
    weight: FloatArray,
    score: FloatArray,
    taken_off: int,
    lenses: int,
    extent_px: float,
    matcher_px2: float,
) -> Matrix:
    """The same from one step, and half a step more from where that ends.

    X is waves alone, off which so many parameters were `taken_off`. Of the residuals as
    they are, `weight` is Σ ψ/r of each column, and `score` is ψ.
    """
    X, ridge = sample.X, (MOST * extent_px) ** -2
    _, _, fitted = _step(X, weight, sample.summed(score), ridge)
    residual = sample.left(fitted)
    weight, slope = sample.weighed(residual)
    rise, pull = _rise(weight, slope), sample.summed(weight * residual)
    felt, normal, more = _step(X, sample.summed(weight), pull, ridge)
    pull -= more @ felt
    fit = Fit(
        left=X,
        felt=felt,
        normal=normal,
        pull=pull,
        coefficients=fitted + more / rise,
        rise=rise,
    )
    noise = _noise(fit, sample, len(X) + taken_off, matcher_px2)
    return _told(fit, noise, lenses, extent_px, MOST)


def _step(
    X: FloatArray, weight: FloatArray, pull: FloatArray, ridge: float
) -> tuple[FloatArray, Matrix, FloatArray]:
    """X w, X w Xᵀ, and the coefficients that take a pull off the columns."""
    felt = X * weight
    normal = felt @ X.T
    return felt, normal, np.linalg.solve(ridged(normal, ridge), X @ pull)


def _rise(weight: Vector, slope: float) -> float:
    """How much the scores rise, ψ′, where a fit takes ψ/r."""
    total = float(weight.sum())
    if not total > 0.0:
        raise np.linalg.LinAlgError("no match has weight once the field is taken off")
    return max(MIN_SLOPE, slope / total)


def _told(
    fit: Fit, noise: Matrix, lenses: int, extent_px: float, most: float
) -> Matrix:
    """What s = normal · c + noise says of the coefficients c."""
    heard = fit.normal.T @ np.linalg.solve(steadied(noise), fit.normal)
    return posterior_moment(heard, heard @ fit.coefficients, lenses, extent_px, most)


def ridged(matrix: Matrix, ridge: Vector | float) -> Matrix:
    """The matrix with some more on its diagonal."""
    total = matrix.copy()
    total.reshape(-1)[:: len(total) + 1] += ridge
    return total


def _noise(fit: Fit, sample: Sample, fitted: int, matcher_px2: float) -> Matrix:
    """Covariance of Σ scores, of which a fit took as many degrees of freedom."""
    shape = len(fit.left), sample.axes, -1
    left, pull = fit.left.reshape(shape), fit.pull.reshape(shape[1:])
    scores = left[:, 0] * pull[0]
    for axis in range(1, sample.axes):
        scores += left[:, axis] * pull[axis]
    n, block, taken = sample.count, sample.block, fitted / sample.axes
    blocks = 0 if block is None else int(block.max()) + 1
    # Too few blocks say less of their own noise than single matches do.
    if block is not None and blocks > 2 * taken:
        n, scores = blocks, np.array([np.bincount(block, row) for row in scores])
    beyond = n / max(n - taken, 0.2 * n) * BEYOND_BLOCKS / fit.rise**2
    noise: Matrix = (beyond * scores) @ scores.T
    if matcher_px2:
        noise += matcher_px2 * _matchers_own(fit.felt.reshape(shape), sample.starts)
    return noise


def _matchers_own(scores: FloatArray, starts: IntArray) -> Matrix:
    """Covariance of Σ scores where all matches of a larger block err alike, by 1 px.

    A smooth error of the matcher's own is heard as the model's, and is none. `scores`
    (q, axes, n) are those of errors of 1 px; a block begins at each of `starts`.
    """
    sums = np.add.reduceat(scores, starts, axis=2).reshape(len(scores), -1)
    return sums @ sums.T
