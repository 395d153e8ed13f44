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

import numpy as np

from semisure.calibration.parameters import SIZE, of_axis
from semisure.errors import InputError
from semisure.geometry.homography import capped
from semisure.mixture import STD_FLOOR_PX, expit, softplus
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
                hessian[np.ix_(index, index)] -= term.hessian()
        n = 2 * len(self.observations)
        return value / n, gradient / n, hessian / n

    def details(self, parameters: Vector) -> tuple[PerMatch, FloatArray, Matrix]:
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
                index = of_axis(axis)
                hessian[np.ix_(index, index)] -= term.hessian()
                _add_by_pair(scores, index, block.pair, term.by_match())
        return nll, scores, hessian / (2 * len(obs))

    def centred(self, block: Observations, axis: int) -> PerMatch:
        """Residual of one axis less the location, px."""
        shift = self.location[axis]
        residual = block.residual[:, axis]
        return residual - shift * block.fine_window if shift else residual

    def _axis(self, block: Observations, axis: int, parameters: Vector) -> _Axis:
        u, v, k_s, k_m, beta = parameters[of_axis(axis)]
        fine = np.maximum(block.fine_std[:, axis], STD_FLOOR_PX)
        coarse = np.maximum(block.coarse_std[:, axis], STD_FLOOR_PX)
        spread, doubt = block.spread[:, axis], block.doubt
        x = np.abs(self.centred(block, axis))
        fine_log, fine_energy = _component(x, fine, u, self.power)
        coarse_log, coarse_energy = _component(x, coarse, v, self.power)
        z = k_s * spread
        z += k_m * doubt
        z += beta
        g = z + coarse_log - fine_log
        return _Axis(
            log_density=fine_log - softplus(z) + softplus(g),
            prior=expit(z),
            posterior=expit(g),
            fine_energy=fine_energy,
            coarse_energy=coarse_energy,
            features=(spread, doubt),
            power=self.power,
        )


def _component(
    x: PerMatch, std: PerMatch, log_gain: float, power: int
) -> tuple[PerMatch, PerMatch]:
    """Log density and energy A of a component of scale std · e^{log_gain / 2}."""
    scale = std * np.exp(0.5 * log_gain)
    if power == 1:
        energy = x / scale
        return -energy - np.log(2.0 * scale), energy
    energy = 0.5 * (x / scale) ** 2
    return -energy - np.log(np.sqrt(2.0 * np.pi) * scale), energy


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

    def by_match(self) -> FloatArray:
        """Derivatives of log p by (u, v, k_s, k_m, β), (5, n)."""
        by_u, by_v = self._slopes()
        failed = self.posterior - self.prior
        spread, doubt = self.features
        rows = np.empty((5, len(by_u)))
        rows[0], rows[1] = (1.0 - self.posterior) * by_u, self.posterior * by_v
        rows[2], rows[3], rows[4] = failed * spread, failed * doubt, failed
        return rows

    def gradient(self) -> Vector:
        """The same, summed, (5,)."""
        by_u, by_v = self._slopes()
        failed = self.posterior - self.prior
        spread, doubt = self.features
        fine = float(by_u.sum() - self.posterior @ by_u)
        coarse = float(self.posterior @ by_v)
        gate = float(failed @ spread), float(failed @ doubt), float(failed.sum())
        return np.array([fine, coarse, *gate])

    def hessian(self) -> Matrix:
        """Second derivatives of Σ log p, (5, 5)."""
        p, tail = self.power, self.posterior
        # g depends on (u, v, z) through (−by_u, by_v, 1), and σ' = σ(1 − σ).
        odds = np.empty((5, len(tail)))
        by_u, by_v = self._slopes()
        np.negative(by_u, out=odds[0])
        odds[1], odds[2], odds[3], odds[4] = by_v, *self.features, 1.0
        second = (odds * (tail * (1.0 - tail))) @ odds.T
        gate = odds[2:]
        second[2:, 2:] -= (gate * (self.prior * (1.0 - self.prior))) @ gate.T
        energy = float(self.fine_energy.sum() - tail @ self.fine_energy)
        second[0, 0] -= 0.25 * p * p * energy
        second[1, 1] -= 0.25 * p * p * float(tail @ self.coarse_energy)
        return np.asarray(second)

    def _slopes(self) -> tuple[PerMatch, PerMatch]:
        """Of the fine log density by u, and of the coarse one by v."""
        p = self.power
        return 0.5 * (p * self.fine_energy - 1.0), 0.5 * (p * self.coarse_energy - 1.0)


def _add_by_pair(
    scores: FloatArray, index: list[int], pair: Labels, rows: FloatArray
) -> None:
    """Add rows (5, n) to the places `index` of the scores of their pairs."""
    # Matches of a pair come one after the other: sums over runs, few of them.
    first = np.flatnonzero(np.diff(pair, prepend=-1))
    sums = np.add.reduceat(rows, first, axis=1)
    np.add.at(scores, (pair[first][:, None], np.array(index)), sums.T)
