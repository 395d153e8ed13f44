"""Errors in pictures: colours, and bands about epipolar lines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure.law.pair_effects import size_of_sum
from semisure.pairs.result import PairResult
from semisure.types import FloatArray, Labels, PerMatch

# Blue to red over pale yellow: distinct with any colour vision.
COLOR_STOPS = ("#2c7bb6", "#8dc8e3", "#fff6b2", "#fdae61", "#d7191c")
NINETY = 1.645  # standard deviations of a Gaussian whose interval holds 90 %
FACTORS = (1, 2, 5, 10, 20, 50, 100, 200)  # by which shapes are magnified
SHOWN_LINES = 12
LIKELY = 0.9  # weight of a match that is worth a line


def color_range(*sizes: tuple[int, int]) -> tuple[float, float]:
    """The expected errors that get the first and the last colour, px.

    An error of 3 px is large in a small image and nothing in a large one, so the range
    goes with the image's size: 0.03 % to 3 % of the longest side.

    >>> color_range((1000, 750), (640, 480))
    (0.3, 30.0)
    """
    longest = max(max(size) for size in sizes)
    return 3 * longest / 10_000, 3 * longest / 100


def color_ticks(least: float, most: float) -> list[str]:
    """Five numbers in equal steps of the logarithm, for a legend.

    >>> color_ticks(0.3, 30)
    ['0.3', '0.95', '3', '9.5', '30']
    """
    return [f"{float(f'{v:.2g}'):g}" for v in np.geomspace(least, most, 5)]


def round_factor(fits: float) -> float:
    """The largest of the round factors that fits; at least 1.

    >>> round_factor(7.3)
    5.0
    """
    return float(max((f for f in FACTORS if f <= fits), default=1))


@dataclass(frozen=True, slots=True, eq=False)
class LineBands:
    """A line n·p + c = 0 for each match, in the image of its refined point."""

    line: FloatArray  # (n, 3): a unit normal and c, px
    distance: PerMatch  # px, of the refined point less its bias
    half_width: PerMatch  # px, of the band that holds nine in ten true points


def line_bands(result: PairResult) -> LineBands | None:
    """The lines of a model that has any.

    A band is where the law expects 90 % of the points across the line, given that the
    coarse cell was right, widened by the line's own standard error.
    """
    view = result.lines_view()
    if view is None or not result.related:
        return None
    lines = view.lines
    offset = lines.distance - (lines.normal * view.matches.refined).sum(axis=1)
    own = 0.0 if result.line_std_px is None else NINETY * result.line_std_px
    scale_x, scale_y = (np.abs(lines.normal) * view.match_law.fine_scale).T
    # 90 % of a Laplace variable of scale s lie within s log 10.
    width = np.hypot(np.log(10.0) * size_of_sum(scale_x, scale_y), own)
    return LineBands(np.column_stack([lines.normal, offset]), lines.distance, width)


def shown_sample(result: PairResult, bands: LineBands) -> Labels:
    """A dozen sure matches in their bands, evenly spaced over the list of matches."""
    side = result.matches.side
    shown = (result.refit.weight > LIKELY) & (np.abs(bands.distance) < bands.half_width)
    candidates = np.flatnonzero(shown & (side == np.bincount(side).argmax()))
    return candidates[:: max(1, -(-len(candidates) // SHOWN_LINES))]
