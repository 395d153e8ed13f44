"""Panels of lines and bars as a matplotlib figure, and that as PNG or SVG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from semisure.bench.tables import Panel

FEW = 30  # points of a line that are marked
MAX_TICKS = 8


def draw(panels: Sequence[Panel]) -> Figure:
    """The panels in a grid."""
    columns = 4 if len(panels) % 4 == 0 else min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.6 * rows), layout="constrained", dpi=110)
    FigureCanvasAgg(figure)
    for k, panel in enumerate(panels):
        _draw(figure.add_subplot(rows, columns, k + 1), panel)
    return figure


def _draw(axes: Any, panel: Panel) -> None:
    axes.set(title=panel.title, xlabel=panel.xlabel, ylabel=panel.ylabel)
    axes.set_yscale(panel.yscale)
    first = next(iter(panel.lines.values()))[0]
    if len(first) and isinstance(first[0], str):
        _draw_bars(axes, panel)
    else:
        _draw_lines(axes, panel)
    axes.legend(frameon=False, fontsize=7)
    axes.grid(alpha=0.25, linewidth=0.5)


def _draw_bars(axes: Any, panel: Panel) -> None:
    width = 0.8 / len(panel.lines)
    for k, (label, (x, y)) in enumerate(panel.lines.items()):
        places = np.arange(len(x)) + (k - (len(panel.lines) - 1) / 2) * width
        axes.bar(places, y, width, label=label)
        axes.set_xticks(np.arange(len(x)), labels=list(x))


def _draw_lines(axes: Any, panel: Panel) -> None:
    axes.set_xscale(panel.xscale)
    for label, (x, y) in panel.lines.items():
        axes.plot(x, y, marker="o" if len(x) < FEW else "", ms=3, label=label)
    places = sorted({float(v) for x, _ in panel.lines.values() for v in x})
    if panel.xscale == "log" and len(places) <= MAX_TICKS:
        axes.set_xticks(places, labels=[f"{v:g}" for v in places])
        axes.minorticks_off()
    elif panel.xscale == "log" and 0 < places[-1] < 100 * places[0]:
        # Too narrow for powers of ten; between them labels would overlap.
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
    if panel.diagonal:
        limits = axes.get_xlim(), axes.get_ylim()
        axes.axline((1.0, 1.0), (2.0, 2.0), color="0.5", linestyle=":")
        axes.set(xlim=limits[0], ylim=limits[1])


def rendered(figure: Figure, kind: str) -> bytes:
    """The figure as a file's bytes, the same at every run."""
    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    with rc_context({"svg.hashsalt": "semisure"}):
        figure.savefig(buffer, format=kind, metadata=metadata)
    return buffer.getvalue()
