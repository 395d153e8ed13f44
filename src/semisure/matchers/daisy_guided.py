"""Coarse matching of many cells, each near where matches of reduced images point.

Comparing all cells of two images costs the square of their number. Above a limit the
frames are first matched at a reduced size; each cell of the large ones is then compared
with the cells around the place where its neighbourhood went. The chance of a failure
and the spread of the candidates have two parts: the neighbourhood's and the window's.
"""

from __future__ import annotations

import cv2
import numpy as np

from semisure.matchers.daisy_cells import (
    CELL,
    Array,
    Cells,
    Tile,
    moment_columns,
    mutual_maxima,
)

MAX_PRODUCTS = 1e8  # cells of image 0 times cells of image 1 that are all compared
GUIDE_SIDE = 640  # px of the reduced frames
REACH = 3  # cells to each side of the predicted one
NEAR = 1.0  # cells of the reduced frame: Gaussian radius of a neighbourhood
MIN_WEIGHT = 0.02  # of matches in the neighbourhood: a lonely one 2.5 cells away
TILE_ROWS = 512  # cells at a time


def spread_out(cells: Cells, chosen: Array, values: Array) -> Array:
    """Values (n, k) of matched cells, of which the first two are how far they moved.

    Smoothed over the whole grid, (rows, cols, k + 1); the last one is the weight of
    matches nearby. Matches that do not follow their neighbours count little, so that
    places next to a lone wrong match are not led astray.
    """
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
    return np.dstack([mean, total])


def read_at(points: Array, planes: Array) -> Array:
    """Values (n, k) at points of the frame, of what `spread_out` gives."""
    from scipy.ndimage import map_coordinates

    place = (points[:, ::-1] - CELL // 2).T / CELL
    return np.stack(
        [
            map_coordinates(plane, place, order=1, mode="nearest")
            for plane in np.moveaxis(planes, 2, 0)
        ],
        axis=1,
    )


def guided_match(
    cells0: Cells, cells1: Cells, position1: Array, temperature: float, predicted: Array
) -> tuple[Array, Array, Array, Array]:
    """As `coarse_match`, but among the cells around `predicted` (m, 2), px of frame 1.

    NaN where nothing is predicted. Confidence and std are those of the window.
    """
    columns, lookup = moment_columns(position1), _lookup(cells1)
    vectors0, vectors1 = cells0.vectors, cells1.vectors

    def tile(rows: slice) -> Tile:
        near = _window(predicted[rows], lookup)
        cosine = np.einsum("nd,nkd->nk", vectors0[rows], vectors1[near], optimize=True)
        weight = np.exp((cosine - 1) / np.float32(temperature))
        weight[near < 0] = 0  # where there is no cell
        near = np.maximum(near, 0)
        each, best = np.arange(len(near)), weight.argmax(axis=1)
        sums = np.einsum("nk,nkj->nj", weight, columns[near])
        total = np.bincount(near.ravel(), weight.ravel(), len(columns))
        highest = np.zeros(len(columns), "f4")
        np.maximum.at(highest, near.ravel(), weight.ravel())
        return near[each, best], weight[each, best], sums, total, highest

    return mutual_maxima(tile, cells0, cells1, TILE_ROWS)


def _lookup(cells: Cells) -> Array:
    """The number of each cell of the grid, -1 for those without texture and around."""
    numbers = np.full(cells.shape[0] * cells.shape[1], -1)
    numbers[cells.index] = np.arange(len(cells.index))
    return np.pad(numbers.reshape(cells.shape), 2 * REACH + 1, constant_values=-1)


def _window(predicted: Array, lookup: Array) -> Array:
    """Numbers (n, k) of the cells around each prediction, -1 where there is none."""
    at = np.floor(np.nan_to_num(predicted, nan=-1e9) / CELL) + 2 * REACH + 1
    last = np.subtract(lookup.shape[::-1], REACH + 1)
    x, y = np.clip(at, REACH, last).astype(int).T[:, :, None, None]
    step = np.arange(-REACH, REACH + 1)
    return lookup[y + step[:, None], x + step].reshape(len(predicted), -1)
