"""Drawings as SVG inside a page: sharp at any zoom, beside or above each other.

Photos are reduced before they are drawn over; coordinates stay those of the photos.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

import cv2
import numpy as np

from semisure.io.images import Image, jpeg, reduced
from semisure.report.palettes import ErrorRange, color_at
from semisure.types import FloatArray, Labels, Matches, PerAxis, PerMatch, Points

SHOWN_SIDE = 1400  # px, of a photo in a page
MAX_LINES = 250
SHADES = 24  # colours of dots; each is one element of the drawing


@dataclass(frozen=True, slots=True)
class Drawing:
    """A piece of HTML and what is said below it."""

    html: str
    caption: str


@dataclass(frozen=True, slots=True, eq=False)
class Photo:
    """A photo as it is drawn over: reduced once, its size remembered."""

    size: tuple[int, int]  # width and height of the photo itself
    small: Image

    @classmethod
    def of(cls, image: Image) -> Photo:
        """The photo, at most `SHOWN_SIDE` px."""
        height, width = image.shape[:2]
        return cls((width, height), reduced(image, SHOWN_SIDE))

    @property
    def ratio(self) -> float:
        """Width by height."""
        return self.size[0] / self.size[1]

    def element(self) -> str:
        """Grey and pale, so that only matches have colours, in the photo's pixels."""
        rgb = self.small.ndim == 3
        grey = cv2.cvtColor(self.small, cv2.COLOR_RGB2GRAY) if rgb else self.small
        pale = np.asarray(60 + 0.7 * grey, np.uint8)
        data = base64.b64encode(jpeg(np.repeat(pale[..., None], 3, axis=2), 80))
        address = f"data:image/jpeg;base64,{data.decode()}"
        width, height = self.size
        return (
            f'<image x="-0.5" y="-0.5" width="{width}" height="{height}" '
            f'preserveAspectRatio="none" href="{address}"/>'
        )


Photos = tuple[Photo, Photo]


def beside(frames: Sequence[str], photos: Photos, lines: str = "") -> str:
    """Two frames side by side at equal heights, or stacked where the page is narrow."""
    inner = "".join(
        f'<div class="frame" style="flex: {photo.ratio:.5f} 1 0">{frame}</div>'
        for frame, photo in zip(frames, photos, strict=True)
    )
    return f'<div class="pair">{inner}{lines}</div>'


def frame(photo: Photo, content: str, label: str) -> str:
    """One photo with shapes over it, in its own pixels."""
    width, height = photo.size
    return (
        f'<svg viewBox="-0.5 -0.5 {width} {height}" role="img" '
        f'aria-label="{escape(label)}">{photo.element()}{content}</svg>'
    )


def matches_drawing(
    photos: Photos,
    matches: Matches,
    expected_px: PerMatch,
    scale: ErrorRange,
) -> str:
    """Both photos with a dot for every match and lines for some, by expected error."""
    shades = np.array([round(scale.share(px) * (SHADES - 1)) for px in expected_px])
    frames = [
        frame(photo, _dots(points, shades), f"Matches in the {which} image")
        for photo, points, which in zip(
            photos, (matches.source, matches.target), ("first", "second"), strict=True
        )
    ]
    order = np.argsort(-expected_px)  # the surest on top
    sample = order[:: max(1, len(order) // MAX_LINES)]
    return beside(frames, photos, _joining(photos, matches, shades, sample))


def _dots(points: Points, shades: Labels) -> str:
    """A path for each colour, of points that its round line caps make visible."""
    paths = []
    for shade in range(SHADES - 1, -1, -1):
        places = points[shades == shade]
        if len(places):
            path = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in places)
            color = color_at(shade / (SHADES - 1))
            paths.append(f'<path class="dots" d="{path}" stroke="{color}"/>')
    return "".join(paths)


def _joining(photos: Photos, matches: Matches, shades: Labels, sample: Labels) -> str:
    """Lines from image to image, once for each way the images can be arranged."""
    (w0, h0), (w1, h1) = (photo.size for photo in photos)
    from_unit = (matches.source[sample] + 0.5) / (w0, h0)
    to_unit = (matches.target[sample] + 0.5) / (w1, h1)
    ways = {
        "across": (w0 / h0 + w1 / h1, 1.0, (w0 / h0, 1.0), (w0 / h0, 0.0), w1 / h1),
        "down": (1.0, h0 / w0 + h1 / w1, (1.0, h0 / w0), (0.0, h0 / w0), 1.0),
    }
    drawn = []
    for name, (width, height, size0, start1, width1) in ways.items():
        size1 = (width1, width1 * h1 / w1)
        starts = from_unit * size0
        ends = to_unit * size1 + start1
        lines = "".join(
            f'<path d="M{x0:.4f} {y0:.4f}L{x1:.4f} {y1:.4f}" '
            f'stroke="{color_at(shade / (SHADES - 1))}"/>'
            for (x0, y0), (x1, y1), shade in zip(
                starts, ends, shades[sample], strict=True
            )
        )
        drawn.append(
            f'<svg class="joining {name}" viewBox="0 0 {width:.5f} {height:.5f}" '
            f'preserveAspectRatio="none" aria-hidden="true">{lines}</svg>'
        )
    return "".join(drawn)


def ellipses_drawing(
    photo: Photo,
    points: Points,
    half_axes: PerAxis,
    expected_px: PerMatch,
    magnified: float,
    scale: ErrorRange,
) -> str:
    """Ellipses about points of one photo; pointing at one tells its numbers."""
    shapes = []
    for (x, y), (a, b), px in zip(points, half_axes, expected_px, strict=True):
        color = color_at(scale.share(px))
        told = f"expected error {px:.2f} px; 68 % within {a:.2f} px in x, {b:.2f} in y"
        shapes.append(
            f'<ellipse cx="{x:.1f}" cy="{y:.1f}" rx="{a * magnified:.2f}" '
            f'ry="{b * magnified:.2f}" stroke="{color}"><title>{told}</title></ellipse>'
        )
    return frame(photo, "".join(shapes), "Error ellipses of some matches")


def polyline(points: Points, kind: str) -> str:
    """A closed line through points."""
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path class="{kind}" d="M{path}Z"/>'


def ellipse(center: FloatArray, axes: tuple[float, float], degrees: float) -> str:
    """An ellipse turned by an angle."""
    x, y = center
    return (
        f'<ellipse class="region" cx="{x:.1f}" cy="{y:.1f}" rx="{axes[0]:.2f}" '
        f'ry="{axes[1]:.2f}" transform="rotate({degrees:.1f} {x:.1f} {y:.1f})"/>'
    )


def round_factor(factors: Iterable[float], fits: float) -> float:
    """The largest of the round factors that fits; at least 1.

    >>> round_factor((1, 2, 5, 10), 7.3)
    5.0
    """
    return float(max((f for f in factors if f <= fits), default=1))


def spread_out(points: Points, candidates: Labels, count: int) -> Labels:
    """About `count` of the candidates, the first in each cell of a grid."""
    positions = points[candidates]
    low, high = positions.min(axis=0), positions.max(axis=0)
    cell = np.sqrt(np.prod(np.maximum(high - low, 1.0)) / count)
    column, row = ((positions - low) // cell).astype(np.int64).T
    _, first = np.unique(row * 10_000 + column, return_index=True)
    return candidates[first]
