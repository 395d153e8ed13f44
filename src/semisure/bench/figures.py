"""Panels as a matplotlib figure, and that as PNG or SVG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from semisure.bench.outcome import AnyPanel, Panel, PhotoPanel
from semisure.report.plots import add_bar, plain_text

FEW = 30  # points of a line that are marked
MAX_TICKS = 8
MAX_AREA = 220.0  # square points, of the largest marker


def rendered(panels: Sequence[AnyPanel], columns: int | None, kind: str) -> bytes:
    """The panels in a grid as PNG or SVG, the same bytes at every run."""
    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    with rc_context({"svg.hashsalt": "semisure"}):
        draw(panels, columns).savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()


def draw(panels: Sequence[AnyPanel], columns: int | None = None) -> Figure:
    """The panels in a grid."""
    usual = 4 if len(panels) % 4 == 0 else 3
    columns = min(columns or usual, len(panels))
    rows = -(-len(panels) // columns)
    heights = [p.height for p in panels if isinstance(p, PhotoPanel)]
    width, height = (7.0, 7.0 * max(heights) + 0.5) if heights else (4.6, 3.6)
    figure = Figure(
        figsize=(width * columns, height * rows), dpi=110, layout="constrained"
    )
    FigureCanvasAgg(figure)
    for k, panel in enumerate(panels, start=1):
        radar = isinstance(panel, Panel) and panel.radar
        axes = figure.add_subplot(rows, columns, k, polar=radar)
        axes.set_title(plain_text(panel.title), fontsize=9)
        if isinstance(panel, PhotoPanel):
            panel.draw(axes)
            add_bar(axes, panel.sizes)
        elif radar:
            _draw_radar(axes, panel)
        else:
            _draw_axes(axes, panel)
    return figure


def _draw_axes(axes: Any, panel: Panel) -> None:
    axes.set(xlabel=plain_text(panel.xlabel), ylabel=plain_text(panel.ylabel))
    axes.set_yscale(panel.yscale)
    first = next(iter(panel.lines.values()))[0]
    if panel.counts:
        _draw_areas(axes, panel)
    elif len(first) and isinstance(first[0], str):
        _draw_bars(axes, panel)
    else:
        _draw_lines(axes, panel)
    axes.legend(frameon=False, fontsize=7)
    axes.grid(alpha=0.25, linewidth=0.5)


def _draw_bars(axes: Any, panel: Panel) -> None:
    width = 0.8 / len(panel.lines)
    for k, (label, (x, y)) in enumerate(panel.lines.items()):
        places = np.arange(len(x)) + (k - (len(panel.lines) - 1) / 2) * width
        axes.bar(places, y, width, label=plain_text(label))
        axes.set_xticks(np.arange(len(x)), labels=[plain_text(str(v)) for v in x])
    axes.margins(y=0.4)  # room for the legend


def _draw_areas(axes: Any, panel: Panel) -> None:
    """Lines over names, with markers whose areas are in proportion to the counts."""
    largest = max(float(counts.max(initial=1.0)) for counts in panel.counts.values())
    for label, (x, y) in panel.lines.items():
        places = np.arange(len(x))
        (line,) = axes.plot(places, y, linewidth=1, label=plain_text(label))
        areas = MAX_AREA * panel.counts[label] / largest
        axes.scatter(places, y, s=areas, color=line.get_color(), alpha=0.7)
        axes.set_xticks(places, labels=[str(v) for v in x], fontsize=8)
    axes.axhline(0.0, color="0.5", linewidth=0.8, linestyle=":")


def _draw_lines(axes: Any, panel: Panel) -> None:
    axes.set_xscale(panel.xscale)
    for label, (x, y) in panel.lines.items():
        marker = "o" if len(x) < FEW else ""
        axes.plot(x, y, marker=marker, ms=3, label=plain_text(label))
    places = sorted({float(v) for x, _ in panel.lines.values() for v in x})
    if panel.xscale == "log" and len(places) <= MAX_TICKS:
        axes.set_xticks(places, labels=[f"{v:g}" for v in places])
        axes.minorticks_off()
    if panel.diagonal:
        limits = axes.get_xlim(), axes.get_ylim()
        axes.axline((1.0, 1.0), (2.0, 2.0), color="0.5", linestyle=":")
        axes.set(xlim=limits[0], ylim=limits[1])


def _draw_radar(axes: Any, panel: Panel) -> None:
    """A spoke for each name, a closed line for each label."""
    spokes = next(iter(panel.lines.values()))[0]
    angles = 2 * np.pi * np.arange(len(spokes)) / len(spokes)
    for label, (_, values) in panel.lines.items():
        closed = np.append(angles, angles[:1]), np.append(values, values[:1])
        axes.plot(*closed, marker="o", ms=3, label=plain_text(label))
        axes.fill(*closed, alpha=0.08)
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    axes.set_xticks(angles, labels=[plain_text(str(s)) for s in spokes], fontsize=8)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, fontsize=7, loc="lower left")
