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
    Labels,
    Matches,
    Matrix,
    PerAxis,
    PerMatch,
    Vector,
)
from semisure.types.checks import MAX_PX, as_reals, within_px
from semisure.types.matches import require_matches

# Rows per block: about ten temporaries of this length stay in a core's cache.
BLOCK_ROWS = 16_384


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

    def take(self, index: slice) -> Observations:
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
                first, second = term.derivatives()
                gradient[index] -= first.sum(axis=1)
                hessian[np.ix_(index, index)] -= second
        n = 2 * len(self.observations)
        return value / n, gradient / n, hessian / n

    def pair_scores(self, parameters: Vector) -> FloatArray:
        """Gradient of each pair's summed log density, (pairs, 8)."""
        scores = np.zeros((int(np.max(self.observations.pair)) + 1, SIZE))
        for block in self.observations.blocks():
            for axis in (0, 1):
                first, _ = self._axis(block, axis, parameters).derivatives()
                for place, row in zip(of_axis(axis), first, strict=True):
                    scores[:, place] += np.bincount(
                        block.pair, weights=row, minlength=len(scores)
                    )
        return scores

    def centred(self, block: Observations, axis: int) -> PerMatch:
        """Residual of one axis less the location, px."""
        shift = self.location[axis]
        residual = block.residual[:, axis]
        return residual - shift * block.fine_window if shift else residual

    def _axis(self, block: Observations, axis: int, parameters: Vector) -> _Axis:
        u, v, k_s, k_m, beta = parameters[of_axis(axis)]
        fine = np.maximum(block.fine_std[:, axis], STD_FLOOR_PX)
        coarse = np.maximum(block.coarse_std[:, axis], STD_FLOOR_PX)
        features = np.stack([block.spread[:, axis], block.doubt, np.ones(len(block))])
        x = np.abs(self.centred(block, axis))
        fine_log, fine_energy = _component(x, fine, u, self.power)
        coarse_log, coarse_energy = _component(x, coarse, v, self.power)
        z = np.array([k_s, k_m, beta]) @ features
        g = z + coarse_log - fine_log
        return _Axis(
            log_density=fine_log - softplus(z) + softplus(g),
            prior=expit(z),
            posterior=expit(g),
            fine_energy=fine_energy,
            coarse_energy=coarse_energy,
            features=features,
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
    features: FloatArray  # spread, doubt, 1: (3, n)
    power: int

    def derivatives(self) -> tuple[FloatArray, FloatArray]:
        """Of Σ log p by (u, v, k_s, k_m, β): per row (5, n), and summed (5, 5)."""
        p, tail = self.power, self.posterior
        by_u = 0.5 * (p * self.fine_energy - 1.0)  # of the fine log density
        by_v = 0.5 * (p * self.coarse_energy - 1.0)
        first = np.concatenate(
            [
                ((1.0 - tail) * by_u)[None],
                (tail * by_v)[None],
                (tail - self.prior) * self.features,
            ]
        )
        # g depends on (u, v, z) through (−by_u, by_v, 1), and σ' = σ(1 − σ).
        odds = np.concatenate([-by_u[None], by_v[None], self.features])
        second = (odds * (tail * (1.0 - tail))) @ odds.T
        curvature = self.prior * (1.0 - self.prior)
        second[2:, 2:] -= (self.features * curvature) @ self.features.T
        second[0, 0] -= 0.25 * p * p * float((1.0 - tail) @ self.fine_energy)
        second[1, 1] -= 0.25 * p * p * float(tail @ self.coarse_energy)
        return first, second
