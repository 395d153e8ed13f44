"""The calibrated error law of the paper: eight numbers, one mixture per axis.

For match i and axis d the residual r = predicted − reference follows

    p(r) = (1 − α) Lap(r | μ, sᶠ) + α Lap(r | μ, sᶜ)          (eq. laplace_mixture)
    sᶠ = √b s̃ᶠ,  sᶜ = √a s̃ᶜ                                  (eq. scale_calibration)
    α  = σ(k_s s̄ + k_m (−log m) + β_d),  s̄ = 100 s̃ᶜ / D       (eq. gate)

with μ = 0 in the paper. Everything below takes a :class:`ErrorLaw`, the law of n
matches, and works per axis on (n, 2) arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from semisure.errors import InputError
from semisure.law.families import LAPLACE, Family
from semisure.types import (
    Calibration,
    Cues,
    FloatArray,
    Index,
    PerAxis,
    PerMatch,
)
from semisure.types.checks import require_kind
from semisure.types.display import counted

# A sharp softmax underflows to a standard deviation of exactly 0, where the density
# has no value. Raw standard deviations are raised to this floor before the gains.
STD_FLOOR_PX = 1e-2


def expit(x: FloatArray) -> FloatArray:
    """1 / (1 + e^{−x}), by NumPy's vectorised exponential: SciPy's is scalar."""
    with np.errstate(over="ignore"):  # e^{800} is infinite, and its inverse the limit
        return np.asarray(1.0 / (1.0 + np.exp(-x)))


def log_sum(a: FloatArray | float, b: FloatArray) -> FloatArray:
    """log(e^a + e^b); NumPy's own is not vectorised, and half as fast."""
    return np.asarray(np.maximum(a, b) + np.log(1.0 + np.exp(-np.abs(a - b))))


@dataclass(frozen=True, slots=True, eq=False)
class ErrorLaw:
    """The distribution of each match's residual, per axis; all arrays (n, 2)."""

    fine_scale: PerAxis  # sᶠ, px
    coarse_scale: PerAxis  # sᶜ, px
    tail_logit: PerAxis  # logit α; ±inf where the gate is shut or open
    location: PerAxis  # μ, px; 0 in the paper
    family: Family = LAPLACE

    def __len__(self) -> int:
        return len(self.fine_scale)

    def __repr__(self) -> str:
        return f"ErrorLaw({counted(len(self), 'match', 'matches')})"

    def take(self, index: Index) -> ErrorLaw:
        """The laws of the matches that `index` picks."""
        arrays = self.fine_scale, self.coarse_scale, self.tail_logit, self.location
        # One axis after the other in memory, as the arrays themselves are.
        fine, coarse, logit, location = (array.T[:, index].T for array in arrays)
        return ErrorLaw(fine, coarse, logit, location, self.family)


def require_law(law: object) -> None:
    """Raise unless it is the law of matches: people pass the matches themselves."""
    advice = "It is the law of matches: semisure.error_law(matches, calibration)."
    require_kind("law", law, ErrorLaw, advice)


def _example_law() -> ErrorLaw:
    """One match with scales of 1 and 4 px and a tail of 0.2, for examples."""
    one = np.ones((1, 2))
    return ErrorLaw(one, 4 * one, np.log(0.25) * one, 0 * one)


def location(cues: Cues, calibration: Calibration) -> PerAxis:
    """Systematic shift of the refined points, (n, 2) px."""
    if calibration.location is None:
        return np.zeros_like(cues.fine_std)
    return cues.shift_px(calibration.location)


def scales(cues: Cues, calibration: Calibration) -> tuple[PerAxis, PerAxis]:
    """Calibrated fine and coarse scales, px each (eq. scale_calibration)."""
    fine = np.maximum(cues.fine_std, STD_FLOOR_PX)
    coarse = np.maximum(cues.coarse_std, STD_FLOOR_PX)
    fine *= np.sqrt(calibration.fine_var_gain)
    coarse *= np.sqrt(calibration.coarse_var_gain)
    return fine, coarse


def tail_logit(cues: Cues, calibration: Calibration) -> PerAxis:
    """Logit of the chance that the coarse cell was wrong, (n, 2) (eq. gate)."""
    gate = calibration.spread_slope * cues.spread
    gate += calibration.doubt_slope * cues.doubt[:, None]
    gate += np.array(calibration.intercept)
    return gate


def mixture_law(cues: Cues, calibration: Calibration) -> ErrorLaw:
    """The paper's law of each match."""
    fine, coarse = scales(cues, calibration)
    gate = tail_logit(cues, calibration)
    return ErrorLaw(fine, coarse, gate, location(cues, calibration))


def ordered(law: ErrorLaw) -> ErrorLaw:
    """The law with no coarse scale below the fine one of the same match and axis.

    A sharp softmax can make the coarse scale the smaller one. The posterior of coarse
    success would then grow with the residual; with equal scales it is always 1 − α.
    """
    return replace(law, coarse_scale=np.maximum(law.coarse_scale, law.fine_scale))


def log_joint(law: ErrorLaw, residual: PerAxis) -> tuple[PerAxis, PerAxis]:
    """log of each component's chance times its density at r, (n, 2) nats each."""
    x = residual - law.location
    fine = law.family.log_density(x, law.fine_scale)
    coarse = law.family.log_density(x, law.coarse_scale)
    fine -= log_sum(0.0, law.tail_logit)  # log (1 − α)
    coarse -= log_sum(0.0, -law.tail_logit)
    return fine, coarse


def log_density(law: ErrorLaw, residual: PerAxis) -> PerAxis:
    """log p(r) per axis, (n, 2) nats (eq. laplace_mixture)."""
    return log_sum(*log_joint(law, residual))


def coarse_success(law: ErrorLaw, residual: PerAxis) -> PerAxis:
    """Posterior, per axis, that the coarse cell was right (eq. weight_approx).

    Bayes in odds: the prior logit of failure and the two energies meet in one
    exponent, whose overflow is the right limit, 0. No epsilon, any residual.

    >>> coarse_success(_example_law(), np.zeros((1, 2))).round(4)  # 16/17
    array([[0.9412, 0.9412]])
    """
    require_law(law)
    x = residual - law.location
    energy = law.family.energy(x, law.fine_scale)
    energy -= law.family.energy(x, law.coarse_scale)
    with np.errstate(over="ignore"):
        odds = np.exp(energy + law.tail_logit) * (law.fine_scale / law.coarse_scale)
    return 1.0 / (1.0 + odds)


def tail_prob(law: ErrorLaw) -> PerAxis:
    """α, the chance per axis that the coarse cell was wrong, (n, 2)."""
    require_law(law)
    return expit(law.tail_logit)


def coarse_failure(law: ErrorLaw) -> PerMatch:
    """Chance that the coarse cell was wrong on either axis.

    >>> law = _example_law()
    >>> coarse_failure(law).round(2)  # 1 − 0.8²
    array([0.36])
    """
    require_law(law)
    return 1.0 - expit(-law.tail_logit).prod(axis=1)


def _mix(law: ErrorLaw, fine: PerAxis, coarse: PerAxis) -> PerAxis:
    alpha = tail_prob(law)
    return (1.0 - alpha) * fine + alpha * coarse


def expected_abs_residual(law: ErrorLaw) -> PerAxis:
    """E|r| per axis, (n, 2) px; (1 − α) sᶠ + α sᶜ for the paper's law."""
    require_law(law)
    with np.errstate(over="ignore"):  # a shift of very many scales: e^−∞ is the limit
        fine = law.family.mean_abs(law.location, law.fine_scale)
        coarse = law.family.mean_abs(law.location, law.coarse_scale)
    return _mix(law, fine, coarse)


def expected_abs_error(law: ErrorLaw) -> PerMatch:
    """E[e], the mean over axes of E|r|, px: what a match's error should be.

    >>> expected_abs_error(_example_law()).round(2)  # 0.8 · 1 + 0.2 · 4
    array([1.6])
    """
    return expected_abs_residual(law).mean(axis=1)


def cdf(law: ErrorLaw, residual: PerAxis) -> PerAxis:
    """P(R ≤ r) per axis, (n, 2)."""
    x = residual - law.location
    fine = law.family.cdf(x, law.fine_scale)
    return _mix(law, fine, law.family.cdf(x, law.coarse_scale))


def prob_beyond(law: ErrorLaw, threshold_px: float) -> PerAxis:
    """P(|r| > τ) per axis, (n, 2)."""
    if not threshold_px >= 0:
        raise InputError(f"threshold_px must not be negative, but is {threshold_px}.")

    # Both tails are lower tails of a symmetric shape: no 1 − (almost 1).
    def beyond(scale: FloatArray) -> FloatArray:
        below = law.family.cdf(-threshold_px - law.location, scale)
        return below + law.family.cdf(law.location - threshold_px, scale)

    return _mix(law, beyond(law.fine_scale), beyond(law.coarse_scale))


def abs_quantile(law: ErrorLaw, probability: float) -> PerAxis:
    """The size of the residual per axis that is exceeded by 1 − probability, px.

    The tail of a heavy-tailed law dominates its mean, but not its quantiles. P(|r| ≤ x)
    is concave in x beyond |μ|, so that Newton's steps from there do not pass the root.

    >>> half = abs_quantile(_example_law(), 0.5)  # 0.8 e^{−x} + 0.2 e^{−x/4} = ½
    >>> bool(np.allclose(0.8 * np.exp(-half) + 0.2 * np.exp(-half / 4), 0.5))
    True
    """
    if not 0.0 < probability < 1.0:
        raise InputError(
            f"probability must lie strictly between 0 and 1, but is {probability}."
        )
    x = np.abs(law.location)
    for _ in range(60):  # far more than it takes
        within = cdf(law, x) - cdf(law, -x)
        density = np.exp(log_density(law, x)) + np.exp(log_density(law, -x))
        step = (probability - within) / density
        x = np.maximum(x + step, 0.0)
        if (np.abs(step) <= 1e-9 * (1.0 + x)).all():
            break
    return x


def pooled_abs_quantile(law: ErrorLaw, probability: float) -> float:
    """The same for all matches and axes together, px: "90 % within x px"."""
    edges = abs_quantile(law, probability)

    def excess(x: float) -> float:
        limit = np.full_like(law.fine_scale, x)
        return float((cdf(law, limit) - cdf(law, -limit)).mean()) - probability

    return float(rising_root(excess, edges.min(), edges.max(), tolerance=1e-4))


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


def sample(law: ErrorLaw, rng: np.random.Generator) -> PerAxis:
    """One residual per match and axis drawn from the law, (n, 2) px."""
    failed = rng.random(law.fine_scale.shape) < tail_prob(law)
    scale = np.where(failed, law.coarse_scale, law.fine_scale)
    return law.location + law.family.sample(rng, scale)
