"""A picture of some epipolar lines and their bands."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from semisure.io.images import Image
from semisure.pipeline import PairResult
from semisure.report.bands import LineBands, clipped, line_bands
from semisure.report.plots import draw_halo_line, side_by_side, spread_out
from semisure.types import FloatArray, Labels

SHOWN_LINES = 12
# Okabe and Ito: distinct with any colour vision.
LINE_COLORS = ("#d55e00", "#0072b2", "#f0e442", "#009e73", "#cc79a7", "#56b4e9")


def shown_sample(result: PairResult, bands: LineBands) -> Labels:
    """A dozen of the surest matches on their lines, spread over the image."""
    side = int(np.bincount(result.matches.side).argmax())
    good = (result.matches.side == side) & (np.abs(bands.distance) <= bands.half_width)
    order = np.argsort(-result.refit.weight)
    candidates = order[good[order]]
    if not len(candidates):
        return candidates
    points = result.matches.target if side else result.matches.source
    return spread_out(points, candidates, SHOWN_LINES)


def plot_lines(images: tuple[Image, Image], result: PairResult) -> Figure | None:
    """Both images: points in one, their epipolar lines and bands in the other."""
    bands = line_bands(result)
    if bands is None:
        return None
    figure, axes, left = side_by_side(*images)
    draw_lines(axes, result, bands, left)
    return figure


def draw_lines(axes: Any, result: PairResult, bands: LineBands, left: float) -> None:
    """The lines of a sample; `left` is where the second image begins."""
    matches = result.matches
    starts = np.array([[0.0, 0.0], [left, 0.0]])
    for k, index in enumerate(shown_sample(result, bands)):
        side, color = int(matches.side[index]), LINE_COLORS[k % len(LINE_COLORS)]
        size = matches.target_size if side else matches.source_size
        _draw_band(axes, bands, int(index), size, starts[side], color)
        both = matches.source[index], matches.target[index]
        for image, point in enumerate(both):
            place = point + starts[image]
            axes.plot(*place, "o", ms=6, mfc=color, mec="0.05", mew=1.0)


def _draw_band(
    axes: Any,
    bands: LineBands,
    index: int,
    size: tuple[int, int],
    start: FloatArray,
    color: str,
) -> None:
    line, half = bands.line[index], bands.half_width[index]
    middle, *edges = (
        clipped(line + np.array([0, 0, offset]), size) for offset in (0, -half, half)
    )
    if edges[0] is not None and edges[1] is not None:
        corners = np.concatenate([edges[0], edges[1][::-1]]) + start
        axes.add_patch(Polygon(corners, color=color, alpha=0.45, linewidth=0))
    if middle is not None:
        draw_halo_line(axes, middle + start, color)
