"""Coarse matching of many cells, each near where matches of reduced images point.

Comparing all cells of two images costs the square of their number. Above a limit the
frames are first matched at a reduced size; each cell of the large ones is then compared
with the cells around the place where its neighbourhood went. The chance of a failure
and the spread of the candidates have two parts: the neighbourhood's and the window's.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from semisure.matchers.daisy_cells import CELL, Array, Cells, moment_columns, mutual_of
from semisure.matchers.threads import by_threads

MAX_PRODUCTS = 1e8  # cells of image 0 times cells of image 1 that are all compared
GUIDE_SIDE = 640  # px of the reduced frames
REACH = 3  # cells to each side of the predicted one
NEAR = 1.0  # cells of the reduced frame: Gaussian radius of a neighbourhood
MIN_WEIGHT = 0.02  # of matches in the neighbourhood: a lonely one 2.5 cells away
TILE_ROWS = 512  # cells at a time


@dataclass(frozen=True)
class Guide:
    """What matches of the reduced frames say of every place of frame 0."""

    moved: Array  # (rows, cols, 2) px of the reduced frames
    doubt: Array  # (rows, cols) −log confidence
    variance: Array  # (rows, cols, 2) squared px of image 1
    weight: Array  # (rows, cols) of matches nearby

    @classmethod
    def of(
        cls, cells: Cells, chosen: Array, moved: Array, doubt: Array, variance: Array
    ) -> Guide:
        """From the matches of the cells `chosen`, which moved so far (n, 2).

        Matches that do not follow their neighbours count little, so that places next
        to a lone wrong match are not led astray.
        """
        values = np.column_stack([moved, doubt, variance])
        grid = np.zeros((cells.shape[0] * cells.shape[1], values.shape[1] + 1))
        grid[cells.index[chosen]] = np.insert(values, 0, 1.0, axis=1)
        grid = grid.reshape(*cells.shape, -1)
        matched, weight = grid[..., 0].copy(), grid[..., 0]
        for _ in range(2):
            total = cv2.GaussianBlur(weight, (0, 0), NEAR)
            sums = cv2.GaussianBlur(grid[..., 1:] * weight[..., None], (0, 0), NEAR)
            mean = sums / np.maximum(total, 1e-9)[..., None]
            apart = ((grid[..., 1:3] - mean[..., :2]) ** 2).sum(axis=2)
            weight = matched / (1 + apart / CELL**2) ** 2
        return cls(mean[..., :2], mean[..., 2], mean[..., 3:], total)

    def at(self, points: Array) -> tuple[Array, Array, Array, Array]:
        """The same, each (n, …), at points of the reduced frame 0."""
        from scipy.ndimage import map_coordinates

        place = (points[:, ::-1] - CELL // 2).T / CELL
        planes = np.dstack([self.moved, self.doubt, self.variance, self.weight])
        read = [
            map_coordinates(plane, place, order=1, mode="nearest")
            for plane in np.moveaxis(planes, 2, 0)
        ]
        values = np.stack(read, axis=1)
        return values[:, :2], values[:, 2], values[:, 3:5], values[:, 5]


def guided_match(
    cells0: Cells, cells1: Cells, position1: Array, temperature: float, predicted: Array
) -> tuple[Array, Array, Array, Array]:
    """As `coarse_match`, but among the cells around `predicted` (m, 2), px of frame 1.

    NaN where nothing is predicted. Confidence and std are those of the window.
    """
    count0, count1 = len(cells0.vectors), len(cells1.vectors)
    best, top = np.zeros(count0, int), np.zeros(count0, "f4")
    sums = np.ones((count0, 5))
    column_sum, column_top = np.zeros(count1), np.zeros(count1, "f4")
    columns, lookup = moment_columns(position1), _lookup(cells1)

    def tile(rows: slice) -> tuple[Array, Array]:
        near = _window(predicted[rows], lookup)
        weight = _affinities(cells0.vectors[rows], cells1.vectors, near, temperature)
        near = np.maximum(near, 0)  # where there is no cell, the weight is 0
        pick = weight.argmax(axis=1)
        each = np.arange(len(pick))
        best[rows], top[rows] = near[each, pick], weight[each, pick]
        sums[rows] = np.einsum("nk,nkj->nj", weight, columns[near])
        return near, weight

    starts = range(0, count0, TILE_ROWS)
    tiles = (slice(k, k + TILE_ROWS) for k in starts if count1)
    for near, weight in by_threads(tile, tiles):
        column_sum += np.bincount(near.ravel(), weight.ravel(), count1)
        np.maximum.at(column_top, near.ravel(), weight.ravel())
    return mutual_of(best, top, sums, column_sum, column_top)


def _lookup(cells: Cells) -> Array:
    """The number of each cell of the grid, -1 for those without texture."""
    numbers = np.full(cells.shape[0] * cells.shape[1], -1)
    numbers[cells.index] = np.arange(len(cells.index))
    return numbers.reshape(cells.shape)


def _window(predicted: Array, lookup: Array) -> Array:
    """Numbers (n, k) of the cells around each prediction, -1 where there is none."""
    rows, cols = lookup.shape
    predictable = np.asarray(np.isfinite(predicted).all(axis=1))
    at = np.floor(np.where(predictable[:, None], predicted, 0) / CELL).astype(int)
    step = np.arange(-REACH, REACH + 1)
    x = at[:, 0, None, None] + step[None, None, :]
    y = at[:, 1, None, None] + step[None, :, None]
    inside = (x >= 0) & (x < cols) & (y >= 0) & (y < rows)
    inside &= predictable[:, None, None]
    numbers = lookup[np.clip(y, 0, rows - 1), np.clip(x, 0, cols - 1)]
    return np.where(inside, numbers, -1).reshape(len(predicted), -1)


def _affinities(
    vectors0: Array, vectors1: Array, near: Array, temperature: float
) -> Array:
    """exp((cos - 1) / temperature) with each near cell, 0 where there is none."""
    cosine = np.einsum("nd,nkd->nk", vectors0, vectors1[near], optimize=True)
    weight = np.exp((cosine - 1) / np.float32(temperature))
    weight[near < 0] = 0
    return np.asarray(weight, np.float32)
