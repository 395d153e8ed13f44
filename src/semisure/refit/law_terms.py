"""What the scores of ``core+`` need of an error law, computed once for many residuals.

With e(r) = |r| for Laplace components and r² for Gaussian ones, and the rate of a
component in its e^{−rate e(r)},

    odds = α / (1 − α) · sᶠ / sᶜ · exp((rateᶠ − rateᶜ) e(r)),    ω_d = 1 / (1 + odds).

Terms are kept by columns, (2, k), x then y. Odds may overflow to infinity, the right
limit; whoever calls in a loop silences that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from semisure.mixture import LAPLACE, ErrorLaw, Family
from semisure.types import Columns, FloatArray, Index

OPEN_GATE = 1e6  # stands for an infinite logit
NOTHING = 1e-25  # stands for a residual of 0, in px, where one is divided by


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """The odds that the coarse cell of an axis was wrong, as a function of r."""

    size: Callable[[Columns], Columns]  # e(r)
    steepness: Columns  # rateᶠ − rateᶜ
    log_odds: Columns  # at r = 0
    location: Columns | None  # px; None stands for 0

    @classmethod
    def of(cls, law: ErrorLaw) -> Posterior:
        fine, coarse = law.fine_scale.T, law.coarse_scale.T
        return cls(
            np.abs if law.family is LAPLACE else np.square,
            _rate(law.family, fine) - _rate(law.family, coarse),
            np.log(fine / coarse) + np.minimum(law.tail_logit.T, OPEN_GATE),
            law.location.T if law.location.any() else None,
        )

    def centred(self, residual: Columns) -> Columns:
        """The residuals less their location."""
        return residual if self.location is None else residual - self.location

    def take(self, index: Index) -> Posterior:
        """The odds of some matches."""
        location = None if self.location is None else self.location[:, index]
        return Posterior(
            self.size, self.steepness[:, index], self.log_odds[:, index], location
        )

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
    def of(cls, law: ErrorLaw) -> Whitening:
        fine2 = law.fine_scale.T**2
        return cls(Posterior.of(law), fine2, fine2 * fine2)

    def _softened2(self, r: Columns) -> Columns:
        """(sᶠ)² (r² + (sᶠ)²)."""
        softened = r * r
        softened *= self.fine2
        softened += self.fine4
        return softened

    def scored(self, residual: Columns) -> tuple[Columns, Columns, Columns, FloatArray]:
        """Residuals r less their location, ψ/r and ψ, (2, n) each, and ψ′: xx, xy, yy.

        ψ is the score that ``core+`` solves for, r times its weight. Its slope ψ′ has
        the slope of ω in it, so it is below the weight and may be negative. Of ψ′ the
        symmetric part is given: it is all that a sum over matches needs.
        """
        r, weight, own, fall = self._steepness(residual)
        score = weight * r
        slopes = np.empty((3, r.shape[1]), r.dtype)
        np.multiply(weight, own, out=slopes[::2])
        fall /= r + NOTHING
        fall[::-1] *= score
        np.add(fall[0], fall[1], out=slopes[1])
        slopes[1] *= -0.5
        return r, weight, score, slopes

    def weighed(self, residual: Columns) -> tuple[Columns, float]:
        """ψ/r alone, and the sum of ψ′ along both axes."""
        _, weight, own, _ = self._steepness(residual)
        return weight, float(np.vdot(weight, own))

    def _steepness(
        self, residual: Columns
    ) -> tuple[Columns, Columns, Columns, Columns]:
        """r, ψ/r, the slope of ψ against it, and r times that of −log ω; (2, n)."""
        r = self.posterior.centred(residual).astype(self.fine2.dtype, copy=False)
        exponent = self.posterior.size(r)
        exponent *= self.posterior.steepness
        failure = exponent + self.posterior.log_odds
        np.exp(failure, out=failure)
        failure += 1.0
        np.divide(1.0, failure, out=failure)  # ω of each axis
        success = failure[0] * failure[1]
        np.subtract(1.0, failure, out=failure)
        # −d log ω_d / d log r = (1 − ω_d) d log odds / d log r
        failure *= exponent
        if self.posterior.size is np.square:
            failure *= 2.0
        softened2 = self._softened2(r)
        weight = np.sqrt(softened2)
        np.divide(success, weight, out=weight)
        own = np.divide(self.fine4, softened2, out=softened2)
        own -= failure
        return r, weight, own, failure

    def take(self, index: Index) -> Whitening:
        """The weights of some matches."""
        return Whitening(
            self.posterior.take(index), self.fine2[:, index], self.fine4[:, index]
        )


def _rate(family: Family, scale: Columns) -> Columns:
    return family.energy(np.ones(()), scale)
