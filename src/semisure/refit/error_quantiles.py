"""Errors people can use: the size of |r| that half, or nine in ten, stay below.

The mean of a heavy-tailed law is ruled by its tail; quantiles are not. With a location
μ, |r| of the Laplace mixture has

    P(|r| > x) = Σ w e^{−x/s} cosh(μ/s)            for x ≥ |μ|, a sum of exponentials,
    P(|r| ≤ x) = Σ w e^{−|μ|/s} sinh(x/s)          for x ≤ |μ|.

The logarithm of the first and the second itself are convex, so Newton's steps from |μ|
go to the root without passing it: no bracket, and a few steps for all matches at once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from semisure.law import mixture
from semisure.law.mixture import LAPLACE, ErrorLaw
from semisure.types import BoolArray, FloatArray, PerAxis, PerMatch

STEPS = 40  # far more than are taken
TOLERANCE_PX = 1e-9


def abs_quantile(law: ErrorLaw, probability: float) -> PerAxis:
    """The size of the residual per axis that is exceeded by 1 − probability, px.

    >>> from semisure.law.mixture import _example_law
    >>> half = abs_quantile(_example_law(), 0.5)  # 0.8 e^{−x} + 0.2 e^{−x/4} = ½
    >>> bool(np.allclose(0.8 * np.exp(-half) + 0.2 * np.exp(-half / 4), 0.5))
    True
    """
    if law.family is not LAPLACE:
        return _by_halving(law, probability)
    alpha = mixture.tail_prob(law)
    half = 0.5 * np.stack([1.0 - alpha, alpha])
    scale = np.stack([law.fine_scale, law.coarse_scale])
    centre = np.abs(law.location)
    x = centre
    inside = (half * -np.expm1(-2.0 * centre / scale)).sum(axis=0) >= probability
    for _ in range(STEPS):
        step = _step(x, centre, half, scale, inside, probability)
        x = x + step
        if np.abs(step).max(initial=0.0) < TOLERANCE_PX:
            break
    return np.maximum(x, 0.0)


def _step(
    x: PerAxis,
    centre: PerAxis,
    half: FloatArray,
    scale: FloatArray,
    inside: BoolArray,
    probability: float,
) -> PerAxis:
    """Newton's step; `inside` says which roots lie below |μ|."""
    near = np.exp(-np.abs(x - centre) / scale)
    far = np.exp(-(x + centre) / scale)
    density = (half * (near + far) / scale).sum(axis=0)
    within = (half * (near - far)).sum(axis=0)
    beyond = (half * (near + far)).sum(axis=0)
    up = beyond * (np.log(beyond) - np.log1p(-probability))
    return np.where(inside, probability - within, up) / density


def _by_halving(law: ErrorLaw, probability: float) -> PerAxis:
    """The same for any family: the interval that holds the root is halved."""
    low = np.zeros_like(law.fine_scale)
    high = np.abs(law.location) + 1e3 * np.maximum(law.fine_scale, law.coarse_scale)
    for _ in range(60):
        middle = 0.5 * (low + high)
        within = mixture.cdf(law, middle) - mixture.cdf(law, -middle)
        low = np.where(within < probability, middle, low)
        high = np.where(within < probability, high, middle)
    return high


def abs_error_quantile(law: ErrorLaw, probability: float) -> PerMatch:
    """The same for each match, px: the mean over its axes, as of expected errors."""
    return abs_quantile(law, probability).mean(axis=1)


def across_quantile(law: ErrorLaw, normal: PerAxis, probability: float) -> PerMatch:
    """The distance across a line of unit `normal` that is exceeded by 1 − probability.

    Of matches whose coarse cell was right, without a location, px. The sum of two
    Laplace variables with scales a ≥ b has P(|d| > x) = e^{−x/a} (1 + x b φ / (a (a +
    b))), see :mod:`semisure.refit.line_law`, so x/a depends on b/a alone: it is solved
    on a grid of that and interpolated.
    """
    scale = np.abs(normal) * law.fine_scale
    major, minor = scale.max(axis=1), scale.min(axis=1)
    ratio = np.linspace(0.0, 1.0, 65)
    low, high = np.zeros(65), np.full(65, 60.0)
    for _ in range(40):
        x = 0.5 * (low + high)
        delta = x * (1.0 - ratio) / np.maximum(ratio, 1e-12)
        phi = np.where(delta < 1e-8, 1.0, -np.expm1(-delta) / np.maximum(delta, 1e-8))
        beyond = np.exp(-x) * (1.0 + x * ratio / (1.0 + ratio) * phi)
        low = np.where(beyond > 1.0 - probability, x, low)
        high = np.where(beyond > 1.0 - probability, high, x)
    return major * np.interp(minor / major, ratio, high)


def pooled_abs_quantile(law: ErrorLaw, probability: float) -> float:
    """The same of all matches and axes together, px: "90 % within x px"."""
    edges = abs_quantile(law, probability)
    low, high = float(edges.min()), float(edges.max())
    if high - low < TOLERANCE_PX:
        return high

    def excess(x: float) -> float:
        there = np.full_like(law.fine_scale, x)
        within = mixture.cdf(law, there) - mixture.cdf(law, -there)
        return float(within.mean()) - probability

    return _rising_root(excess, low, high, tolerance=1e-4)


def _rising_root(
    excess: Callable[[float], float], low: float, high: float, tolerance: float
) -> float:
    """Where a rising function is 0, between two places, by chords (Illinois' rule).

    SciPy's root finders need half a second to import.

    >>> round(_rising_root(lambda x: x**3 - 8.0, 0.0, 100.0, tolerance=1e-6), 5)
    2.0
    """
    below, above, side = excess(low), excess(high), 0
    while high - low > tolerance and below < 0.0 < above:
        x = (low * above - high * below) / (above - below)
        x = min(max(x, low + 0.5 * tolerance), high - 0.5 * tolerance)
        value = excess(x)
        if value < 0.0:
            low, below = x, value
            above *= 0.5 if side < 0 else 1.0  # the same end moved twice: lean over
            side = -1
        else:
            high, above = x, value
            below *= 0.5 if side > 0 else 1.0
            side = 1
    return high if above <= -below else low
