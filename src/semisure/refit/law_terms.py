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
from semisure.types import Columns, FloatArray, Index, Mask, PerMatch

Keep = Callable[[Columns], Columns]  # where to put arrays, such as Shelf.keep

LARGEST_LOGIT = 300.0  # of a likelihood: e^{2 · 300} is finite
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
    def of(cls, law: ErrorLaw, keep: Keep = np.asarray) -> Whitening:
        fine2 = law.fine_scale.T**2
        return cls(Posterior.of(law, keep), keep(fine2), keep(fine2 * fine2))

    @classmethod
    def floored(cls, law: ErrorLaw, floor2: FloatArray, room: FloatArray) -> Whitening:
        """Of a law without location as :func:`semisure.refit.core_plus.floored` has it.

        `floor2` is px² of each match; what is kept is put in `room` (8, n).
        """
        fine = law.fine_scale.T.astype(room.dtype)
        fine2, fine4, steepness, log_odds = room.reshape(4, 2, -1)
        np.multiply(fine, fine, out=fine2)
        fine2 += floor2
        np.multiply(fine2, fine2, out=fine4)
        np.sqrt(fine2, out=fine)
        coarse = np.maximum(law.coarse_scale.T.astype(room.dtype), fine)
        np.subtract(_rate(law.family, fine), _rate(law.family, coarse), out=steepness)
        fine /= coarse
        np.log(fine, out=log_odds)
        log_odds += np.minimum(law.tail_logit.T, OPEN_GATE).astype(room.dtype)
        return cls.within(room, law.family)

    @classmethod
    def within(cls, room: FloatArray, family: Family) -> Whitening:
        """What such a room holds."""
        size = np.abs if family is LAPLACE else np.square
        return cls(Posterior(size, room[4:6], room[6:], None), room[:2], room[2:4])

    def __call__(self, residual: Columns) -> tuple[Columns, Columns, PerMatch]:
        """Residuals less their location, their weights, both (2, n), and ω (n,)."""
        centred = self.posterior.centred(residual)
        r = centred.astype(self.fine2.dtype, copy=False)
        odds = self.posterior.log_odds_at(self.posterior.size(r))
        np.exp(odds, out=odds)
        odds += 1.0
        success = 1.0 / (odds[0] * odds[1])
        softened = self._softened2(r)
        np.sqrt(softened, out=softened)
        return centred, np.divide(success, softened, out=softened), success

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


@dataclass(frozen=True, slots=True, eq=False)
class LogLikelihood:
    """ω of each match, and Σ log p of all, nats.

    Of the two components the one that falls slower is taken out of the sum, so that
    what is left, `slow` + `fast` e^{−steepness e(r)}, is neither 0 nor infinite.
    """

    size: Callable[[Columns], Columns]  # e(r)
    location: Columns | None  # px; None stands for 0
    rate: Columns  # of the slower component
    slow: Columns
    steepness: Columns  # of the other one against it, ≥ 0
    fast: Columns
    fine_is_slow: Mask | None  # on which axes; None: nowhere
    peak: float  # −Σ log(norm (1 + α / (1 − α)))

    @classmethod
    def of(cls, law: ErrorLaw, keep: Keep = np.asarray) -> LogLikelihood:
        scales = law.fine_scale.T, law.coarse_scale.T
        gate = np.minimum(law.tail_logit.T, LARGEST_LOGIT)
        np.maximum(gate, -LARGEST_LOGIT, out=gate)
        np.exp(gate, out=gate)
        fine, coarse = 1.0 / scales[0], 1.0 / scales[1]
        rates = _rates(law.family, fine), _rates(law.family, coarse)
        coarse *= gate
        turned = (fine if law.family is LAPLACE else rates[0]) < rates[1]
        shut = np.isneginf(law.tail_logit.T)
        if shut.any():  # the coarse component is none
            coarse[shut], turned = 0.0, turned | shut
        gate += 1.0
        peak = -float(np.log(gate[0] * gate[1]).sum())
        peak -= 2 * len(law) * law.family.log_norm
        rate, steepness = rates[1], rates[0] - rates[1]
        fast, slow = fine, coarse
        if turned.any():
            rate = np.where(turned, rates[0], rate)
            steepness = np.where(shut, 0.0, np.abs(steepness))
            fast, slow = np.where(turned, coarse, fine), np.where(turned, fine, coarse)
        return cls(
            np.abs if law.family is LAPLACE else np.square,
            keep(law.location.T) if law.location.any() else None,
            keep(rate),
            keep(slow),
            keep(steepness),
            keep(fast),
            turned if turned.any() else None,
            peak,
        )

    def __call__(self, residual: Columns) -> tuple[PerMatch, float]:
        if self.location is not None:
            residual = residual - self.location
        sizes = self.size(residual)
        part = sizes * self.steepness
        np.negative(part, out=part)
        np.exp(part, out=part)
        part *= self.fast
        whole = part + self.slow
        if self.fine_is_slow is not None:
            np.copyto(part, self.slow, where=self.fine_is_slow)
        density = whole[0] * whole[1]
        # Row by row: longer dot products would start threads.
        energy = sizes[0] @ self.rate[0] + sizes[1] @ self.rate[1]
        success = part[0] * part[1]
        success /= density
        return success, self.peak + float(np.log(density, out=density).sum() - energy)


def _rates(family: Family, inverse: Columns) -> Columns:
    """Rates of components by their inverse scales."""
    return inverse.copy() if family is LAPLACE else 0.5 * inverse * inverse


def _rate(family: Family, scale: Columns) -> Columns:
    return family.energy(np.ones(()), scale)
