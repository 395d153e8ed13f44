"""How far a match and its neighbours lie from one smooth surface.

Where the coarse cell is wrong along an epipolar line, the match still lies on its line,
so that its residual does not show the error. Its neighbours show it, since surfaces are
continuous nearly everywhere: the parallax, what remains of a match after the affine map
that fits all matches, varies little from one match to the next on the same surface.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from semisure.types import FloatArray, Labels, Matches, PerAxis, PerMatch

_FEWEST = 4  # neighbours that predict a match
_RIDGE = 5e-3  # squared cells
_FAR = 1e4  # px: beyond a horizon
_TINY = 1e-9
_LEAST_OTHERS = 1e-3  # share of a fit that is not the match's own


def departure(matches: Matches, along: PerMatch, weight: PerMatch) -> PerMatch:
    """How far each match, and those around it, lie from one affine map, px.

    `along` is the matches' parallax along their lines. An affine map, which follows
    slanted surfaces, is fitted by `weight` to the matches of 3 × 3 cells around each
    match, without the match itself; a cell is so large that it holds one on average.
    The match's distance from this map and the mean distance of the others are added as
    squares, since neighbours that disagree predict badly. Outliers and
    imprecise matches should have small weights; then one fit is robust. Where there are
    too few neighbours the departure is the median of all.
    """
    distance = np.full(len(matches), np.nan)
    along = np.where(np.isfinite(along), along, _FAR)
    for rows, points, _ in _sides(matches):
        if len(rows) > _FEWEST:
            distance[rows] = _left_out(points, along[rows], weight[rows])
    lone = np.isnan(distance)
    if lone.all():
        return np.zeros(len(matches))
    return np.where(lone, np.nanmedian(distance), distance)


def _left_out(points: PerAxis, value: PerMatch, weight: PerMatch) -> PerMatch:
    """Departure of each from the affine map of its neighbours, without itself."""
    cell, shape, x, y = _cells(points)
    weight = weight / (weight.mean() + _TINY) + _TINY
    design = np.stack([np.ones_like(x), x, y], axis=1)
    rows = np.column_stack([design, value])
    products = (weight * rows.T)[:, None] * rows.T
    count = shape[0] * shape[1]
    sums = np.array([np.bincount(cell, p, count) for p in products.reshape(16, -1)])
    sums = _of_nine_cells(sums, shape).T.reshape(-1, 4, 4)
    sums[:, 0, 0] += _TINY
    total = sums[:, 0, 0]
    ridge = _RIDGE * total  # slopes stay 0 where points are in a row
    sums[:, [1, 2], [1, 2]] += ridge[:, None]
    inverse = np.linalg.inv(sums[:, :3, :3])
    maps = (inverse @ sums[:, :3, 3:])[:, :, 0]
    squares = sums[:, 3, 3] - (sums[:, 3, :3] * maps).sum(axis=1)
    squares -= ridge * (maps[:, 1:] ** 2).sum(axis=1)
    residual = value - (design * maps[cell]).sum(axis=1)
    # The match's own part in the fit (its leverage) is removed.
    leverage = weight * np.einsum("ni,nij,nj->n", design, inverse[cell], design)
    others = np.where(1.0 - leverage > _LEAST_OTHERS, 1.0 - leverage, np.nan)
    rough2 = np.maximum(squares[cell] - weight * residual * residual / others, 0.0)
    rough2 /= np.maximum(total[cell] - weight, _TINY * total[cell])
    return np.sqrt((residual / others) ** 2 + rough2)


def _cells(points: PerAxis) -> tuple[Labels, tuple[int, int], PerMatch, PerMatch]:
    """Each point's cell, the numbers of rows and columns, and points in cell units.

    There are about as many cells as points, and a border of empty ones around them.
    """
    x, y = (points - points.min(axis=0)).T
    size = max(_spacing(float(x.max()), float(y.max()), len(points)), 1e-3)
    x, y = x / size + 1.5, y / size + 1.5
    column, row = x.astype(np.int64), y.astype(np.int64)
    shape = int(row.max()) + 2, int(column.max()) + 2
    return row * shape[1] + column, shape, x, y


def _spacing(width: float, height: float, count: int) -> float:
    """The side of `count` squares that cover a grid of `count` points, px.

    Such a grid reaches from the middle of its outer squares to the middle of those on
    the other side: (width + g) (height + g) = count · g².

    >>> _spacing(30.0, 10.0, 8), _spacing(0.0, 20.0, 2)  # 4 × 2 points, and two
    (10.0, 20.0)
    """
    others, half = max(count - 1, 1), 0.5 * (width + height)
    return float((half + np.sqrt(half**2 + others * width * height)) / others)


def _of_nine_cells(sums: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """Sums (k, cells) over each cell and the eight around; the outermost are empty."""
    grid = sums.reshape(-1, *shape)
    three = grid[:, :, :-2] + grid[:, :, 1:-1] + grid[:, :, 2:]
    total = np.zeros_like(grid)
    total[:, 1:-1, 1:-1] = three[:, :-2] + three[:, 1:-1] + three[:, 2:]
    return total.reshape(sums.shape)


def affine_parallax(matches: Matches, weight: PerMatch) -> PerAxis:
    """What each match has beyond the affine map that fits all by `weight`, px."""
    parallax = np.zeros((len(matches), 2))
    for rows, points, refined in _sides(matches):
        design = np.ones((3, len(rows)))
        design[:2] = points.T - points.mean(axis=0)[:, None]
        weighted = design * weight[rows]
        normal = weighted @ design.T, weighted @ refined
        affine = np.linalg.lstsq(*normal, rcond=None)[0]
        parallax[rows] = refined - design.T @ affine
    return parallax


def _sides(matches: Matches) -> Iterator[tuple[Labels, PerAxis, PerAxis]]:
    """For each image: the rows refined in it, their anchors and refined points."""
    both = ((matches.target, matches.source), (matches.source, matches.target))
    for side, (anchors, refined) in enumerate(both):
        rows = np.flatnonzero(matches.side == side)
        if len(rows):
            yield rows, anchors[rows], refined[rows]
