"""The covariance of a refitted model: one estimator for every model.

A refit solves Σ Jᵀs = 0, with s the score of each match and s′ its slope. Were matches
independent, C = A⁻¹ (Σ size² JᵀJ) A⁻¹ with A = Σ s′ JᵀJ. But neighbours share a part of
their errors, so scores are modelled as

    s = size · √scale · (√(1 − f) own + √f shared),    corr(shared) = kernel(distance).

The share f, the kernel and the scale are estimated from the pair's own scores, summed
over a hundred cells of the image, by restricted likelihood, which projects out what
the model can explain by moving. One pair does not determine them,
so C is the mean over them, weighted by that likelihood. A lens is one more smooth error
in it, of unknown size. Errors of known size, such as those of intrinsics, are added.
Where parameters are places in the image, as corners are, a lens moves them too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from semisure.types import (
    Columns,
    FloatArray,
    Labels,
    Matrix,
    PerAxis,
    PerMatch,
    Points,
)

CELLS = 100  # of the image, by which scores are summed
LEAST_CELL_PX = 8.0
# Reaches in px of exp(−d / reach) and, if smooth, of exp(−½ (d / reach)²).
KERNELS = (
    *((reach, False) for reach in (20.0, 40.0, 80.0, 160.0)),
    *((reach, True) for reach in (80.0, 160.0, 320.0)),
)
SHARES = np.array([0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 0.95])
# A share of 0 is the same whatever the kernel: it counts once.
PRIOR = np.where(SHARES > 0, 1.0, 1.0 / len(KERNELS))
LEAST_SLOPE = 0.2  # mean slope of scores, as a share of their weight
EXACT = 1e-20  # least sum of squares, for matches may be exact
ROUNDING = 1e-12  # as a share of a sum of squares
LENS_PX2 = np.array([0.0, 0.01, 0.04, 0.16, 0.64, 2.5, 10.0])  # at half a diagonal


class Scores(NamedTuple):
    """The scores s of matches, their slopes, and the sizes that their law expects."""

    score: FloatArray  # (axes, n)
    slope: FloatArray
    size: FloatArray

    @classmethod
    def of_weight(cls, weight: PerMatch, residual: PerAxis) -> Scores:
        """Of weighted least squares, s = ω r, where 1 / √ω is the deviation of r."""
        both = np.repeat(weight[None], residual.shape[1], axis=0)
        return cls(both * residual.T, both, np.sqrt(both))


def mean_slope(weight: FloatArray, slope: FloatArray) -> FloatArray:
    """The weight (axes, n) times the mean ratio of slopes to weights.

    Slopes of single matches are noisy, and negative where a posterior falls fast.
    """
    total = np.nansum(weight, axis=1, keepdims=True)
    share = np.nansum(slope, axis=1, keepdims=True) / total
    return weight * np.maximum(share, LEAST_SLOPE)


def covariance(
    points: Points,
    scores: Scores,
    J: FloatArray,
    *,
    lens: FloatArray | None = None,
    lens_at_places: FloatArray | None = None,
    errors: FloatArray | None = None,
) -> Matrix | None:
    """Covariance (p, p) of the parameters, or None where they are not determined.

    Parameters
    ----------
    points
        Where the matches are, (n, 2) px, all within the image: in cells beyond it every
        match failed, and scores are too small.
    J
        ∂ prediction / ∂ parameters, (axes, p, n).
    lens
        How lenses of 1 px at half a diagonal move predictions, (axes, l, n).
    lens_at_places
        How they move the places in the image that parameters stand for, (p, l).
    errors
        How errors of known size move predictions, (axes, k, n).
    """
    none = np.zeros((len(J), 0, len(points)))
    lens = none if lens is None else lens
    p, q = J.shape[1], J.shape[1] + lens.shape[1]
    fields = np.concatenate([J, lens, none if errors is None else errors], axis=1)
    usable = np.isfinite(fields.sum(axis=(0, 1)) + scores.score.sum(axis=0))
    usable &= (scores.slope.sum(axis=0) > 0) & ((scores.size**2).sum(axis=0) > 0)
    fields, points = fields[:, :, usable], points[usable]
    score, slope, size = (part[:, usable] for part in scores)
    J, weighted = fields[:, :p], fields * slope[:, None]
    normal = (weighted @ J.transpose(0, 2, 1)).sum(axis=0)
    if not _positive(normal[:p]):
        return None
    cells = Grid.of(points)
    own = np.sqrt((size**2).mean(axis=0))  # of both axes: one decomposition serves both
    root = np.sqrt(cells.summed(own**2))
    both = np.concatenate([weighted[:, :q], score[:, None]], axis=1)
    summed = cells.summed(both) / root
    by_cells = (summed[:, :p] @ summed[:, :p].transpose(0, 2, 1)).sum(axis=0)
    if summed.shape[0] * summed.shape[2] <= p or not _positive(by_cells):
        return None
    relative, by_cell = cells.summed(own) / root, cells.summed(own * J)
    alone = ((J * own**2) @ J.transpose(0, 2, 1)).sum(axis=0)
    shared, fits = [], []
    for reach, smooth in KERNELS:
        correlation, within = cells.correlation(reach, smooth=smooth)
        whole = (by_cell @ correlation @ by_cell.transpose(0, 2, 1)).sum(axis=0)
        shared.append(whole + (1.0 - within) * alone)
        correlation *= np.outer(relative, relative)
        correlation[np.diag_indices_from(correlation)] += 1.0 - within
        fits.append(_fitted(summed, correlation, p))
    likelihood, scale, lens2 = map(np.array, zip(*fits, strict=True))
    chance = PRIOR * np.exp(likelihood - likelihood.max())
    chance /= chance.sum()
    scale *= chance
    meat = (scale @ (1.0 - SHARES)).sum() * alone
    meat += np.tensordot(scale @ SHARES, shared, 1)
    inverse = np.linalg.inv(normal[:p])
    C, response = inverse @ meat @ inverse, inverse @ normal[p:].T
    by_lens, by_known = response[:, : q - p], response[:, q - p :]
    if lens_at_places is not None:  # there is relief where there is a smooth error
        by_lens = by_lens - lens_at_places
        smooth_scale = (scale @ SHARES)[[smooth for _, smooth in KERNELS]].sum()
        px2 = (own**2).sum() / (slope.mean(axis=0) ** 2).sum()  # that size² stands for
        C += smooth_scale * px2 * np.eye(p)
    C += by_lens @ np.tensordot(chance, lens2, 2) @ by_lens.T + by_known @ by_known.T
    return C if _positive(C) else None


def _fitted(
    summed: FloatArray, correlation: Matrix, p: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """By share: log likelihood, scale, and the lenses' mean square (l, l), px².

    `summed` (axes, p + l + 1, cells) holds what parameters and lenses do to the scores
    of cells, and these scores, whose own errors have the variance `scale`.
    """
    values, vectors = np.linalg.eigh(correlation)
    summed, (axes, _, cells) = summed @ vectors, summed.shape
    variance = 1.0 - SHARES[:, None] + SHARES[:, None] * np.maximum(values, 0.0)
    gram = sum((rows / variance[:, None]) @ rows.T for rows in summed)
    of_model, across = gram[:, :p, :p], gram[:, :p, p:]
    rest = gram[:, p:, p:]  # less what moving the model explains
    rest = rest - across.transpose(0, 2, 1) @ np.linalg.solve(of_model, across)
    freedom, squares = axes * cells - p, np.maximum(rest[:, -1:, -1], EXACT)
    of_lens, basis = np.linalg.eigh(rest[:, :-1, :-1])
    by_lens = (rest[:, -1:, :-1] @ basis)[:, 0]
    # If the model can follow a lens almost exactly, only rounding remains of it.
    mask = of_lens > ROUNDING * np.trace(gram[:, p:-1, p:-1], axis1=1, axis2=2)[:, None]
    of_lens, by_lens = of_lens * mask, by_lens * mask
    # For each lens size: the likeliest strengths, and the remaining sum of squares.
    ratio = (LENS_PX2 * freedom / squares)[:, :, None]
    Q = 1.0 + ratio * of_lens[:, None]
    strength = ratio * by_lens[:, None] / Q
    squares = np.maximum(squares - (by_lens[:, None] * strength).sum(axis=2), EXACT)
    by_size = -0.5 * (freedom * np.log(squares) + np.log(Q).sum(axis=2))
    most = by_size.max(axis=1, keepdims=True)
    chance = np.exp(by_size - most)
    likelihood = most[:, 0] + np.log(chance.sum(axis=1))
    likelihood -= 0.5 * axes * np.log(variance).sum(axis=1)
    likelihood -= 0.5 * np.linalg.slogdet(of_model)[1]
    chance /= chance.sum(axis=1, keepdims=True)
    square = strength[..., None] * strength[:, :, None]
    square += (LENS_PX2[:, None] / Q)[..., None] * np.eye(Q.shape[2])
    lens2 = basis @ (chance[:, :, None, None] * square).sum(axis=1)
    lens2 = lens2 @ basis.transpose(0, 2, 1)
    return likelihood, (chance * squares).sum(axis=1) / freedom, lens2


def _positive(matrix: Matrix) -> bool:
    """Positive definite beyond rounding, whatever the parameters' units."""
    diagonal = np.diag(matrix)
    if not (np.isfinite(matrix).all() and (diagonal > 0).all()):
        return False
    unit = 1.0 / np.sqrt(diagonal)
    return bool(np.linalg.eigvalsh(matrix * unit * unit[:, None])[0] > ROUNDING)


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The squares of a grid that hold matches."""

    label: Labels  # of each match
    apart: Matrix  # distances between the cells' mean points, (m, m) px
    side_px: float

    @classmethod
    def of(cls, points: Points) -> Grid:
        first, extent = points.min(axis=0), np.ptp(points, axis=0) + 1.0
        side = max(float(np.sqrt(extent.prod() / CELLS)), LEAST_CELL_PX)
        column, row = ((points - first) / side).astype(np.int64).T
        label = column * (row.max() + 1) + row
        label = (np.cumsum(np.bincount(label) > 0) - 1)[label]
        count = np.bincount(label)
        centre = np.stack([np.bincount(label, x) / count for x in points.T], axis=1)
        return cls(label, np.linalg.norm(centre[:, None] - centre, axis=2), side)

    def summed(self, values: FloatArray) -> FloatArray:
        """Sums over the matches of each cell, (…, m) from (…, n)."""
        rows, count = values.reshape(-1, len(self.label)), len(self.apart)
        sums = np.array([np.bincount(self.label, row, count) for row in rows])
        return sums.reshape(*values.shape[:-1], count)

    def correlation(self, reach: float, *, smooth: bool) -> tuple[Matrix, float]:
        """Of errors in two cells, (m, m), and of two matches in one.

        Two points of a square are half its side apart, in the mean.
        """
        distance, inside = self.apart / reach, self.side_px / reach
        if smooth:
            within = float(np.exp(-0.5 * (0.55 * inside) ** 2))
            return within * np.exp(-0.5 * distance**2), within
        within = float(np.exp(-0.52 * inside))
        return within * np.exp(-distance), within


def radial(points: Points, size: FloatArray | tuple[int, int]) -> Columns:
    """How a lens of 1 px at half a diagonal moves points of an image, (2, n)."""
    offset = (2.0 * points - np.array(size) + 1.0).T
    offset /= np.linalg.norm(np.atleast_2d(size), axis=1)
    return offset * (offset**2).sum(axis=0)
