"""How large errors are under a law, by quantiles: a heavy tail rules the mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from semisure.errors import InputError
from semisure.law.mixture import ErrorLaw, cdf
from semisure.types import PerAxis


def abs_quantile(law: ErrorLaw, probability: float) -> PerAxis:
    """The size of the residual per axis that is exceeded by 1 − probability, px.

    The mean of a heavy-tailed law is ruled by its tail; quantiles are not.

    >>> one = np.ones((1, 2))
    >>> law = ErrorLaw(one, 4 * one, np.log(0.25) * one, 0 * one)
    >>> half = abs_quantile(law, 0.5)  # 0.8 e^{−x} + 0.2 e^{−x/4} = ½
    >>> bool(np.allclose(0.8 * np.exp(-half) + 0.2 * np.exp(-half / 4), 0.5))
    True
    """
    farthest = _farthest(law, probability)
    nearest = np.zeros_like(farthest)

    def excess(x: PerAxis) -> PerAxis:
        return cdf(law, x) - cdf(law, -x) - probability

    return np.asarray(rising_root(excess, nearest, farthest, tolerance=1e-11))


def pooled_abs_quantile(law: ErrorLaw, probability: float) -> float:
    """The same of all matches and axes together, px: "90 % within x px"."""

    def excess(x: float) -> float:
        there = np.full_like(law.fine_scale, x)
        return float((cdf(law, there) - cdf(law, -there)).mean()) - probability

    farthest = _farthest(law, probability).max()
    return float(rising_root(excess, 0.0, farthest, tolerance=1e-4))


def _farthest(law: ErrorLaw, probability: float) -> PerAxis:
    """Beyond the quantiles; those of a Laplace law are −scale · log(1 − p)."""
    if not 0.0 < probability < 1.0:
        raise InputError(
            f"probability must lie strictly between 0 and 1, but is {probability}."
        )
    scale = np.maximum(law.fine_scale, law.coarse_scale)
    return np.abs(law.location) + scale * (1.0 - np.log1p(-probability))


def rising_root(
    excess: Callable[[Any], Any], low: Any, high: Any, tolerance: float
) -> Any:
    """Where a rising function, or each of several, is 0: halving (without SciPy).

    >>> round(float(rising_root(lambda x: x**3 - 8.0, 0.0, 9.0, tolerance=1e-6)), 5)
    2.0
    """
    while np.any(high - low > np.maximum(tolerance, 1e-12 * high)):
        middle = 0.5 * (low + high)
        below = excess(middle) < 0.0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)
