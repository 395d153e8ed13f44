"""Charts as SVG in the page's own ink: right on light pages and on dark ones."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

import numpy as np

from semisure.metrics import reliability
from semisure.types import PerMatch

WIDTH, HEIGHT = 420, 260
LEFT, TOP, RIGHT, BOTTOM = 62, 10, 14, 48
BLUE = "#2c7bb6"


@dataclass(frozen=True, slots=True)
class _Axis:
    """One axis: from a number to a place between two ends of the picture."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        a, b, v = self.low, self.high, value
        if self.logarithmic:
            a, b, v = log10(a), log10(b), log10(v)
        return self.start + (v - a) / (b - a) * (self.end - self.start)

    def ticks(self) -> list[float]:
        if self.logarithmic:
            first, last = floor(log10(self.low)), ceil(log10(self.high))
            steps = (m * 10.0**k for k in range(first, last + 1) for m in (1, 2, 5))
            inside = [v for v in steps if self.low <= v <= self.high]
            return inside if len(inside) <= 7 else inside[:: len(inside) // 6]
        step = _round_step((self.high - self.low) / 4)
        first = ceil(self.low / step)
        return [k * step for k in range(first, floor(self.high / step + 1e-9) + 1)]


def _round_step(rough: float) -> float:
    """The next larger of 1, 2, 5 times a power of ten."""
    power = 10.0 ** floor(log10(rough))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))


def histogram(values: PerMatch, name: str, bins: int = 40) -> str:
    """How many matches have which value, between 0 and 1.

    >>> "<svg" in histogram(np.array([0.1, 0.9, 0.95]), "weight")
    True
    """
    counts, edges = np.histogram(values, bins=bins, range=(0.0, 1.0))
    x = _Axis(0.0, 1.0, LEFT, WIDTH - RIGHT)
    y = _Axis(0.0, float(max(counts.max(), 1)) * 1.05, HEIGHT - BOTTOM, TOP)
    ground = y.at(0.0)
    bars = "".join(
        f'<rect x="{x.at(edge) + 0.4:.1f}" y="{y.at(count):.1f}" '
        f'width="{(WIDTH - LEFT - RIGHT) / bins - 0.8:.1f}" '
        f'height="{ground - y.at(count):.1f}" fill="{BLUE}"/>'
        for count, edge in zip(counts.tolist(), edges.tolist(), strict=False)
    )
    return _chart(x, y, name, "matches", bars)


def reliability_chart(expected: PerMatch, observed: PerMatch) -> str:
    """Observed against expected error in bins of equal count; the diagonal is ideal."""
    bins_x, bins_y, _ = reliability(expected, observed)
    low = float(min(bins_x.min(), bins_y.min())) / 1.5
    high = float(max(bins_x.max(), bins_y.max())) * 1.5
    x = _Axis(low, high, LEFT, WIDTH - RIGHT, logarithmic=True)
    y = _Axis(low, high, HEIGHT - BOTTOM, TOP, logarithmic=True)
    ideal = f"M{x.at(low):.1f} {y.at(low):.1f}L{x.at(high):.1f} {y.at(high):.1f}"
    places = [
        (x.at(a), y.at(b))
        for a, b in zip(bins_x.tolist(), bins_y.tolist(), strict=True)
    ]
    path = "L".join(f"{a:.1f} {b:.1f}" for a, b in places)
    dots = "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5"/>' for a, b in places)
    inner = (
        f'<path class="ideal" d="{ideal}"/><path class="curve" d="M{path}"/>'
        f'<g fill="{BLUE}">{dots}</g>'
    )
    return _chart(x, y, "expected error, px", "distance from the model, px", inner)


def _chart(x: _Axis, y: _Axis, xlabel: str, ylabel: str, inner: str) -> str:
    bottom, middle = HEIGHT - BOTTOM, (LEFT + WIDTH - RIGHT) / 2
    marks = [
        f'<path class="grid" d="M{x.at(v):.1f} {TOP}V{bottom}"/>'
        f'<text x="{x.at(v):.1f}" y="{bottom + 16}" text-anchor="middle">{v:g}</text>'
        for v in x.ticks()
    ]
    marks += [
        f'<path class="grid" d="M{LEFT} {y.at(v):.1f}H{WIDTH - RIGHT}"/>'
        f'<text x="{LEFT - 6}" y="{y.at(v) + 4:.1f}" text-anchor="end">{v:,g}</text>'
        for v in y.ticks()
    ]
    upright = (TOP + bottom) / 2
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(ylabel)} by {escape(xlabel)}">{"".join(marks)}{inner}'
        f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">'
        f'{escape(xlabel)}</text><text x="14" y="{upright}" text-anchor="middle" '
        f'transform="rotate(-90 14 {upright})">{escape(ylabel)}</text></svg>'
    )
