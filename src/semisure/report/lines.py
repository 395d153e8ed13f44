"""A drawing of some epipolar lines and their bands."""

from __future__ import annotations

import numpy as np

from semisure.pairs.result import PairResult
from semisure.report.bands import LineBands, clipped, line_bands
from semisure.report.drawings import Photos, beside, frame, round_factor
from semisure.types import Labels

SHOWN_LINES = 12
LIKELY = 0.9  # weight of a match that is worth a line
BAND = 0.012  # half-width of a band as drawn, in image sides
FACTORS = (1, 2, 5, 10, 20, 50)
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


def lines_drawing(photos: Photos, result: PairResult) -> tuple[str, float] | None:
    """Both images with points, lines and bands; and how magnified the bands are."""
    bands = line_bands(result)
    sample = None if bands is None else shown_sample(result, bands)
    if bands is None or sample is None or not len(sample):
        return None
    widths = bands.half_width[sample] / max(photos[0].size)
    typical = max(float(np.median(widths)), float(widths.max()) / 2, 1e-12)
    factor = round_factor(FACTORS, BAND / typical)
    shapes = ["", ""]
    for k, index in enumerate(sample):
        color = LINE_COLORS[k % len(LINE_COLORS)]
        side = int(result.matches.side[index])
        shapes[side] += _line(result, bands, int(index), factor, color)
        for image, points in enumerate((result.matches.source, result.matches.target)):
            x, y = points[index]
            dot = f'd="M{x:.1f} {y:.1f}h0"'
            shapes[image] += f'<path class="point rim" {dot}/>'
            shapes[image] += f'<path class="point" {dot} stroke="{color}"/>'
    frames = [
        frame(photo, content, "Points and epipolar lines")
        for photo, content in zip(photos, shapes, strict=True)
    ]
    return beside(frames, photos), factor


def _line(
    result: PairResult, bands: LineBands, index: int, factor: float, color: str
) -> str:
    """The line of a match and its band, where it was refined."""
    matches = result.matches
    size = matches.target_size if matches.side[index] else matches.source_size
    half = factor * bands.half_width[index]
    middle, *edges = (
        clipped(bands.line[index] + np.array([0, 0, offset]), size)
        for offset in (0.0, -half, half)
    )
    drawn = ""
    if edges[0] is not None and edges[1] is not None:
        corners = np.concatenate([edges[0], edges[1][::-1]])
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in corners)
        drawn += f'<path class="band" d="M{path}Z" fill="{color}"/>'
    if middle is not None:
        (x0, y0), (x1, y1) = middle
        path = f"M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}"
        drawn += f'<path class="epiline" d="{path}" stroke="{color}"/>'
    return drawn
