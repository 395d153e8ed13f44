"""The squares of a grid over an image, by number."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from semisure.types import Columns, FloatArray, IntArray, Labels, Points

_WIDEST = 2**30  # squares along an axis; what is beyond is in the last
MOST = 100_000  # squares that are looked at one by one rather than sorted
BLOCK = 10_000  # points that are looked at together
FEW = 4_000  # squares whose order is kept for the next grid that is the same


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
    first: tuple[float, float]  # column and row of the first square
    rows: int
    places: IntArray | None  # of the squares in the grid; None where all are there

    def held(self, strength: FloatArray, larger_px: float) -> Held:
        """Squares that have strength, those of one larger square after each other."""
        if self.places is None and self.count <= FEW:
            every = _every(self.first, self.count, self.rows, self.side_px, larger_px)
            squares = strength.take(every.number).nonzero()[0]
            return every if len(squares) == self.count else every.take(squares)
        squares = np.flatnonzero(strength)
        places = squares if self.places is None else self.places[squares]
        return _laid_out(
            places, squares, self.first, self.rows, self.side_px, larger_px
        )


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Squares of a grid, those of one larger square after each other."""

    number: Labels  # in the grid
    middles: Columns  # px
    larger: Labels  # which larger square each is in

    def take(self, some: Labels) -> Held:
        """Some of them, in their order."""
        middles = self.middles.take(some, axis=1)
        return Held(self.number.take(some), middles, self.larger.take(some))

    def starts(self) -> IntArray:
        """Where each larger square begins."""
        begins = np.ones(len(self.larger), dtype=bool)
        np.not_equal(self.larger[1:], self.larger[:-1], out=begins[1:])
        return begins.nonzero()[0]


def _laid_out(
    places: IntArray,
    number: Labels,
    first: tuple[float, float],
    rows: int,
    side_px: float,
    larger_px: float,
) -> Held:
    middles = np.array(np.divmod(places, rows), dtype=np.float64)
    middles += np.array([first]).T + 0.5
    middles *= side_px
    order, starts = together(middles, larger_px)
    begins = np.zeros(len(order), np.int64)
    begins[starts] = 1
    return Held(number[order], middles[:, order], np.cumsum(begins))


@lru_cache(maxsize=8)
def _every(
    first: tuple[float, float], count: int, rows: int, side_px: float, larger_px: float
) -> Held:
    """All squares of a grid: images have the same size again and again."""
    every = np.arange(count)
    return _laid_out(every, every, first, rows, side_px, larger_px)


def grid_over(points: Columns, side_px: float, size: FloatArray) -> Grid:
    """The squares, of a grid that begins at 0, over points (2, n) of an image.

    What lies farther from the image than half its size counts to the outermost squares.

    >>> points = np.array([[1.0, 9.0, 99.0], [1.0, 1.0, 7.0]])
    >>> grid = grid_over(points, 8.0, np.array([8, 8]))
    >>> held = grid.held(np.bincount(grid.number, minlength=grid.count), 8.0)
    >>> grid.number.tolist(), held.middles.T.tolist()
    ([4, 7, 7], [[4.0, 4.0], [12.0, 4.0]])
    """
    around = _around(*size.tolist(), side_px)
    if not around.count <= FEW:  # no more than hold the points
        ends = np.array([points.min(axis=1), points.max(axis=1)]) / side_px
        low, last = around.first, around.last
        first, end = np.clip(np.floor(ends)[:, :, None], low, low + last)
        around = Extent.of(first, end - first)
    low, last, rows, count = around.first, around.last, around.rows, around.count
    number = np.empty(points.shape[1], np.int64)
    for start in range(0, len(number), BLOCK):  # few enough to stay in the cache
        part = slice(start, start + BLOCK)
        cells = np.multiply(points[:, part], 1.0 / side_px, order="C")
        cells -= low
        column, row = cells.clip(0.0, last, out=cells)
        np.floor(column, out=column)
        column *= rows
        column += row
        number[part] = column  # without what is left of the row
    x, y = low.ravel().tolist()
    if count <= MOST:
        return Grid(number, count, side_px, (x, y), rows, None)
    held, number = np.unique(number, return_inverse=True)
    return Grid(number.reshape(-1), len(held), side_px, (x, y), rows, held)


@dataclass(frozen=True, slots=True, eq=False)
class Extent:
    """How far a grid reaches."""

    first: FloatArray  # column and row of the first square, (2, 1)
    last: FloatArray  # those of the last, counted from the first
    rows: int
    count: int  # of squares

    @classmethod
    def of(cls, first: FloatArray, last: FloatArray) -> Extent:
        columns, rows = (int(end) + 1 for end in last.ravel().tolist())
        return cls(first, last, rows, columns * rows)


@lru_cache(maxsize=8)
def _around(width: float, height: float, side_px: float) -> Extent:
    """That of the squares of an image and half its size around it."""
    size = np.array([[width], [height]]) / side_px
    low, high = np.floor(-0.5 * size), np.floor(1.5 * size)
    return Extent.of(low, high - low)
