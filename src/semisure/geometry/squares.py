"""The squares of a grid over an image, by number."""

from __future__ import annotations

import numpy as np

from semisure.types import Columns, Labels, Points

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
