"""The colours that matches are drawn in, and the range of errors they stand for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

# The paper's is green to red, outliers grey; ours is distinct with any colour vision.
Palette: TypeAlias = Literal["semisure", "paper"]
PALETTES: tuple[Palette, ...] = get_args(Palette)

COLOR_STOPS = {
    "semisure": ("#2c7bb6", "#8dc8e3", "#fff6b2", "#fdae61", "#d7191c"),
    "paper": ("#1a9641", "#f5d327", "#d7191c"),
}
_LEAST, _MOST = 3e-4, 3e-2  # shares of the image's longer side


@dataclass(frozen=True, slots=True)
class ErrorRange:
    """The expected errors that get the first and the last colour, px.

    An error of 3 px is large in a small image and nothing in a large one, so the range
    goes with the image's size.

    >>> ErrorRange.of_sizes([(1000, 750), (640, 480)]).ticks()
    ['0.3', '0.95', '3', '9.5', '30']
    """

    least: float = 0.3
    most: float = 30.0

    @classmethod
    def of_sizes(cls, sizes: Iterable[tuple[int, int]]) -> ErrorRange:
        """The range for images of these sizes: 0.03 % to 3 % of the longest side."""
        longest = max(max(size) for size in sizes)
        return cls(_LEAST * longest, _MOST * longest)

    def ticks(self) -> list[str]:
        """Five numbers in equal steps of the logarithm, for a legend."""
        ratio = self.most / self.least
        values = [self.least * ratio ** (k / 4) for k in range(5)]
        return [f"{float(f'{value:.2g}'):g}" for value in values]
