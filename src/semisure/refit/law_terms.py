"""What of an error law no residual changes, computed once for many residuals.

Posterior and likelihood of the mixture share one exponent. With e(r) = |r| for Laplace
components and r² for Gaussian ones, and the rate of a component in its e^{−rate e(r)},

    odds  = α / (1 − α) · sᶠ / sᶜ · exp((rateᶠ − rateᶜ) e(r)),    ω_d = 1 / (1 + odds)
    log p = log((1 − α) / norm sᶠ) − rateᶠ e(r) + log(1 + odds)

A refit asks for them at the same matches again and again. The terms are therefore kept
by columns, (2, k), x then y: ω is then a product of two contiguous rows. What they give
is what :mod:`semisure.mixture` gives, which a test holds them to. Odds may overflow to
infinity, the right limit; whoever calls in a loop silences that, since to do so takes
longer than an array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from semisure.mixture import LAPLACE, ErrorLaw, Family
from semisure.types import Columns, PerMatch

Keep = Callable[[Columns], Columns]  # where to put arrays, such as Shelf.keep

# Exponents are held below this where their logarithm is taken: e^{2 · 300} is finite.
LARGEST_EXPONENT = 300.0
LARGEST_ODDS = np.exp(LARGEST_EXPONENT)
OPEN_GATE = 1e6  # stands for an infinite logit


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """The odds that the coarse cell of an axis was wrong, as a function of r."""

    size: Callable[[Columns], Columns]  # e(r)
    steepness: Columns  # rateᶠ − rateᶜ
    log_odds: Columns  # at r = 0
    location: Columns | None  # px; None stands for 0

    @classmethod
    def of(cls, law: ErrorLaw, keep: Keep) -> Posterior:
        fine, coarse = law.fine_scale.T, law.coarse_scale.T
        return cls(
            np.abs if law.family is LAPLACE else np.square,
            keep(_rate(law.family, fine) - _rate(law.family, coarse)),
            keep(np.log(fine / coarse) + np.minimum(law.tail_logit.T, OPEN_GATE)),
            keep(law.location.T) if law.location.any() else None,
        )

    def centred(self, residual: Columns) -> Columns:
        """The residuals less their location."""
        return residual if self.location is None else residual - self.location

    def log_odds_at(self, sizes: Columns) -> Columns:
        """Logarithm of the odds, (2, n), where e(r) is `sizes`."""
        exponent = sizes * self.steepness
        exponent += self.log_odds
        return exponent


@dataclass(frozen=True, slots=True, eq=False)
class Whitening:
    """The weights of ``core+``: ω / (sᶠ √(r² + sᶠ²)) per axis.

    1 / √(r² + sᶠ²) is the fine Laplace law's own robustness, rounded at zero. Weights
    have the precision of the terms. Single precision halves the time and, since each
    weight errs by 1e-7 on its own, moves a model by less than a billionth of its error.
    """

    posterior: Posterior
    fine2: Columns  # sᶠ to the power of 2, and of 4
    fine4: Columns

    @classmethod
    def of(cls, law: ErrorLaw, keep: Keep = np.asarray) -> Whitening:
        fine2 = law.fine_scale.T**2
        return cls(Posterior.of(law, keep), keep(fine2), keep(fine2 * fine2))

    def __call__(self, residual: Columns) -> tuple[Columns, Columns, PerMatch]:
        """Residuals less their location, their weights, both (2, n), and ω (n,)."""
        centred = self.posterior.centred(residual)
        r = centred.astype(self.fine2.dtype, copy=False)
        odds = self.posterior.log_odds_at(self.posterior.size(r))
        np.exp(odds, out=odds)
        odds += 1.0
        success = 1.0 / (odds[0] * odds[1])
        softened = r * r
        softened *= self.fine2
        softened += self.fine4
        np.sqrt(softened, out=softened)
        return centred, np.divide(success, softened, out=softened), success


@dataclass(frozen=True, slots=True, eq=False)
class LogLikelihood:
    """ω of each match, and Σ log p of all, nats."""

    posterior: Posterior
    rate: Columns  # of the fine component
    peak: float  # Σ log((1 − α) / norm sᶠ)

    @classmethod
    def of(cls, law: ErrorLaw, keep: Keep = np.asarray) -> LogLikelihood:
        fine = law.fine_scale.T
        doubt, beyond = _one_plus_exp(np.minimum(law.tail_logit.T, OPEN_GATE))
        doubt *= fine
        peak = -beyond - float(np.log(doubt[0] * doubt[1]).sum())
        peak -= 2 * len(law) * law.family.log_norm
        return cls(Posterior.of(law, keep), keep(_rate(law.family, fine)), peak)

    def __call__(self, residual: Columns) -> tuple[PerMatch, float]:
        sizes = self.posterior.size(self.posterior.centred(residual))
        (x, y), beyond = _one_plus_exp(self.posterior.log_odds_at(sizes))
        doubt = x * y
        # Row by row: longer dot products would start threads.
        energy = sizes[0] @ self.rate[0] + sizes[1] @ self.rate[1]
        near = float(np.log(doubt).sum() - energy)
        success = np.divide(doubt < LARGEST_ODDS, doubt)
        return success, self.peak + near + beyond


def _one_plus_exp(exponent: Columns) -> tuple[Columns, float]:
    """1 + e^x, held where it would be too large a number, and Σ of what that cut off x.

    The logarithms of the numbers and the sum add up to Σ log(1 + e^x). `exponent` is
    overwritten.
    """
    held = np.minimum(exponent, LARGEST_EXPONENT)
    np.maximum(exponent, LARGEST_EXPONENT, out=exponent)
    exponent -= LARGEST_EXPONENT
    np.exp(held, out=held)
    held += 1.0
    return held, float(exponent.sum())


def _rate(family: Family, scale: Columns) -> Columns:
    return family.energy(np.ones(()), scale)
