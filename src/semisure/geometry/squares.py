"""The squares of a grid over an image, by number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure.types import Columns, FloatArray, Labels, Points

_WIDEST = 2**30  # squares along an axis; what is beyond is in the last
MOST = 100_000  # squares that are looked at one by one rather than sorted


def square_of(points: Points, side_px: float, shift: float = 0.0) -> Labels:
    """A number of the square that each point lies in, the same for no other square.

    `shift` moves the grid, in squares. Numbers tell squares apart, and are sorted and
    counted many times faster than pairs of them.

    >>> square_of(np.array([[1.0, 1.0], [9.0, 1.0], [7.9, 7.9]]), 8.0).tolist()[::2]
    [0, 0]
    """
    column, row = np.clip(np.floor(points.T / side_px + shift), -_WIDEST, _WIDEST)
    return column.astype(np.int64) * (2 * _WIDEST + 1) + row.astype(np.int64)


def heaps_of(points: Columns, side_px: float, shift: float = 0.0) -> tuple[Labels, int]:
    """Numbers of the squares that points (2, n) lie in, and how many may be used.

    The numbers are small where the points are not far apart, so that all squares can be
    looked at, which is many times faster than to sort them.

    >>> number, most = heaps_of(np.array([[1.0, 9.0, 7.9], [1.0, 1.0, 7.9]]), 8.0)
    >>> number.tolist(), most
    ([0, 1, 0], 2)
    """
    cells = points * (1.0 / side_px)
    cells += shift
    np.floor(cells, out=cells)
    first = cells.min(axis=1)
    columns, rows = (cells.max(axis=1) - first + 1.0).tolist()
    if not columns * rows <= MOST + 8.0 * points.shape[1]:
        held, number = np.unique(
            square_of(points.T, side_px, shift), return_inverse=True
        )
        return number.reshape(-1), len(held)
    flat = cells[0] - first[0]
    flat *= rows
    flat += cells[1]
    flat -= first[1]
    return flat.astype(np.int64), int(columns * rows)


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Squares over an image, and which of them holds each of some points."""

    number: Labels  # of each point's square
    middles: FloatArray  # of the squares, (2, squares) px; some may hold no point


def grid_over(points: Columns, side_px: float, size: FloatArray) -> Grid:
    """The squares, of a grid that begins at 0, over points (2, n) of an image.

    What lies farther from the image than half its size counts to the outermost squares.

    >>> points = np.array([[1.0, 9.0, 99.0], [1.0, 1.0, 7.0]])
    >>> grid = grid_over(points, 8.0, np.array([8, 8]))
    >>> grid.middles[:, grid.number].T.tolist()
    [[4.0, 4.0], [12.0, 4.0], [12.0, 4.0]]
    """
    low, high = (np.floor(size * (half / side_px))[:, None] for half in (-0.5, 1.5))
    cells = np.floor(points * (1.0 / side_px))
    np.maximum(cells, low, out=cells)
    np.minimum(cells, high, out=cells)
    first = cells.min(axis=1)
    columns, rows = (cells.max(axis=1) - first + 1.0).tolist()
    flat = cells[0] - first[0]
    flat *= rows
    flat += cells[1]
    flat -= first[1]
    if columns * rows <= MOST:
        number, held = flat.astype(np.int64), np.arange(columns * rows)
    else:
        held, number = np.unique(flat, return_inverse=True)
    middles = np.array(np.divmod(held, rows))
    middles += first[:, None] + 0.5
    middles *= side_px
    return Grid(number, middles)
