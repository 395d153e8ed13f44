"""Pictures of results: each function takes arrays and returns a Figure."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.collections import EllipseCollection, LineCollection
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle

from semisure.io.images import Image, reduced
from semisure.metrics import reliability
from semisure.report.uncertainty import (
    COLOR_STOPS,
    LineBands,
    color_range,
    color_ticks,
)
from semisure.types import Labels, Mask, Matches, PerAxis, PerMatch, Points

_COLORS = LinearSegmentedColormap.from_list("errors", COLOR_STOPS)
_GREY = (0.35, 0.35, 0.35, 0.25)
BLUE = "#2c7bb6"
# Okabe and Ito: distinct with any colour vision.
_LINE_COLORS = ("#d55e00", "#0072b2", "#f0e442", "#009e73", "#cc79a7", "#56b4e9")
SHOWN_SIDE = 1600  # px: larger photos are reduced before they are drawn
MAX_LINES = 250
Size = tuple[int, int]  # width and height, px


def plain_text(text: str) -> str:
    """A name as it is: matplotlib reads $…$ as TeX and hides labels after a _."""
    return (" " if text.startswith("_") else "") + text.replace("$", r"\$")


class NotebookFigure(Figure):
    """A figure that shows itself in a notebook, whether or not pyplot is loaded."""

    def _repr_png_(self) -> bytes:
        return png(self)


def _figure(width: float, height: float) -> Figure:
    figure = NotebookFigure(figsize=(width, height), layout="constrained", dpi=110)
    FigureCanvasAgg(figure)
    return figure


def png(figure: Figure) -> bytes:
    """The figure as a PNG file's bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", facecolor="white")
    return buffer.getvalue()


def jpeg(figure: Figure) -> bytes:
    """The figure as a JPEG file's bytes: a quarter of the size, where it has photos."""
    buffer = io.BytesIO()
    sharp = {"quality": 85, "subsampling": 0}  # small dots keep their colours
    figure.savefig(buffer, format="jpeg", facecolor="white", pil_kwargs=sharp)
    return buffer.getvalue()


# ---- matches -------------------------------------------------------------------------


def plot_matches(
    image0: Image, image1: Image, matches: Matches, expected_px: PerMatch
) -> Figure:
    """Both images with their matches by expected error, and a legend."""
    width, height = _canvas_size(matches)
    figure = _figure(12.0, 11.0 * height / width + 0.1)  # 1 wide is the legend
    axes = figure.add_subplot()
    draw_matches(axes, image0, image1, matches, expected_px)
    add_bar(axes, (matches.source_size, matches.target_size))
    return figure


def draw_matches(
    axes: Any,
    image0: Image,
    image1: Image,
    matches: Matches,
    expected_px: PerMatch,
    *,
    grey: Mask | None = None,
) -> None:
    """The content of :func:`plot_matches`, drawn into axes of the caller.

    The images may be reduced. Matches that are `grey` have no colour and lie below the
    others.
    """
    _draw_images(axes, image0, image1, matches)
    if not len(matches):
        return
    colors = _COLORS(_norm((matches.source_size, matches.target_size))(expected_px))
    order = np.argsort(-expected_px)  # the surest on top
    if grey is not None:
        colors[grey] = _GREY
        order = np.concatenate([order[grey[order]], order[~grey[order]]])
    target = matches.target + np.array([_left(matches), 0.0])
    faint, dots = (colors * np.array([1, 1, 1, opacity]) for opacity in (0.55, 0.9))
    sample = order[:: max(1, len(order) // MAX_LINES)]
    lines = list(np.stack([matches.source[sample], target[sample]], axis=1))
    axes.add_collection(LineCollection(lines, colors=faint[sample], linewidths=0.6))
    for points in (matches.source, target):
        axes.scatter(*points[order].T, s=5, c=dots[order], linewidths=0)


def _left(matches: Matches) -> int:
    """Where image 1 begins beside image 0."""
    return round(1.02 * matches.source_size[0] + 0.02 * matches.target_size[0])


def _canvas_size(matches: Matches) -> Size:
    (_, h0), (w1, h1) = matches.source_size, matches.target_size
    return _left(matches) + w1, max(h0, h1)


def _draw_images(axes: Any, image0: Image, image1: Image, matches: Matches) -> None:
    _draw_photo(axes, image0, matches.source_size)
    _draw_photo(axes, image1, matches.target_size, _left(matches))
    _frame(axes, _canvas_size(matches))


def _draw_photo(axes: Any, image: Image, size: Size, left: int = 0) -> None:
    """Grey and pale, so that only matches have colours, in the pixels of `size`."""
    small = reduced(image, SHOWN_SIDE)
    grey = small if small.ndim == 2 else small.mean(axis=2)
    pale = 60.0 + 0.7 * np.asarray(grey, dtype=np.float64)
    extent = (left - 0.5, left + size[0] - 0.5, size[1] - 0.5, -0.5)
    axes.imshow(pale, extent=extent, cmap="gray", vmin=0, vmax=255)


def _frame(axes: Any, size: Size) -> None:
    axes.set(xlim=(-0.5, size[0] - 0.5), ylim=(size[1] - 0.5, -0.5))
    axes.axis("off")


def _norm(sizes: Sequence[Size]) -> LogNorm:
    return LogNorm(*color_range(*sizes), clip=True)


def add_bar(axes: Any, sizes: Sequence[Size]) -> None:
    """A legend of the colours of matches between images of these sizes."""
    mapped = ScalarMappable(_norm(sizes), _COLORS)
    bar = axes.figure.colorbar(mapped, ax=axes, shrink=0.75, pad=0.01, extend="both")
    bar.set_label("expected error, px")
    ticks = color_ticks(*color_range(*sizes))
    bar.set_ticks([float(tick) for tick in ticks], labels=ticks)
    bar.minorticks_off()


# ---- uncertainty ---------------------------------------------------------------------


def draw_ellipses(
    axes: Any,
    image: Image,
    size: Size,
    points: Points,
    half_axes: PerAxis,
    expected_px: PerMatch,
    magnified: float,
) -> None:
    """Ellipses about points of one image of `size`, which may be reduced."""
    _draw_photo(axes, image, size)
    _frame(axes, size)
    colors = _COLORS(_norm([size])(expected_px))
    width_px, height_px = 2 * magnified * half_axes.T
    for edge, breadth in (("0.1", 2.2), (colors, 1.2)):
        ellipses = EllipseCollection(
            width_px, height_px, np.zeros(len(points)), units="xy", offsets=points,
            offset_transform=axes.transData, facecolors="none", edgecolors=edge,
            linewidths=breadth,
        )  # fmt: skip
        axes.add_collection(ellipses)


def plot_lines(
    images: tuple[Image, Image],
    matches: Matches,
    bands: LineBands,
    sample: Labels,
    magnified: float,
) -> Figure:
    """Some matches in both images, each with its epipolar line and band in one."""
    canvas_width, canvas_height = _canvas_size(matches)
    figure = _figure(12.0, 12.0 * canvas_height / canvas_width)
    figure.set_layout_engine("none")
    axes: Any = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    _draw_images(axes, *images, matches)
    lefts = np.array([[0.0, 0.0], [_left(matches), 0.0]])
    sizes = matches.source_size, matches.target_size
    for k, index in enumerate(sample):
        color = _LINE_COLORS[k % len(_LINE_COLORS)]
        side = matches.side[index]
        width, height = sizes[side]
        normal, offset = bands.line[index, :2], bands.line[index, 2]
        middle = lefts[side] - offset * normal  # where the line is nearest to (0, 0)
        along = 2.0 * (width + height) * np.array([-normal[1], normal[0]])
        start, end = middle - along, middle + along
        half = magnified * bands.half_width[index] * normal
        corners = [start - half, start + half, end + half, end - half]
        shapes = (
            Polygon(corners, facecolor=color, alpha=0.4),
            Polygon([start, end], edgecolor=color, linewidth=1.4),
        )
        frame = Rectangle(lefts[side] - 0.5, width, height, transform=axes.transData)
        for shape in shapes:
            axes.add_patch(shape)
            shape.set_clip_path(frame)
        ends = np.stack([matches.source[index], matches.target[index]]) + lefts
        axes.scatter(*ends.T, s=50, c=color, edgecolors="#111", zorder=3)
    return figure


# ---- charts --------------------------------------------------------------------------


def plot_reliability(
    expected: PerMatch, observed: PerMatch, title: str = "Reliability"
) -> Figure:
    """Observed against expected error in bins of equal count; the diagonal is ideal."""
    figure = _figure(5.6, 5.2)
    axes = figure.add_subplot()
    x, y, _ = reliability(expected, observed)
    ends = min(x.min(), y.min()) / 1.5, max(x.max(), y.max()) * 1.5
    axes.plot(ends, ends, color="0.5", linestyle=":", label="as predicted")
    axes.fill_between(
        ends, np.array(ends) / 1.25, np.array(ends) * 1.25, color="0.5", alpha=0.15,
        linewidth=0, label="within 25 %",
    )  # fmt: skip
    axes.plot(x, y, marker="o", color=BLUE, label="observed")
    axes.set(
        xscale="log", yscale="log", xlim=ends, ylim=ends, title=plain_text(title),
        xlabel="expected error, px", ylabel="observed error, px",
    )  # fmt: skip
    axes.legend(frameon=False)
    axes.grid(alpha=0.25, which="both", linewidth=0.5)
    return figure
