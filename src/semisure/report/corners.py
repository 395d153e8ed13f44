"""Where the first image lies in the second, and how far its corners may be off."""

from __future__ import annotations

import numpy as np

from semisure.geometry import homography as plane
from semisure.pairs.result import PairResult
from semisure.report.drawings import Photo, ellipse, polyline, round_factor
from semisure.types import FloatArray, Points

NINETY_RADIUS = 2.146  # standard deviations: √(−2 ln 0.1), 90 % of a plane's Gaussian
SHOWN_RADIUS = 0.04  # of an ellipse as drawn, in image sides
FARTHEST = 2.0  # corners beyond this many image sides are not drawn
FACTORS = (1, 2, 5, 10, 20, 50, 100, 200)


def corner_regions(covariance: FloatArray) -> list[tuple[float, float, float]]:
    """Half-axes in px and the angle in degrees of each corner's 90 % ellipse.

    >>> [round(v, 3) for v in corner_regions(np.diag([4.0, 1.0] * 4))[0]]
    [4.292, 2.146, 0.0]
    """
    regions = []
    for k in range(0, 8, 2):
        values, vectors = np.linalg.eigh(covariance[k : k + 2, k : k + 2])
        minor, major = NINETY_RADIUS * np.sqrt(np.maximum(values, 0.0))
        x, y = vectors[:, 1]
        angle = float(np.degrees(np.arctan2(y, x))) % 180.0
        regions.append((float(major), float(minor), angle))
    return regions


def magnification(regions: list[tuple[float, float, float]], side: float) -> float:
    """A round factor that makes the median ellipse visible in an image of `side` px."""
    median = float(np.median([major for major, _, _ in regions]))
    return round_factor(FACTORS, SHOWN_RADIUS * side / max(median, 1e-9))


def drawable_corners(result: PairResult) -> Points | None:
    """The corners of the first image in the second, if a picture can hold them."""
    H = result.H_01 if result.related else None
    if H is None:
        return None
    frame = plane.corners(result.matches.source_size)
    if (plane.depth(H, frame) <= 0).any() and (plane.depth(H, frame) >= 0).any():
        return None  # the horizon passes through the image
    corners = plane.project(H, frame)
    side = max(result.matches.target_size)
    if not np.isfinite(corners).all() or np.abs(corners).max() > FARTHEST * side:
        return None
    return corners


def outline_drawing(photo: Photo, result: PairResult) -> tuple[str, float] | None:
    """The first image's outline on the second, and how magnified its ellipses are."""
    corners, C = drawable_corners(result), result.refit.covariance
    if corners is None or C is None:
        return None
    regions = corner_regions(C)
    width, height = photo.size
    factor = magnification(regions, max(width, height))
    shapes = [polyline(corners, "outline")]
    reach = max(factor * major for major, _, _ in regions)
    for corner, (major, minor, angle) in zip(corners, regions, strict=True):
        shapes.append(ellipse(corner, (factor * major, factor * minor), angle))
    low = np.minimum(corners.min(axis=0) - reach, -0.5)
    high = np.maximum(corners.max(axis=0) + reach, (width - 0.5, height - 0.5))
    (x, y), (w, h) = low, high - low
    return (
        f'<svg viewBox="{x:.1f} {y:.1f} {w:.1f} {h:.1f}" role="img" '
        'aria-label="The outline of the first image on the second">'
        f"{photo.element()}{''.join(shapes)}</svg>"
    ), factor
