"""A law that adapts to its pair, once the pair's geometry is found.

Pairs differ more than eight numbers can say. Given a homography the residuals of a
pair's own matches, or given epipolar geometry their distances from their lines, tell
four effects (:class:`semisure.types.PairSpread`): on the fine scales, the gate, the
coarse scales, and a background of failures that no cue foresees. Their prior is their
spread over pairs, their posterior's mode a few damped Newton steps away.

The model follows the errors that all its matches share, so that residuals are smaller
than errors. What its covariance says of each match is added to the scales.

A line says nothing about errors along it. There the scales found across it are carried
over, larger by what calibration on scenes in depth has found. Which matches fail there
their neighbours tell (:mod:`semisure.refit.neighbours`). A law may have a third
component for errors between fine and coarse (:mod:`semisure.refit.middle_law`).

The distance from a line is the sum of two independent errors, of either component on
either axis; a sum of Laplace variables with scales a ≥ b has the density

    p(d | a, b) = e^{−|d|/a} / (2 (a + b)) · [1 + |d|/a · φ(|d| (a − b) / (a b))].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from semisure.error_laws import error_law
from semisure.errors import InputError
from semisure.geometry.epipolar import Lines
from semisure.mixture import ErrorLaw, expit
from semisure.refit.climbing import climb
from semisure.refit.covariance import of_distances
from semisure.refit.line_law import two_laplace
from semisure.refit.middle_law import Middle, MiddleLaw, middle_of
from semisure.refit.neighbours import affine_parallax, agreement, departure
from semisure.types import (
    Calibration,
    Cues,
    FloatArray,
    Index,
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
_TOLERANCE = 1e-2  # no effect matters below it
_LEAST_DENSITY = 1e-12  # per px: a match that nothing explains

LogDensity = Callable[[FloatArray], FloatArray]  # of effects (k, 4), to (k, n)


@dataclass(frozen=True, slots=True, eq=False)
class PairLaw:
    """The law of each match of one pair, and the four effects behind it."""

    law: ErrorLaw
    effects: tuple[float, float, float, float]


def predictive_law(matches: Cues, calibration: Calibration) -> ErrorLaw:
    """The law of raw `matches` before their pair's geometry is known: wider.

    It is the calibration's own law where that does not say how pairs differ.
    """
    law, spread = error_law(matches, calibration), calibration.pairs
    if spread is None:
        return law
    return with_effects(law, np.array(spread.usual or spread.means), spread)


def reported_spread(calibration: Calibration) -> PairSpread:
    """How pairs differ, for what is said of matches once a geometry is known."""
    spread = _spread_of(calibration)
    return spread.reported or spread


def pair_law_by_lines(
    matches: Matches,
    calibration: Calibration,
    lines: Lines,
    covariance: Matrix | None = None,
) -> PairLaw:
    """The adapted law of raw `matches` whose epipolar lines are known.

    `lines` are those of the matches less their location, as refits make them;
    `covariance` is that of the parameters in their `jacobian`, if they were estimated.
    """
    law, spread = error_law(matches, calibration), reported_spread(calibration)
    effects = effects_by_lines(law, lines, spread)
    along = lines.normal[:, ::-1] ** 2  # squares of the line's direction
    alike = away = None
    if spread.neighbours is not None:
        alike = agreement_by_lines(matches, law, lines)
    if spread.departure is not None:
        away = departure_by_lines(matches, law, lines)
    law = with_effects(law, effects, spread, along, alike, away=away)
    if covariance is not None:
        across = of_distances(covariance, lines)[:, None]
        law = _with_model_error(law, across * lines.normal**2)
    return PairLaw(law, _four(effects))


def pair_law_by_residuals(
    matches: Matches,
    calibration: Calibration,
    residual: PerAxis,
    variance: PerAxis | None = None,
) -> PairLaw:
    """The adapted law of raw `matches` whose residuals to a model are known.

    `residual` is that of the matches less their location; rows that are not finite do
    not count. `variance`, px², is that of where the model puts each match, if the
    model was estimated.
    """
    law, spread = error_law(matches, calibration), reported_spread(calibration)
    effects = effects_by_residuals(law, residual, spread)
    alike = None if spread.neighbours is None else agreement(matches, residual)
    law = with_effects(law, effects, spread, alike=alike)
    if variance is not None:
        law = _with_model_error(law, variance)
    return PairLaw(law, _four(effects))


def _with_model_error(law: ErrorLaw, variance: PerAxis) -> ErrorLaw:
    """The law with what the model took from the residuals it was fitted to.

    A Laplace variable of scale s has the variance 2 s².
    """
    names = ["fine_scale", "coarse_scale"]
    if isinstance(law, MiddleLaw):
        names.append("middle_scale")
    wider = {n: np.sqrt(getattr(law, n) ** 2 + 0.5 * variance) for n in names}
    return replace(law, **wider)


def agreement_by_lines(matches: Matches, law: ErrorLaw, lines: Lines) -> FloatArray:
    """How far matches agree with their neighbours, whatever the scene's depth."""
    return agreement(matches, _parallax(matches, law, lines))


def departure_by_lines(matches: Matches, law: ErrorLaw, lines: Lines) -> PerMatch:
    """How far along their lines matches lie from where neighbours want them, px."""
    direction = lines.normal[:, ::-1] * np.array([1.0, -1.0])
    return departure(matches, _parallax(matches, law, lines), direction)


def _parallax(matches: Matches, law: ErrorLaw, lines: Lines) -> PerAxis:
    """What matches have beyond an affine map through those on their lines, px."""
    off = lines.distance / law.fine_scale.mean(axis=1)
    return affine_parallax(matches, 1.0 / (1.0 + off**2))


def effects_by_lines(law: ErrorLaw, lines: Lines, spread: PairSpread) -> Vector:
    """A pair's four effects by the distances of its matches from their lines."""
    rows = _evenly(len(law))
    some = _Some.of(law, rows, spread)
    density = partial(
        _across_log_density, some, lines.distance[rows], lines.normal[rows]
    )
    return most_likely_effects(density, len(law), spread)


def effects_by_residuals(
    law: ErrorLaw, residual: PerAxis, spread: PairSpread
) -> Vector:
    """A pair's four effects by the residuals of its matches to a model."""
    rows = np.flatnonzero(np.isfinite(residual).all(axis=1))
    rows = rows[_evenly(len(rows))]
    some = _Some.of(law, rows, spread)
    density = partial(_axes_log_density, some, residual[rows])
    return most_likely_effects(density, len(law), spread)


def _spread_of(calibration: Calibration) -> PairSpread:
    if calibration.pairs is None:
        raise InputError(
            "The calibration does not say how pairs differ, so that its law cannot "
            "adapt to one; use a law fitted to scenes, such as the shipped 'daisy'."
        )
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
    alike: FloatArray | None = None,
    *,
    away: PerMatch | None = None,
    blunt: FloatArray | None = None,
) -> ErrorLaw:
    """`law` under the effects of a pair.

    `along` is the squared cosine, per axis, of the angle to the epipolar line; without
    it no direction is set apart. `alike`, (n, 2), is the matches' agreement with their
    neighbours, and `away` their departure from them; without, these have no say.
    `blunt` is :func:`bluntness` where `law` is that of a part of the pair.
    """
    more_failing = _more_failing(bluntness(law) if blunt is None else blunt, spread)
    fine, coarse, failing = _affected(law, effects, more_failing)
    if along is not None:
        means = np.array(spread.means)
        carried = means + spread.carry * (effects - means)
        more = spread.along_fine, spread.along_gate, spread.along_coarse
        carried += [*more, spread.along_gate]
        fine_along, coarse_along, failing_along = _affected(law, carried, more_failing)
        if away is not None and spread.departure is not None:
            constant, slope = spread.departure
            beyond = 0.5 * np.log1p((away[:, None] / fine_along) ** 2)
            fine_along = fine_along * np.exp(constant + slope * beyond)
        fine = np.sqrt((1.0 - along) * fine**2 + along * fine_along**2)
        coarse = coarse + along * (coarse_along - coarse)
        failing = failing + along * (failing_along - failing)
    # Logits beyond ±30 are 0 or 1 to rounding.
    failing = np.clip(failing, expit(np.array(-30.0)), expit(np.array(30.0)))
    logit = np.log(failing) - np.log1p(-failing)
    if alike is not None and spread.neighbours is not None:
        constant, *slopes = spread.neighbours
        logit = logit + (constant + alike @ np.array(slopes))[:, None]
    coarse = np.maximum(coarse, fine)
    if spread.middle is None:
        return replace(law, fine_scale=fine, coarse_scale=coarse, tail_logit=logit)
    scale, share = middle_of(fine, coarse, logit, spread.middle)
    rest = law.location, law.family
    return MiddleLaw(fine, coarse, logit, *rest, middle_scale=scale, middle_logit=share)


@dataclass(frozen=True, slots=True, eq=False)
class _Some:
    """The matches that tell a pair's effects."""

    law: ErrorLaw
    more_failing: FloatArray  # (n, 1), added to the logits of failing
    middle: Middle | None

    @classmethod
    def of(cls, law: ErrorLaw, rows: Index, spread: PairSpread) -> _Some:
        more_failing = _more_failing(bluntness(law), spread)
        return cls(law.take(rows), more_failing[rows], spread.middle)

    def parts(self, effects: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        """Chance and scale, (…, n, 2), of each component under effects (…, 4)."""
        fine, coarse, failing = _affected(self.law, effects, self.more_failing)
        right = 1.0 - failing
        if self.middle is None:
            return [(right, fine), (failing, coarse)]
        failing = np.clip(failing, _LEAST_DENSITY, 1.0 - _LEAST_DENSITY)
        logit = np.log(failing) - np.log1p(-failing)
        scale, share = middle_of(fine, coarse, logit, self.middle)
        middling = right * expit(share)
        return [(right - middling, fine), (middling, scale), (failing, coarse)]


def bluntness(law: ErrorLaw) -> FloatArray:
    """Logarithm of each match's fine scale over the mean of its pair, (n, 1)."""
    if not len(law):
        return np.zeros((0, 1))
    scale = np.log(law.fine_scale).mean(axis=1, keepdims=True)
    return np.asarray(scale - scale.mean())


def _more_failing(blunt: FloatArray, spread: PairSpread) -> FloatArray:
    """What blunt fine peaks add to the logits of failing, (n, 1)."""
    return np.zeros_like(blunt) if spread.middle is None else spread.middle[0] * blunt


def _affected(
    law: ErrorLaw, effects: FloatArray, more_failing: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Fine scale, coarse scale and chance of failing under effects (…, 4).

    Each is (…, n, 2): many effects are tried in one pass.
    """
    fine, gate, coarse, background = np.moveaxis(effects, -1, 0)[..., None, None]
    failing = expit(law.tail_logit + gate + more_failing)
    base = expit(background + more_failing)
    fine_scale = law.fine_scale * np.exp(fine)
    coarse_scale = np.maximum(law.coarse_scale * np.exp(coarse), fine_scale)
    return fine_scale, coarse_scale, base + (1.0 - base) * failing


def _axes_log_density(
    some: _Some, residual: PerAxis, effects: FloatArray
) -> FloatArray:
    """log p of each match's two residuals under effects (k, 4), (k, n) nats."""
    x, density = np.abs(residual), np.zeros(())
    for chance, scale in some.parts(effects):
        density = density + chance / scale * np.exp(-x / scale)
    return np.log(0.5 * density + _LEAST_DENSITY).sum(axis=-1)


def _across_log_density(
    some: _Some, distance: PerMatch, normal: PerAxis, effects: FloatArray
) -> FloatArray:
    """log p of each match's distance from its line under effects (k, 4), (k, n)."""
    n, parts = np.abs(normal), some.parts(effects)
    density: FloatArray = np.full((), _LEAST_DENSITY)
    for chance_x, x in parts:
        for chance_y, y in parts:
            chance = chance_x[..., 0] * chance_y[..., 1]
            scales = n[:, 0] * x[..., 0], n[:, 1] * y[..., 1]
            density = density + chance * two_laplace(distance, *scales)
    return np.log(density)


@dataclass(frozen=True, slots=True, eq=False)
class _Effects:
    """The posterior of a pair's effects at one place, to be climbed."""

    values: Vector
    log_density: LogDensity
    count: float  # matches that count as independent
    means: Vector
    deviations: Vector
    slopes: FloatArray  # of each match's log density by the effects, (4, n)
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
        tried = log_density(np.vstack([values, values + _STEP * np.eye(len(values))]))
        off = (values - means) / deviations
        score = count * float(tried[0].mean()) - 0.5 * float(off @ off)
        slopes = (tried[1:] - tried[0]) / _STEP
        return cls(values, log_density, count, means, deviations, slopes, score)

    def equations(self) -> tuple[Matrix, Vector]:
        """The scores' own second moment stands for the curvature (BHHH)."""
        precision = 1.0 / self.deviations**2
        normal = self.count / self.slopes.shape[1] * (self.slopes @ self.slopes.T)
        pull = self.count * self.slopes.mean(axis=1)
        pull -= precision * (self.values - self.means)
        return normal + np.diag(precision), pull

    def moved(self, step: Vector) -> _Effects:
        limits = 6.0 * self.deviations  # nothing beyond is a pair of this matcher
        low, high = self.means - limits, self.means + limits
        values = np.clip(self.values + step, low, high)
        prior = self.means, self.deviations
        return _Effects.at(values, self.log_density, self.count, *prior)

    def settled(self, step: Vector) -> bool:
        return bool(np.abs(step).max() < _TOLERANCE)


def most_likely_effects(
    log_density: LogDensity, count: int, spread: PairSpread
) -> Vector:
    """The mode of the effects' posterior, from `count` matches of a pair."""
    means, deviations = np.array(spread.means), np.array(spread.deviations)
    if not log_density(means[None]).size:
        return means
    effective = float(min(count, EFFECTIVE_MATCHES))
    first = _Effects.at(means, log_density, effective, means, deviations)
    return climb(first, 20)[0].values
