"""The shapes of the mixture's components: Laplace, and Gaussian for the ablation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from semisure.types import FloatArray


@dataclass(frozen=True, slots=True)
class Family:
    """A symmetric component shape, density e^{−energy} / (norm · scale)."""

    power: int  # of |x| in the energy
    energy: Callable[[FloatArray, FloatArray], FloatArray]
    log_norm: float
    cdf: Callable[[FloatArray, FloatArray], FloatArray]
    mean_abs: Callable[[FloatArray, FloatArray], FloatArray]  # E|X + c|, scale s
    sample: Callable[[np.random.Generator, FloatArray], FloatArray]

    def log_density(self, x: FloatArray, scale: FloatArray) -> FloatArray:
        return -self.energy(x, scale) - np.log(scale) - self.log_norm


def _laplace_cdf(x: FloatArray, scale: FloatArray) -> FloatArray:
    half_tail = 0.5 * np.exp(-np.abs(x) / scale)
    return np.asarray(np.where(x < 0, half_tail, 1.0 - half_tail))


LAPLACE = Family(
    power=1,
    energy=lambda x, s: np.abs(x) / s,
    log_norm=float(np.log(2.0)),
    cdf=_laplace_cdf,
    mean_abs=lambda c, s: np.abs(c) + s * np.exp(-np.abs(c) / s),
    sample=lambda rng, s: rng.laplace(0.0, s),
)


def _gaussian_cdf(x: FloatArray, scale: FloatArray) -> FloatArray:
    from scipy.special import ndtr  # takes 0.2 s, and few need it

    return ndtr(x / scale)


def _gaussian_mean_abs(c: FloatArray, scale: FloatArray) -> FloatArray:
    z = c / scale
    peak = np.sqrt(2.0 / np.pi) * scale * np.exp(-0.5 * z * z)
    return peak + c * (2.0 * _gaussian_cdf(c, scale) - 1.0)


GAUSSIAN = Family(
    power=2,
    energy=lambda x, s: 0.5 * (x / s) ** 2,
    log_norm=float(0.5 * np.log(2.0 * np.pi)),
    cdf=_gaussian_cdf,
    mean_abs=_gaussian_mean_abs,
    sample=lambda rng, s: rng.normal(0.0, s),
)
