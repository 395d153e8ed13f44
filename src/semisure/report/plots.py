"""Pictures of results: each function takes arrays and returns a Figure."""

from __future__ import annotations

import io
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import EllipseCollection, LineCollection
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.text import Text

from semisure.io.images import Image, reduced
from semisure.metrics import reliability
from semisure.report.palettes import (
    COLOR_STOPS,
    PAPER_STOPS,
    ErrorRange,
    Palette,
)
from semisure.types import FloatArray, Labels, Mask, Matches, PerAxis, PerMatch, Points

_COLORS: dict[Palette, LinearSegmentedColormap] = {
    "semisure": LinearSegmentedColormap.from_list("error", COLOR_STOPS),
    "paper": LinearSegmentedColormap.from_list("paper", PAPER_STOPS),
}
_GREY = (0.35, 0.35, 0.35, 0.25)
SHOWN_SIDE = 1600  # px: larger photos are reduced before they are drawn
MAX_LINES = 250
_LIGHT_INK = "#d5dbe0"


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


def png(figure: Figure, background: str = "white") -> bytes:
    """The figure as a PNG file's bytes; background "none" is transparent."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", facecolor=background)
    return buffer.getvalue()


def jpeg(figure: Figure) -> bytes:
    """The figure as a JPEG file's bytes: a quarter of the size, where it has photos."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="jpeg", facecolor="white", pil_kwargs={"quality": 85})
    return buffer.getvalue()


def light_and_dark(figure: Figure) -> tuple[bytes, bytes]:
    """Two transparent PNGs: dark ink for a light page, light ink for a dark one.

    The figure itself is left with the light ink.
    """
    for axes in figure.axes:
        axes.set_facecolor("none")
    light = png(figure, "none")
    for text in figure.findobj(Text):
        text.set_color(_LIGHT_INK)
    for axes in figure.axes:
        axes.tick_params(which="both", colors=_LIGHT_INK)
        axes.spines[:].set_edgecolor(_LIGHT_INK)
    return light, png(figure, "none")


def plot_pair(
    image0: Image,
    image1: Image,
    matches: Matches,
    expected_px: PerMatch,
    title: str = "",
    overlaid: Image | None = None,
) -> Figure:
    """Both images with their matches by expected error, and an overlay below."""
    width, height = _canvas_size(image0, image1)
    heights = [height / width]
    if overlaid is not None:
        heights.append(overlaid.shape[0] / overlaid.shape[1] * 0.62)
    figure = _figure(12.0, 12.0 * sum(heights) + 0.5 * (len(heights) + 1))
    panels = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)
    draw_matches(figure, panels[0, 0], image0, image1, matches, expected_px)
    panels[0, 0].set_title(plain_text("\n".join(wrap(title, 130))), fontsize=11)
    if overlaid is not None:
        panels[1, 0].imshow(overlaid)
        panels[1, 0].set_title("image 0 laid over image 1, in tiles", fontsize=11)
        panels[1, 0].axis("off")
    return figure


def plot_matches(
    image0: Image, image1: Image, matches: Matches, expected_px: PerMatch
) -> Figure:
    """Both images side by side, matches coloured by expected error; no legend."""
    width, height = _canvas_size(image0, image1)
    figure = _figure(12.0, 12.0 * height / width)
    axes = _full_axes(figure)
    draw_matches(figure, axes, image0, image1, matches, expected_px, legend=False)
    return figure


def _full_axes(figure: Figure) -> Any:
    """Axes that fill the figure."""
    figure.set_layout_engine("none")
    return figure.add_axes((0.0, 0.0, 1.0, 1.0))


def _canvas_size(image0: Image, image1: Image) -> tuple[int, int]:
    (h0, w0), (h1, w1) = image0.shape[:2], image1.shape[:2]
    return w0 + _gap(image0, image1) + w1, max(h0, h1)


def _gap(image0: Image, image1: Image) -> int:
    return round(0.02 * (image0.shape[1] + image1.shape[1]))


def draw_matches(
    figure: Figure,
    axes: Any,
    image0: Image,
    image1: Image,
    matches: Matches,
    expected_px: PerMatch,
    *,
    legend: bool = True,
    palette: Palette = "semisure",
    grey: Mask | None = None,
) -> None:
    """The content of :func:`plot_matches`, drawn into axes of the caller.

    Matches that are `grey` have no colour and lie below the others.
    """
    left = _draw_images(axes, image0, image1)
    if not len(matches):
        return
    scale = ErrorRange.of_sizes([matches.source_size, matches.target_size])
    colors = _COLORS[palette](_norm(scale)(expected_px))
    order = np.argsort(-expected_px)
    if grey is not None:
        colors[grey] = _GREY
        order = np.concatenate([order[grey[order]], order[~grey[order]]])
    _draw_lines(axes, matches, left, colors, order)
    if legend:
        _add_bar(figure, axes, scale, palette)


def _draw_images(axes: Any, image0: Image, image1: Image) -> float:
    left = image0.shape[1] + _gap(image0, image1)
    for image, at in ((image0, 0), (image1, left)):
        rows, columns = image.shape[:2]
        extent = (at - 0.5, at + columns - 0.5, rows - 0.5, -0.5)
        _draw_photo(axes, image, extent)
    _frame(axes, *_canvas_size(image0, image1))
    return float(left)


def _frame(axes: Any, width: int, height: int) -> None:
    axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
    axes.axis("off")


def _norm(scale: ErrorRange) -> LogNorm:
    return LogNorm(scale.least, scale.most, clip=True)


def _add_bar(
    figure: Figure, axes: Any, scale: ErrorRange, palette: Palette = "semisure"
) -> None:
    from matplotlib.cm import ScalarMappable

    mapped = ScalarMappable(_norm(scale), _COLORS[palette])
    bar = figure.colorbar(mapped, ax=axes, shrink=0.75, pad=0.01, extend="both")
    bar.set_label("expected error, px")
    ticks = scale.ticks()
    bar.set_ticks([float(tick) for tick in ticks], labels=ticks)
    bar.minorticks_off()


def _draw_photo(axes: Any, image: Image, extent: tuple[float, ...]) -> None:
    """Grey and pale, so that only matches have colours."""
    small = reduced(image, SHOWN_SIDE)
    grey = small if small.ndim == 2 else small.mean(axis=2)
    pale = 60.0 + 0.7 * np.asarray(grey, dtype=np.float64)
    axes.imshow(pale, extent=extent, cmap="gray", vmin=0, vmax=255)


def _draw_lines(
    axes: Any, matches: Matches, left: float, colors: FloatArray, order: Labels
) -> None:
    """Dots for all, lines for an even sample; the last of the order on top."""
    target = matches.target + np.array([left, 0.0])
    faint, dots = (colors * np.array([1, 1, 1, opacity]) for opacity in (0.55, 0.9))
    sample = order[:: max(1, len(order) // MAX_LINES)]
    lines = np.stack([matches.source[sample], target[sample]], axis=1)
    axes.add_collection(
        LineCollection(list(lines), colors=faint[sample], linewidths=0.6)
    )
    for points in (matches.source, target):
        axes.scatter(*points[order].T, s=5, c=dots[order], linewidths=0)


def draw_ellipses(
    figure: Figure,
    axes: Any,
    image: Image,
    points: Points,
    half_axes: PerAxis,
    expected_px: PerMatch,
    magnified: float,
) -> None:
    """Ellipses about points of one image, magnified, and a legend."""
    height, width = image.shape[:2]
    _draw_photo(axes, image, (-0.5, width - 0.5, height - 0.5, -0.5))
    _frame(axes, width, height)
    scale = ErrorRange.of_sizes([(width, height)])
    colors = _COLORS["semisure"](_norm(scale)(expected_px))
    width_px, height_px = 2 * magnified * half_axes.T
    for edge, breadth in (("0.1", 2.2), (colors, 1.2)):
        ellipses = EllipseCollection(
            width_px, height_px, np.zeros(len(points)), units="xy", offsets=points,
            offset_transform=axes.transData, facecolors="none", edgecolors=edge,
            linewidths=breadth,
        )  # fmt: skip
        axes.add_collection(ellipses)
    _add_bar(figure, axes, scale)


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
    axes.plot(x, y, marker="o", color="#2c6fbb", label="observed")
    axes.set(
        xscale="log", yscale="log", xlim=ends, ylim=ends, title=plain_text(title),
        xlabel="expected error, px", ylabel="observed error, px",
    )  # fmt: skip
    axes.legend(frameon=False)
    axes.grid(alpha=0.25, which="both", linewidth=0.5)
    return figure


def plot_bars(
    groups: dict[str, dict[str, float]], ylabel: str, title: str = ""
) -> Figure:
    """Grouped bars: one group per key, one bar per inner key."""
    names = list(next(iter(groups.values())))
    figure = _figure(1.2 + 1.6 * len(groups), 3.8)
    axes = figure.add_subplot()
    width = 0.8 / len(names)
    shades = ["0.72", "#7fb2e5", "#1b5fa8", "#0b2f57"]
    for k, name in enumerate(names):
        places = np.arange(len(groups)) + (k - (len(names) - 1) / 2) * width
        heights = [row[name] for row in groups.values()]
        bars = axes.bar(places, heights, width, label=name, color=shades[k % 4])
        axes.bar_label(bars, fmt="%.2f", fontsize=7, padding=1)
    axes.set_xticks(np.arange(len(groups)), labels=list(groups))
    axes.set(ylabel=ylabel, title=title)
    axes.margins(y=0.18)  # room for the legend
    axes.legend(frameon=False, ncols=len(names), loc="upper center")
    axes.spines[["top", "right"]].set_visible(False)
    return figure
