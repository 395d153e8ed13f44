"""The four effects of a pair, by the distances from its lines or by its residuals.

Their prior is their spread over pairs, and the mode of their posterior is a few damped
Newton steps away. An axis errs by one of two components; across a line, whose distance
is the sum of two errors, either axis does. Laplace variables with scales a and b have
a sum of mean size

    E|X + Y| = (a² + a b + b²) / (a + b),

and a Laplace variable of that size stands for it here: one exponential for each of the
four combinations, whose derivatives are simple. Where a line runs along an axis the two
are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from semisure.geometry.epipolar import Lines
from semisure.law.climbing import Ascent, climb
from semisure.law.mixture import ErrorLaw, expit
from semisure.types import (
    Columns,
    FloatArray,
    PairSpread,
    PerAxis,
    PerMatch,
    Vector,
)

# Errors of one pair's matches are correlated: at most this many matches count as
# independent, and at most this many are used, evenly spaced.
EFFECTIVE_MATCHES = 500
_TOLERANCE = 3e-2  # nats: a smaller gain ends the search
_LEAST_DENSITY = 1e-12  # per px: a match that nothing explains
_LEAST_CHANCE = 1e-12

# Of effects (4,): each match's log density, and its slopes by the effects (4, n).
LogDensity = Callable[[Vector], tuple[PerMatch, FloatArray]]


def effects_by_lines(law: ErrorLaw, lines: Lines, spread: PairSpread) -> Vector:
    """A pair's four effects by the distances of its matches from their lines."""
    if not len(law):
        return np.array(spread.means)
    rows = _evenly(len(law))
    distance, normal = lines.distance[rows], np.abs(lines.normal[rows].T)
    log_density = partial(across_log_density, law.take(rows), np.abs(distance), normal)
    return _most_likely(log_density, len(law), spread)


def effects_by_residuals(
    law: ErrorLaw, residual: PerAxis, spread: PairSpread
) -> Vector:
    """A pair's four effects by the residuals of its matches to a model."""
    rows = np.flatnonzero(np.isfinite(residual).all(axis=1))
    if not len(rows):
        return np.array(spread.means)
    rows = rows[_evenly(len(rows))]
    log_density = partial(axes_log_density, law.take(rows), np.abs(residual[rows].T))
    return _most_likely(log_density, len(law), spread)


def with_effects(law: ErrorLaw, effects: FloatArray) -> ErrorLaw:
    """`law` under the effects of a pair.

    >>> one = np.ones((1, 2))
    >>> law = ErrorLaw(one, 8 * one, -2 * one, 0 * one)
    >>> other = with_effects(law, np.array([np.log(2), 0.5, 0.0, -np.inf]))
    >>> other.fine_scale.round(6), other.tail_logit.round(6)
    (array([[2., 2.]]), array([[-1.5, -1.5]]))
    """
    fine, gate, coarse, background = effects
    fine_scale = law.fine_scale * np.exp(fine)
    coarse_scale = np.maximum(law.coarse_scale * np.exp(coarse), fine_scale)
    logit = either_logit(law.tail_logit + gate, background)
    return replace(
        law, fine_scale=fine_scale, coarse_scale=coarse_scale, tail_logit=logit
    )


def either_logit(first: FloatArray, second: FloatArray | float) -> FloatArray:
    """Logit of the chance that at least one of two independent events happens.

    The odds of neither are 1 to (1 + eˣ)(1 + eʸ) − 1 = eˣ + eʸ + eˣ⁺ʸ.

    >>> odds = np.exp(either_logit(np.log(np.array([1.0])), np.log(2.0)))
    >>> odds.round(12)  # 1 − ½ · ⅓ = 5/6
    array([5.])
    """
    with np.errstate(over="ignore", divide="ignore"):  # infinite logits are the limits
        odds, other = np.exp(first), np.exp(second)
        return np.log(odds + other + odds * other)


def size_of_sum(first: FloatArray, second: FloatArray) -> FloatArray:
    """Mean size of the sum of two Laplace variables with these scales."""
    return first + second - first * second / (first + second)


def _evenly(count: int) -> slice:
    return slice(None, None, max(1, -(-count // EFFECTIVE_MATCHES)))


@dataclass(frozen=True, slots=True, eq=False)
class _Components:
    """The fine and the coarse component of each axis under some effects, (2, 2, n)."""

    chance: FloatArray
    scale: FloatArray  # px
    by_logit: FloatArray  # slopes of log chance by the logit of failing
    by_gate: Columns  # slopes of that logit by the gate's effect
    by_background: Columns
    own: Columns  # where the coarse scale is above the fine one

    @classmethod
    def of(cls, law: ErrorLaw, effects: Vector) -> _Components:
        fine_effect, gate, coarse_effect, background = effects.tolist()
        by_cues, base = expit(law.tail_logit.T + gate), expit(np.array(background))
        failing = by_cues + base * (1.0 - by_cues)
        failing = np.minimum(failing, 1.0 - _LEAST_CHANCE)
        right = 1.0 - failing
        fine = law.fine_scale.T * np.exp(fine_effect)
        coarse = law.coarse_scale.T * np.exp(coarse_effect)
        return cls(
            np.stack([right, failing]),
            np.stack([fine, np.maximum(fine, coarse)]),
            np.stack([-failing, right]),
            by_cues / failing,
            base / failing,
            coarse > fine,
        )

    def slopes(self, posterior: FloatArray, by_scale: FloatArray) -> FloatArray:
        """Slopes of log densities by the effects, (4, n).

        `posterior` is that of each component and `by_scale` the slope by the
        logarithm of its scale, both (2, 2, n).
        """
        by_coarse = by_scale[1] * self.own
        by_fine = by_scale[0] + by_scale[1] - by_coarse
        by_logit = np.einsum("kan,kan->an", posterior, self.by_logit)
        gate, background = by_logit * self.by_gate, by_logit * self.by_background
        return np.array([a[0] + a[1] for a in (by_fine, gate, by_coarse, background)])


def axes_log_density(
    law: ErrorLaw, residual: Columns, effects: Vector
) -> tuple[PerMatch, FloatArray]:
    """log p of each match's two |residuals|, nats, and its slopes by the effects."""
    parts = _Components.of(law, effects)
    size = residual / parts.scale
    density = parts.chance / parts.scale * np.exp(-size)
    total = density.sum(axis=0) + 2.0 * _LEAST_DENSITY
    posterior = density / total
    slopes = parts.slopes(posterior, posterior * (size - 1.0))
    return np.log(0.25 * total[0] * total[1]), slopes


def across_log_density(
    law: ErrorLaw, distance: PerMatch, normal: Columns, effects: Vector
) -> tuple[PerMatch, FloatArray]:
    """log p of each match's |distance| from its line, and its slopes by the effects."""
    parts = _Components.of(law, effects)
    projected = parts.scale * normal
    x, y = projected[:, None, 0], projected[None, :, 1]  # all combinations, (2, 2, n)
    share_x, share_y = x / (x + y), y / (x + y)
    scale = y + x * share_x
    size = distance / scale
    chance = parts.chance[:, None, 0] * parts.chance[None, :, 1]
    density = np.exp(-size) * chance / scale
    total = density.sum(axis=(0, 1)) + 2.0 * _LEAST_DENSITY
    posterior = density / total
    pull = (size - 1.0) * posterior / scale
    # d scale / dx = 1 − (y / (x + y))², and likewise by y.
    by_x = (pull * (1.0 - share_y**2)).sum(axis=1)
    by_y = (pull * (1.0 - share_x**2)).sum(axis=0)
    by_scale = np.stack([by_x, by_y], axis=1) * projected
    by_axis = np.stack([posterior.sum(axis=1), posterior.sum(axis=0)], axis=1)
    return np.log(0.5 * total), parts.slopes(by_axis, by_scale)


def _most_likely(log_density: LogDensity, count: int, spread: PairSpread) -> Vector:
    """The mode of the effects' posterior, from `count` matches of a pair."""
    means, deviations = np.array(spread.means), np.array(spread.deviations)
    independent = float(min(count, EFFECTIVE_MATCHES))

    def log_posterior(effects: Vector) -> Ascent:
        """Its curvature is the second moment of the slopes (BHHH)."""
        density, slopes = log_density(effects)
        z = (effects - means) / deviations
        score = independent * float(density.mean()) - 0.5 * float(z @ z)
        curvature = independent / slopes.shape[1] * (slopes @ slopes.T)
        pull = independent * slopes.mean(axis=1) - z / deviations
        return Ascent(score, curvature + np.diag(deviations**-2.0), pull)

    def moved(effects: Vector, step: Vector) -> Vector:
        # No pair lies further from the mean.
        limits = 6.0 * deviations
        return np.clip(effects + step, means - limits, means + limits)

    return climb(means, log_posterior, moved, lambda _, gain: gain < _TOLERANCE, 20)[0]
