"""The squares of a grid over an image, by number."""

from __future__ import annotations

import numpy as np

from semisure.types import Labels, Points

_WIDEST = 2**30  # squares along an axis; what is beyond is in the last


def square_of(points: Points, side_px: float, shift: float = 0.0) -> Labels:
    """A number of the square that each point lies in, the same for no other square.

    `shift` moves the grid, in squares. Numbers tell squares apart, and are sorted and
    counted many times faster than pairs of them.

    >>> square_of(np.array([[1.0, 1.0], [9.0, 1.0], [7.9, 7.9]]), 8.0).tolist()[::2]
    [0, 0]
    """
    column, row = np.clip(np.floor(points.T / side_px + shift), -_WIDEST, _WIDEST)
    return column.astype(np.int64) * (2 * _WIDEST + 1) + row.astype(np.int64)
