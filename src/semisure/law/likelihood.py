"""The calibration objective: mean NLL with its exact gradient and Hessian.

In each axis a match contributes log p = ℓᶠ − softplus(z) + softplus(g), where ℓᶠ is
the fine component's log density, z the gate's logit and g = z + ℓᶜ − ℓᶠ the log odds
of failure. With u = log b, v = log a and A = q e^{−pu/2} (Laplace: p = 1, q = |r|/s̃;
Gaussian: p = 2, q = r²/2s̃²) every derivative is a product of σ(z), σ(g) and A, so one
pass over the data costs little more than the value itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from math import exp
from typing import TypeAlias

import numpy as np

from semisure.errors import InputError
from semisure.geometry.homography import capped
from semisure.law.mixture import GAUSSIAN, LAPLACE, STD_FLOOR_PX
from semisure.law.parameters import SIZE, of_axis
from semisure.types import (
    FloatArray,
    Index,
    Labels,
    Matches,
    Matrix,
    PerAxis,
    PerMatch,
    Vector,
)
from semisure.types.checks import MAX_PX, as_reals, within_px
from semisure.types.matches import require_matches

# Rows per block: about ten temporaries of this length stay in a core's cache, and thin
# matrices of this length are multiplied without threads, which would cost more.
BLOCK_ROWS = 8_192
LARGEST_EXPONENT = 600.0  # its exponential is finite, and so is a product with scales
LOG_NORM = {1: LAPLACE.log_norm, 2: GAUSSIAN.log_norm}  # by the power of |r|


@dataclass(frozen=True, slots=True, eq=False)
class Observations:
    """Matches whose true error is known, stacked over image pairs."""

    residual: PerAxis  # px, predicted − reference
    fine_std: PerAxis  # px
    coarse_std: PerAxis  # px
    spread: PerAxis  # % of the image side
    doubt: PerMatch  # nats
    fine_window: PerMatch  # px
    pair: Labels  # index of the image pair

    def __len__(self) -> int:
        return len(self.residual)

    def shift_px(self, location: tuple[float, float]) -> PerAxis:
        """What a location, in fine windows, is in pixels of each refined point."""
        return self.fine_window[:, None] * np.array(location)

    def take(self, index: Index) -> Observations:
        """A view of the rows that `index` picks."""
        return Observations(*(getattr(self, f.name)[index] for f in fields(self)))

    def thinned(self, step: int) -> Observations:
        """A copy of every so-manieth row."""
        if step == 1:
            return self
        arrays = (getattr(self, f.name)[::step] for f in fields(self))
        return Observations(*(array.copy(order="F") for array in arrays))

    def blocks(self, rows: int = BLOCK_ROWS) -> Iterator[Observations]:
        """Views of consecutive rows, so that a pass needs no n-sized temporaries."""
        for begin in range(0, len(self), rows):
            yield self.take(slice(begin, begin + rows))


def observe(pairs: Iterable[tuple[Matches, PerAxis]]) -> Observations:
    """Stack (matches, residual) of each pair; rows of infinite residual are refused.

    No residual counts as longer than its image's diagonal.
    """
    parts = [_observe_one(i, *_parted(pair)) for i, pair in enumerate(pairs)]
    if not parts:
        raise InputError("A calibration needs at least one image pair, but got none.")
    names = [f.name for f in fields(Observations)]
    return Observations(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in names)
    )


def _parted(pair: tuple[Matches, PerAxis]) -> tuple[Matches, PerAxis]:
    """Matches and residual of a pair; people pass one pair, or matches alone."""
    if isinstance(pair, tuple | list) and len(pair) == 2:
        require_matches(pair[0])
        return pair[0], pair[1]
    raise InputError(
        "pairs must be a list of (matches, residual), one for each image pair, but "
        f"holds a {type(pair).__name__}. Of a single pair: fit([(matches, residual)])."
    )


def _observe_one(index: int, matches: Matches, residual: PerAxis) -> Observations:
    residual = as_reals(f"residual of pair {index}", residual)
    if residual.shape != matches.target.shape:
        raise InputError(
            f"residual of pair {index} must have shape {matches.target.shape}, "
            f"one row per match, but has {residual.shape}."
        )
    bad = ~within_px(residual)
    if bad.any():
        raise InputError(
            f"residual of pair {index} must be finite and within ±{MAX_PX:g} px, but "
            f"{int(bad.sum())} of {len(bad)} rows are not; first: match "
            f"{int(np.flatnonzero(bad)[0])}. Leave out matches without ground truth."
        )
    return Observations(
        capped(residual, matches),
        matches.fine_std,
        matches.coarse_std,
        matches.spread,
        matches.doubt,
        matches.fine_window,
        np.full(len(matches), index, dtype=np.int64),
    )


Details: TypeAlias = tuple[PerMatch, FloatArray, Matrix]


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Mean NLL per axis of `observations` as a function of the eight parameters."""

    observations: Observations
    location: tuple[float, float] = (0.0, 0.0)  # in fine windows
    power: int = 1  # 1: Laplace, 2: Gaussian

    def value(self, parameters: Vector) -> float:
        """Mean NLL per axis, nats."""
        total = 0.0
        for block in self.observations.blocks():
            for axis in (0, 1):
                total -= float(self._axis(block, axis, parameters).log_density.sum())
        return total / (2 * len(self.observations))

    def __call__(self, parameters: Vector) -> tuple[float, Vector, Matrix]:
        """Mean NLL per axis with its gradient (8,) and Hessian (8, 8)."""
        value, gradient, hessian = 0.0, np.zeros(SIZE), np.zeros((SIZE, SIZE))
        for block in self.observations.blocks():
            for axis in (0, 1):
                term = self._axis(block, axis, parameters)
                value -= float(term.log_density.sum())
                index = of_axis(axis)
                gradient[index] -= term.gradient()
                hessian[np.ix_(index, index)] -= term.hessian(term.odds())
        n = 2 * len(self.observations)
        return value / n, gradient / n, hessian / n

    def slope(self, parameters: Vector) -> tuple[float, Vector]:
        """Mean NLL per axis with its gradient alone."""
        value, gradient = 0.0, np.zeros(SIZE)
        for block in self.observations.blocks():
            for axis in (0, 1):
                term = self._axis(block, axis, parameters)
                value -= float(term.log_density.sum())
                gradient[of_axis(axis)] -= term.gradient()
        n = 2 * len(self.observations)
        return value / n, gradient / n

    def details(self, parameters: Vector) -> Details:
        """NLL of each match, mean over its axes; scores by pair; the mean's Hessian.

        A score is the gradient of a pair's summed log density; (pairs, 8).
        """
        obs = self.observations
        nll = np.empty(len(obs))
        scores = np.zeros((int(np.max(obs.pair)) + 1, SIZE))
        hessian = np.zeros((SIZE, SIZE))
        for begin in range(0, len(obs), BLOCK_ROWS):
            rows = slice(begin, begin + BLOCK_ROWS)
            block = obs.take(rows)
            terms = [self._axis(block, axis, parameters) for axis in (0, 1)]
            nll[rows] = -0.5 * (terms[0].log_density + terms[1].log_density)
            for axis, term in enumerate(terms):
                index, odds = of_axis(axis), term.odds()
                hessian[np.ix_(index, index)] -= term.hessian(odds)
                _add_by_pair(scores, index, block.pair, term.by_match(odds))
        return nll, scores, hessian / (2 * len(obs))

    def centred(self, block: Observations, axis: int) -> PerMatch:
        """Residual of one axis less the location, px."""
        shift = self.location[axis]
        residual = block.residual[:, axis]
        return residual - shift * block.fine_window if shift else residual

    def _axis(self, block: Observations, axis: int, parameters: Vector) -> _Axis:
        u, v, k_s, k_m, beta = parameters[of_axis(axis)].tolist()
        fine = np.maximum(block.fine_std[:, axis], STD_FLOOR_PX)
        coarse = np.maximum(block.coarse_std[:, axis], STD_FLOOR_PX)
        spread, doubt = block.spread[:, axis], block.doubt
        x = np.abs(self.centred(block, axis))
        fine_energy = self._energy(x, fine, u)
        coarse_energy = self._energy(x, coarse, v)
        z = k_s * spread
        z += k_m * doubt
        z += beta
        # e^g = e^{z + Aᶠ − Aᶜ} scaleᶠ / scaleᶜ; what would overflow is added later.
        g = z + fine_energy
        g -= coarse_energy
        over = _cut_off(g) - _cut_off(z)
        np.exp(g, out=g)
        coarse *= exp(0.5 * (v - u))
        g *= np.divide(fine, coarse, out=coarse)
        np.exp(z, out=z)
        one_g, one_z = g + 1.0, z + 1.0
        log_density = one_g / one_z
        log_density /= fine
        np.log(log_density, out=log_density)
        log_density -= fine_energy
        log_density += over - (LOG_NORM[self.power] + 0.5 * u)
        return _Axis(
            log_density=log_density,
            prior=np.divide(z, one_z, out=z),
            posterior=np.divide(g, one_g, out=g),
            fine_energy=fine_energy,
            coarse_energy=coarse_energy,
            features=(spread, doubt),
            power=self.power,
        )

    def _energy(self, x: PerMatch, std: PerMatch, log_gain: float) -> PerMatch:
        """Energy A of a component of scale std · e^{log_gain / 2}."""
        energy = x / std
        energy *= exp(-0.5 * log_gain)
        if self.power == 2:
            energy *= 0.5 * energy
        return energy


def _cut_off(exponent: PerMatch) -> PerMatch | float:
    """What is cut off exponents, in place, lest their exponentials overflow."""
    if not exponent.max(initial=0.0) > LARGEST_EXPONENT:
        return 0.0
    over = np.maximum(exponent - LARGEST_EXPONENT, 0.0)
    exponent -= over
    return over


@dataclass(frozen=True, slots=True, eq=False)
class _Axis:
    """One axis of one block, with what the derivatives need."""

    log_density: PerMatch
    prior: PerMatch  # σ(z)
    posterior: PerMatch  # σ(g)
    fine_energy: PerMatch
    coarse_energy: PerMatch
    features: tuple[PerMatch, PerMatch]  # spread, doubt
    power: int

    def by_match(self, odds: FloatArray) -> FloatArray:
        """Derivatives of log p by (u, v, k_s, k_m, β), (5, n)."""
        rows = np.empty_like(odds)
        np.multiply(self.posterior - 1.0, odds[0], out=rows[0])
        np.multiply(self.posterior, odds[1], out=rows[1])
        np.multiply(self.posterior - self.prior, odds[2:], out=rows[2:])
        return rows

    def odds(self) -> FloatArray:
        """Derivatives of g by the same, (5, n)."""
        odds = np.empty((5, len(self.posterior)))
        # The fine log density has the slope (p Aᶠ − 1) / 2 by u, the coarse one by v.
        np.multiply(self.fine_energy, -0.5 * self.power, out=odds[0])
        np.multiply(self.coarse_energy, 0.5 * self.power, out=odds[1])
        odds[0] += 0.5
        odds[1] -= 0.5
        odds[2], odds[3], odds[4] = *self.features, 1.0
        return odds

    def gradient(self) -> Vector:
        """The same as `by_match`, summed, (5,)."""
        p, tail, count = self.power, self.posterior, float(self.posterior.sum())
        fine = p * float(self.fine_energy.sum() - tail @ self.fine_energy)
        coarse = p * float(tail @ self.coarse_energy)
        failed = tail - self.prior
        spread, doubt = self.features
        gate = float(failed @ spread), float(failed @ doubt), float(failed.sum())
        fine -= len(tail) - count
        return np.array([0.5 * fine, 0.5 * (coarse - count), *gate])

    def hessian(self, odds: FloatArray) -> Matrix:
        """Second derivatives of Σ log p, (5, 5)."""
        p, tail = self.power, self.posterior
        # σ' = σ(1 − σ), of the posterior and, in the gate, less that of the prior.
        weight = tail - tail * tail
        weighted = odds * weight
        prior = self.prior - self.prior * self.prior
        weighted[2:] -= odds[2:] * prior
        second = weighted @ odds.T
        second[2:, :2] = second[:2, 2:].T
        fine = float(self.fine_energy.sum() - tail @ self.fine_energy)
        second[0, 0] -= 0.25 * p * p * fine
        second[1, 1] -= 0.25 * p * p * float(tail @ self.coarse_energy)
        return np.asarray(second)


def _add_by_pair(
    scores: FloatArray, index: list[int], pair: Labels, rows: FloatArray
) -> None:
    """Add rows (5, n) to the places `index` of the scores of their pairs."""
    # Matches of a pair come one after the other: sums over runs, few of them.
    first = np.flatnonzero(np.diff(pair, prepend=-1))
    sums = np.add.reduceat(rows, first, axis=1)
    np.add.at(scores, (pair[first][:, None], np.array(index)), sums.T)
