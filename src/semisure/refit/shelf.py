"""One piece of memory for many small arrays.

The terms of a law are a dozen arrays for each block of matches, kept for one refit and
then given back. Asked for one by one, most of the time would go into new pages.
"""

from __future__ import annotations

import numpy as np

from semisure.types import FloatArray


class Shelf:
    """Room for a given count of numbers.

    >>> shelf = Shelf(4)
    >>> shelf.keep(np.eye(2)).base is shelf.room, shelf.keep(np.eye(2)).base is None
    (True, True)
    """

    def __init__(self, count: int) -> None:
        self.room = np.empty(count)
        self.used = 0

    def keep(self, array: FloatArray) -> FloatArray:
        """A copy of `array` here; `array` itself where there is no room left."""
        end = self.used + array.size
        if end > len(self.room):
            return array
        place = self.room[self.used : end].reshape(array.shape)
        place[...] = array
        self.used = end
        return place
