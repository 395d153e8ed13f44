"""The calibration objective: mean NLL with its exact gradient and Hessian.

Eight numbers are fitted, in this order:

=====  ================  ==========================================================
place  paper             meaning
=====  ================  ==========================================================
0, 1   log b_x, log b_y  fine variance gains; positive, so fitted as logarithms
2, 3   log a_x, log a_y  coarse variance gains
4      k_s               slope of the gate by the coarse spread, logit per %
5      k_m               slope of the gate by −log m, logit per nat
6, 7   β_x, β_y          intercepts of the gate, β_d = −k_s t_d − k_m t_m
=====  ================  ==========================================================

The paper's nine have one number too many: its t_x, t_y and t_m enter the gate by the
two intercepts only.

In each axis a match contributes log p = ℓᶠ − softplus(z) + softplus(g), where ℓᶠ is
the fine component's log density, z the gate's logit and g = z + ℓᶜ − ℓᶠ the log odds
of failure. With A the energy of a component, of power p in |r| (Laplace: 1; Gaussian:
2), every derivative is a product of σ(z), σ(g) and A.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from semisure.law.families import LAPLACE, Family
from semisure.law.mixture import expit, log_sum, mixture_law
from semisure.law.observations import Observations
from semisure.types import (
    Calibration,
    Matrix,
    PerAxis,
    Vector,
)

SIZE = 8
NAMES = ("b_x", "b_y", "a_x", "a_y", "k_s", "k_m", "beta_x", "beta_y")
FINE, COARSE, INTERCEPT = slice(0, 2), slice(2, 4), slice(6, 8)  # by axis
SPREAD_SLOPE, DOUBT_SLOPE = 4, 5
AXES = ([0, 2, 4, 5, 6], [1, 3, 4, 5, 7])  # log b, log a, k_s, k_m, β of x and of y


def unpack(eight: Vector) -> Calibration:
    """The calibration of eight numbers."""
    fine, coarse, beta = np.exp(eight[FINE]), np.exp(eight[COARSE]), eight[INTERCEPT]
    return Calibration(
        fine_var_gain=(fine[0], fine[1]),
        coarse_var_gain=(coarse[0], coarse[1]),
        spread_slope=eight[SPREAD_SLOPE],
        doubt_slope=eight[DOUBT_SLOPE],
        intercept=(beta[0], beta[1]),
    )


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Mean NLL per axis of `observations` as a function of the eight parameters."""

    observations: Observations
    location: tuple[float, float] = (0.0, 0.0)  # in fine windows
    family: Family = LAPLACE

    def value(self, parameters: Vector) -> float:
        """Mean NLL per axis, nats."""
        terms = (term for _, term in self._terms(parameters))
        total = sum(float(term.log_density.sum()) for term in terms)
        return -total / (2 * len(self.observations))

    def __call__(self, parameters: Vector) -> tuple[float, Vector, Matrix]:
        """Mean NLL per axis with its gradient (8,) and Hessian (8, 8)."""
        total, gradient, hessian = 0.0, np.zeros(SIZE), np.zeros((SIZE, SIZE))
        for block, terms in self._terms(parameters):
            total -= float(terms.log_density.sum())
            for axis, places in enumerate(AXES):
                slope, second = terms.derivatives(axis, block)
                gradient[places] -= slope
                hessian[np.ix_(places, places)] -= second
        count = 2 * len(self.observations)
        return total / count, gradient / count, hessian / count

    def _terms(self, parameters: Vector) -> Iterator[tuple[Observations, _Terms]]:
        calibration = replace(unpack(parameters), location=self.location)
        for block in self.observations.blocks():
            yield block, _Terms.of(block, calibration, self.family)


@dataclass(frozen=True, slots=True, eq=False)
class _Terms:
    """The likelihood of some matches, with what its derivatives need; all (n, 2)."""

    log_density: PerAxis
    prior_logit: PerAxis  # z
    posterior_logit: PerAxis  # g
    fine_energy: PerAxis
    coarse_energy: PerAxis
    power: int

    @classmethod
    def of(
        cls, block: Observations, calibration: Calibration, family: Family
    ) -> _Terms:
        law = mixture_law(block, calibration)
        x, z = block.residual - law.location, law.tail_logit
        fine = family.energy(x, law.fine_scale)
        coarse = family.energy(x, law.coarse_scale)
        g = z + (fine - coarse) + np.log(law.fine_scale / law.coarse_scale)
        log_density = log_sum(0.0, g) - log_sum(0.0, z)
        log_density += family.log_density(x, law.fine_scale)
        return cls(log_density, z, g, fine, coarse, family.power)

    def derivatives(self, axis: int, block: Observations) -> tuple[Vector, Matrix]:
        """First (5,) and second (5, 5), of Σ log p by log b, log a, k_s, k_m, β."""
        fine, coarse = self.fine_energy[:, axis], self.coarse_energy[:, axis]
        # Chance that the coarse cell was wrong, given the residual and before it.
        failed = expit(self.posterior_logit[:, axis])
        prior = expit(self.prior_logit[:, axis])
        # Of g; the fine log density has the slope (p Aᶠ − 1) / 2 by log b, and so on.
        by_b = 0.5 - 0.5 * self.power * fine
        by_a = 0.5 * self.power * coarse - 0.5
        gate = block.spread[:, axis], block.doubt, np.ones(len(block))
        odds = np.stack([by_b, by_a, *gate])
        slope = (odds * [failed - 1.0, failed, *3 * [failed - prior]]).sum(axis=1)
        # σ' = σ(1 − σ), of the posterior and, in the gate, less that of the prior.
        weighted = odds * (failed * (1.0 - failed))
        weighted[2:] -= odds[2:] * (prior * (1.0 - prior))
        second = weighted @ odds.T
        second[2:, :2] = second[:2, 2:].T
        curved = 0.25 * self.power**2
        second[0, 0] -= curved * float((1.0 - failed) @ fine)
        second[1, 1] -= curved * float(failed @ coarse)
        return slope, second
