"""A picture of some epipolar lines and their bands."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from semisure.io.images import Image
from semisure.pipeline import PairResult
from semisure.report.bands import LineBands, clipped, line_bands
from semisure.report.plots import side_by_side
from semisure.types import Labels

SHOWN_LINES = 12
LIKELY = 0.9  # weight of a match that is worth a line
BAND = 0.012  # half-width of a band as drawn, in image sides
# Okabe and Ito: distinct with any colour vision.
LINE_COLORS = ("#d55e00", "#0072b2", "#f0e442", "#009e73", "#cc79a7", "#56b4e9")


def shown_sample(result: PairResult, bands: LineBands) -> Labels:
    """A dozen matches on their lines, the surest first, each far from those before."""
    matches = result.matches
    side = int(np.bincount(matches.side).argmax())
    good = (matches.side == side) & (np.abs(bands.distance) <= bands.half_width)
    candidates = np.flatnonzero(good & (result.refit.weight > LIKELY))
    if not len(candidates):
        return candidates
    points = (matches.target if side else matches.source)[candidates]
    picked = [int(result.refit.weight[candidates].argmax())]
    apart = np.linalg.norm(points - points[picked[0]], axis=1)
    while len(picked) < min(SHOWN_LINES, len(candidates)):
        picked.append(int(apart.argmax()))
        apart = np.minimum(apart, np.linalg.norm(points - points[picked[-1]], axis=1))
    return candidates[picked]


def plot_lines(
    images: tuple[Image, Image], result: PairResult
) -> tuple[Figure, float] | None:
    """Both images with points, epipolar lines and bands; and how enlarged bands are."""
    bands = line_bands(result)
    sample = None if bands is None else shown_sample(result, bands)
    if bands is None or sample is None or not len(sample):
        return None
    figure, axes, left = side_by_side(*images)
    wide = float(np.median(bands.half_width[sample])) / max(images[0].shape[:2])
    enlarged = max((f for f in (1, 2, 5, 10, 20, 50) if f * wide <= BAND), default=1)
    for k, index in enumerate(sample):
        color = LINE_COLORS[k % len(LINE_COLORS)]
        _draw_match(axes, result, bands, int(index), left, enlarged, color)
    return figure, float(enlarged)


def _draw_match(
    axes: Any,
    result: PairResult,
    bands: LineBands,
    index: int,
    left: float,
    enlarged: float,
    color: str,
) -> None:
    """A match in both images, its line where it was refined."""
    matches, starts = result.matches, np.array([[0.0, 0.0], [left, 0.0]])
    side = int(matches.side[index])
    size = matches.target_size if side else matches.source_size
    half = enlarged * bands.half_width[index]
    middle, *edges = (
        clipped(bands.line[index] + np.array([0, 0, offset]), size)
        for offset in (0.0, -half, half)
    )
    if edges[0] is not None and edges[1] is not None:
        corners = np.concatenate([edges[0], edges[1][::-1]]) + starts[side]
        axes.add_patch(Polygon(corners, color=color, alpha=0.4, linewidth=0))
    if middle is not None:
        axes.plot(*(middle + starts[side]).T, color=color, linewidth=0.9)
    for point, start in zip(
        (matches.source[index], matches.target[index]), starts, strict=True
    ):
        axes.plot(*(point + start), "o", ms=6, mfc=color, mec="0.05", mew=1.0)
