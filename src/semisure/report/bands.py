"""Epipolar lines of a result, with the band that holds nine in ten true points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure.pairs.result import PairResult
from semisure.refit.line_law import across_quantile
from semisure.types import FloatArray, PerMatch, Points

NINETY = 1.645  # standard deviations of a Gaussian whose interval holds 90 %


@dataclass(frozen=True, slots=True, eq=False)
class LineBands:
    """A line n·p + c = 0 for each match, in the image of its refined point."""

    line: FloatArray  # (n, 3): a unit normal and c, px
    distance: PerMatch  # px, of the refined point less its bias
    half_width: PerMatch  # px, of the band


def line_bands(result: PairResult) -> LineBands | None:
    """The lines of a model that has any.

    A band is where the law expects 90 % of the points across the line, given that the
    coarse cell was right, widened by the line's own standard error.
    """
    view = result.lines_view()
    if view is None:
        return None
    lines = view.lines
    offset = lines.distance - (lines.normal * view.matches.refined).sum(axis=1)
    own = 0.0 if result.line_std_px is None else NINETY * result.line_std_px
    width = np.hypot(across_quantile(view.match_law, lines.normal, 0.9), own)
    return LineBands(np.column_stack([lines.normal, offset]), lines.distance, width)


def clipped(line: FloatArray, size: tuple[int, int]) -> Points | None:
    """The two ends of a line inside an image of `size`, (2, 2); None if it is outside.

    >>> clipped(np.array([0.0, 1.0, -10.0]), (640, 480)).tolist()
    [[-0.5, 10.0], [639.5, 10.0]]
    """
    a, b, c = line
    low, high = np.array([-0.5, -0.5]), np.array(size) - 0.5
    ends = []
    for axis, (u, v) in enumerate(((a, b), (b, a))):
        for edge in (low[axis], high[axis]):
            other = -(c + u * edge) / v if abs(v) > 1e-12 else np.inf
            point = np.array([edge, other] if axis == 0 else [other, edge])
            if (point >= low - 1e-9).all() and (point <= high + 1e-9).all():
                ends.append(point)
    if len(ends) < 2:
        return None
    ends.sort(key=lambda p: (p[0], p[1]))
    return np.stack([ends[0], ends[-1]])
