"""The squares of a grid over an image, by number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure.types import Columns, FloatArray, IntArray, Labels, Points

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


def together(points: Columns, side_px: float) -> tuple[Labels, IntArray]:
    """An order in which points of one square follow each other, and where each begins.

    >>> order, first = together(np.array([[1.0, 9.0, 2.0], [1.0, 1.0, 3.0]]), 8.0)
    >>> order.tolist(), first.tolist()
    ([0, 2, 1], [0, 2])
    """
    column, row = np.floor(points * (1.0 / side_px))
    column *= 2.0**26  # more than there are rows
    column += row
    order = column.argsort(kind="stable")
    square = column[order]
    begins = np.ones(len(square), dtype=bool)
    np.not_equal(square[1:], square[:-1], out=begins[1:])
    return order, np.flatnonzero(begins)


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Squares over an image, and which of them holds each of some points."""

    number: Labels  # of each point's square
    count: int  # of squares; some may hold no point
    side_px: float
    first: FloatArray  # column and row of the first square, (2, 1)
    rows: int
    places: IntArray | None  # of the squares in the grid; None where all are there

    def middles(self, squares: Labels) -> FloatArray:
        """Of some squares, (2, n) px."""
        places = squares if self.places is None else self.places[squares]
        middles = np.array(np.divmod(places, self.rows), dtype=np.float64)
        middles += self.first + 0.5
        middles *= self.side_px
        return middles


def grid_over(points: Columns, side_px: float, size: FloatArray) -> Grid:
    """The squares, of a grid that begins at 0, over points (2, n) of an image.

    What lies farther from the image than half its size counts to the outermost squares.

    >>> points = np.array([[1.0, 9.0, 99.0], [1.0, 1.0, 7.0]])
    >>> grid = grid_over(points, 8.0, np.array([8, 8]))
    >>> grid.middles(grid.number).T.tolist()
    [[4.0, 4.0], [12.0, 4.0], [12.0, 4.0]]
    """
    cells = points * (1.0 / side_px)
    np.floor(cells, out=cells)
    limits = np.floor(np.multiply.outer((-0.5 / side_px, 1.5 / side_px), size))
    first, last = cells.min(axis=1), cells.max(axis=1)
    if (first < limits[0]).any() or (last > limits[1]).any():
        low, high = limits[:, :, None]
        np.minimum(np.maximum(cells, low, out=cells), high, out=cells)
        first, last = cells.min(axis=1), cells.max(axis=1)
    columns, rows = (int(most) + 1 for most in last - first)
    first = first[:, None]
    cells -= first
    whole = cells.astype(np.int64)
    flat = whole[0] * rows
    flat += whole[1]
    if columns * rows <= MOST:
        return Grid(flat, columns * rows, side_px, first, rows, None)
    held, number = np.unique(flat, return_inverse=True)
    return Grid(number.reshape(-1), len(held), side_px, first, rows, held)
