"""One piece of memory for many small arrays.

The terms of a law are a dozen arrays for each block of matches, kept for one refit and
then given back. Asked for one by one, and with what is computed on the way, they would
be new pages of the operating system each time, which take longer than the arithmetic. C
libraries hold on to memory once they have seen a piece of that size come and go: hence
one piece, with room to spare that is never touched.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from semisure.types import FloatArray

SPARE = 2**21  # bytes
MOST_HELD = 24 * 2**20  # bytes: of more than this no C library holds on


def hold_on(count: int) -> None:
    """Have the C library hold on to memory for `count` numbers that come and go.

    For code that makes large arrays by the dozen; it then takes half the time.
    """
    np.empty(min(8 * count, MOST_HELD), dtype=np.uint8)


class Shelf:
    """Room for a count of numbers in double, and of others in single precision.

    >>> shelf = Shelf(4, 4)
    >>> shelf.keep(np.eye(2)).dtype, shelf.keep_single(np.eye(2)).dtype
    (dtype('float64'), dtype('float32'))
    """

    def __init__(self, doubles: int, singles: int) -> None:
        self.room = np.empty(8 * doubles + 4 * singles + SPARE, dtype=np.uint8)
        self.used = 0

    def keep(self, array: FloatArray) -> FloatArray:
        """A copy of `array` in double precision."""
        return self._put(array, np.float64)

    def keep_single(self, array: FloatArray) -> FloatArray:
        """A copy of `array` in single precision."""
        return self._put(array, np.float32)

    def _put(self, array: FloatArray, dtype: DTypeLike) -> FloatArray:
        end = self.used + array.size * np.dtype(dtype).itemsize
        if end > len(self.room):
            return array.astype(dtype)
        place = self.room[self.used : end].view(dtype).reshape(array.shape)
        place[...] = array
        self.used = -(-end // 64) * 64
        return place
