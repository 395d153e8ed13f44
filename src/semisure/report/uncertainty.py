"""What pictures show of errors: colours, bands about lines, ellipses about corners."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure.geometry import homography as plane
from semisure.law.pair_effects import size_of_sum
from semisure.pairs.result import PairResult
from semisure.types import FloatArray, Labels, PerMatch, Points

# Blue to red over pale yellow: distinct with any colour vision.
COLOR_STOPS = ("#2c7bb6", "#8dc8e3", "#fff6b2", "#fdae61", "#d7191c")
NINETY = 1.645  # standard deviations of a Gaussian whose interval holds 90 %
NINETY_RADIUS = 2.146  # standard deviations: √(−2 ln 0.1), 90 % of a plane's Gaussian
FACTORS = (1, 2, 5, 10, 20, 50, 100, 200)  # by which shapes are magnified
CORNER = 0.04  # radius of a corner's ellipse as drawn, in image sides
FARTHEST = 2.0  # corners beyond this many image sides are not drawn
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


@dataclass(frozen=True, slots=True, eq=False)
class CornerRegions:
    """The corners of image 0 in image 1, each with its 90 % ellipse."""

    points: Points  # (4, 2) px
    half_axes: FloatArray  # (4, 2) px, the longer first
    degrees: FloatArray  # (4,) of the longer axis
    magnified: float  # a round factor that makes the median ellipse visible


def corner_regions(result: PairResult) -> CornerRegions | None:
    """The regions, if there is a covariance and a picture can hold the corners."""
    H, covariance = result.H_01, result.refit.covariance
    if H is None or covariance is None or not result.related:
        return None
    frame = plane.corners(result.matches.source_size)
    depth = plane.depth(H, frame)
    if (depth <= 0).any() and (depth >= 0).any():
        return None  # the horizon passes through the image
    corners = plane.project(H, frame)
    side = max(result.matches.target_size)
    if not np.isfinite(corners).all() or np.abs(corners).max() > FARTHEST * side:
        return None
    half_axes, degrees = corner_ellipses(covariance)
    magnified = round_factor(
        CORNER * side / max(float(np.median(half_axes[:, 0])), 1e-9)
    )
    return CornerRegions(corners, half_axes, degrees, magnified)


def corner_ellipses(covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Half-axes in px and angles in degrees of the corners' 90 % ellipses.

    >>> half_axes, degrees = corner_ellipses(np.diag([4.0, 1.0] * 4))
    >>> half_axes[0].tolist(), float(degrees[0])
    ([4.292, 2.146], 0.0)
    """
    blocks = np.stack([covariance[k : k + 2, k : k + 2] for k in range(0, 8, 2)])
    values, vectors = np.linalg.eigh(blocks)  # the smaller first
    half_axes = NINETY_RADIUS * np.sqrt(np.maximum(values[:, ::-1], 0.0))
    x, y = vectors[:, :, 1].T
    return half_axes, np.degrees(np.arctan2(y, x)) % 180.0
