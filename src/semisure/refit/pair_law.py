"""A law that adapts to its pair, once the pair's geometry is found.

Pairs differ more than eight numbers can say. Given a homography the residuals of a
pair's own matches, or given epipolar geometry their distances from their lines, tell
four effects (:class:`semisure.types.PairSpread`): on the fine scales, the gate, the
coarse scales, and a background of failures that no cue foresees. Their prior is their
spread over pairs, their posterior's mode a few damped Newton steps away.

A line says nothing about errors along it. There the scales found across it are carried
over, larger by what calibration on scenes in depth has found.

The distance from a line is the sum of two independent errors, of either component on
either axis; a sum of Laplace variables with scales a ≥ b has the density

    p(d | a, b) = e^{−|d|/a} / (2 (a + b)) · [1 + |d|/a · φ(|d| (a − b) / (a b))].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from semisure import mixture
from semisure.error_laws import error_law
from semisure.geometry.epipolar import Lines
from semisure.mixture import ErrorLaw, expit
from semisure.refit.climbing import climb
from semisure.refit.line_law import two_laplace
from semisure.types import (
    Calibration,
    FloatArray,
    Matches,
    Matrix,
    PairSpread,
    PerAxis,
    PerMatch,
    Vector,
)

# Matches of one pair err together: no more than these count as independent, and no
# more are looked at, taken evenly.
EFFECTIVE_MATCHES = 500
_STEP = 1e-4  # of the differences that give derivatives
_TOLERANCE = 1e-3  # no effect matters below it
_LEAST_DENSITY = 1e-12  # per px: a match that nothing explains

LogDensity = Callable[[Vector], PerMatch]


@dataclass(frozen=True, slots=True, eq=False)
class PairLaw:
    """The law of each match of one pair, and the four effects behind it."""

    law: ErrorLaw
    effects: tuple[float, float, float, float]


def pair_law_by_lines(
    matches: Matches, calibration: Calibration, lines: Lines
) -> PairLaw:
    """The adapted law of raw `matches` whose epipolar lines are known.

    `lines` are those of the matches less their location, as refits make them.
    """
    law, spread = error_law(matches, calibration), _spread_of(calibration)
    rows = _evenly(len(matches))
    density = partial(
        _across_log_density, law.take(rows), lines.distance[rows], lines.normal[rows]
    )
    effects = most_likely_effects(density, len(matches), spread)
    along = lines.normal[:, ::-1] ** 2  # squares of the line's direction
    return PairLaw(with_effects(law, effects, spread, along), _four(effects))


def pair_law_by_residuals(
    matches: Matches, calibration: Calibration, residual: PerAxis
) -> PairLaw:
    """The adapted law of raw `matches` whose residuals to a model are known.

    `residual` is that of the matches less their location; rows that are not finite do
    not count.
    """
    law, spread = error_law(matches, calibration), _spread_of(calibration)
    rows = np.flatnonzero(np.isfinite(residual).all(axis=1))
    rows = rows[_evenly(len(rows))]
    centred = replace(law.take(rows), location=np.zeros((len(rows), 2)))
    density = partial(_axes_log_density, centred, residual[rows], spread)
    effects = most_likely_effects(density, len(matches), spread)
    return PairLaw(with_effects(law, effects, spread), _four(effects))


def _spread_of(calibration: Calibration) -> PairSpread:
    if calibration.pairs is None:
        raise ValueError("The calibration does not say how pairs differ.")
    return calibration.pairs


def _evenly(count: int) -> slice:
    return slice(None, None, max(1, -(-count // EFFECTIVE_MATCHES)))


def _four(effects: Vector) -> tuple[float, float, float, float]:
    fine, gate, coarse, background = (float(v) for v in effects)
    return fine, gate, coarse, background


def with_effects(
    law: ErrorLaw,
    effects: Vector,
    spread: PairSpread,
    along: PerAxis | None = None,
) -> ErrorLaw:
    """`law` under the effects of a pair.

    `along` is the squared cosine, per axis, of the angle to the epipolar line; without
    it no direction is set apart.
    """
    fine, gate, coarse, background = effects
    t2: FloatArray | float = 0.0 if along is None else along
    means = np.array(spread.means)
    carried = means + spread.carry * (effects - means)
    gate_along, background_along = carried[[1, 3]] + spread.along_gate
    fine_along = carried[0] + spread.along_fine
    coarse_along = carried[2] + spread.along_coarse
    gain = np.exp(2.0 * fine) * (1.0 - t2) + np.exp(2.0 * fine_along) * t2
    fine_scale = law.fine_scale * np.sqrt(gain)
    coarse_scale = law.coarse_scale * np.exp(coarse + (coarse_along - coarse) * t2)
    failing = expit(law.tail_logit + gate + (gate_along - gate) * t2)
    base = expit(np.asarray(background + (background_along - background) * t2))
    failing = base + (1.0 - base) * failing
    return replace(
        law,
        fine_scale=fine_scale,
        coarse_scale=np.maximum(coarse_scale, fine_scale),
        # Logits beyond ±30 are 0 or 1 to rounding.
        tail_logit=np.clip(np.log(failing) - np.log1p(-failing), -30.0, 30.0),
    )


def _axes_log_density(
    law: ErrorLaw, residual: PerAxis, spread: PairSpread, effects: Vector
) -> PerMatch:
    """log p of each match's two residuals under the effects, nats."""
    return mixture.log_density(with_effects(law, effects, spread), residual).sum(axis=1)


def _across_log_density(
    law: ErrorLaw, distance: PerMatch, normal: PerAxis, effects: Vector
) -> PerMatch:
    """log p of each match's distance from its line, nats; nothing is along here."""
    none = PairSpread(fine=(0, 1), gate=(0, 1), coarse=(0, 1), background=(0, 1))
    law = with_effects(law, effects, none)
    n = np.abs(normal)
    fine, coarse = n * law.fine_scale, n * law.coarse_scale
    failing = mixture.tail_prob(law)
    right = 1.0 - failing
    density = np.full(len(distance), _LEAST_DENSITY)
    for x, chance_x in ((fine, right), (coarse, failing)):
        for y, chance_y in ((fine, right), (coarse, failing)):
            chance = chance_x[:, 0] * chance_y[:, 1]
            density += chance * two_laplace(distance, x[:, 0], y[:, 1])
    return np.log(density)


@dataclass(frozen=True, slots=True, eq=False)
class _Effects:
    """The posterior of a pair's effects at one place, to be climbed."""

    values: Vector
    log_density: LogDensity
    count: float  # matches that count as independent
    means: Vector
    deviations: Vector
    each: PerMatch
    score: float

    @classmethod
    def at(
        cls,
        values: Vector,
        log_density: LogDensity,
        count: float,
        means: Vector,
        deviations: Vector,
    ) -> _Effects:
        each = log_density(values)
        off = (values - means) / deviations
        score = count * float(each.mean()) - 0.5 * float(off @ off)
        return cls(values, log_density, count, means, deviations, each, score)

    def equations(self) -> tuple[Matrix, Vector]:
        """The scores' own second moment stands for the curvature (BHHH)."""
        slopes = np.stack(
            [
                (self.log_density(self.values + _STEP * axis) - self.each) / _STEP
                for axis in np.eye(len(self.values))
            ]
        )
        precision = 1.0 / self.deviations**2
        normal = self.count / slopes.shape[1] * (slopes @ slopes.T)
        pull = self.count * slopes.mean(axis=1)
        return (
            normal + np.diag(precision),
            pull - precision * (self.values - self.means),
        )

    def moved(self, step: Vector) -> _Effects:
        limits = 6.0 * self.deviations  # nothing beyond is a pair of this matcher
        values = np.clip(self.values + step, self.means - limits, self.means + limits)
        return _Effects.at(
            values, self.log_density, self.count, self.means, self.deviations
        )

    def settled(self, step: Vector) -> bool:
        return bool(np.abs(step).max() < _TOLERANCE)


def most_likely_effects(
    log_density: LogDensity, count: int, spread: PairSpread
) -> Vector:
    """The mode of the effects' posterior, from `count` matches of a pair."""
    means, deviations = np.array(spread.means), np.array(spread.deviations)
    if not count or not len(log_density(means)):
        return means
    effective = float(min(count, EFFECTIVE_MATCHES))
    first = _Effects.at(means, log_density, effective, means, deviations)
    return climb(first, 20)[0].values
