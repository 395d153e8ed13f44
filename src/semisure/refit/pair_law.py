"""A law that adapts to its pair, once the pair's geometry is found.

Pairs differ more than eight numbers can say. Given a homography the residuals of a
pair's own matches, or given epipolar geometry their distances from their lines, tell
four effects (:class:`semisure.types.PairSpread`): on the fine scales, the gate, the
coarse scales, and a background of failures that no cue foresees. Their prior is their
spread over pairs, and :mod:`semisure.refit.pair_effects` finds them.

The model follows the errors that all its matches share, so that residuals are smaller
than errors. What its covariance says of each match is added to the scales.

A line says nothing about errors along it. There the scales found across it are carried
over, larger by what calibration on scenes in depth has found. Which matches fail there
their neighbours tell (:mod:`semisure.refit.neighbours`). A law may have a third
component for errors between fine and coarse (:mod:`semisure.refit.middle_law`), and
listen to each match's own distance from its line (:mod:`semisure.refit.astray`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from semisure.error_laws import error_law
from semisure.errors import InputError
from semisure.geometry.epipolar import Lines
from semisure.mixture import ErrorLaw, expit
from semisure.refit.astray import OnLines, law_on_lines
from semisure.refit.middle_law import MiddleLaw, middle_of
from semisure.refit.neighbours import Surface, affine_parallax, agreement, surface
from semisure.refit.pair_effects import (
    affected,
    bluntness,
    effects_by_lines,
    effects_by_residuals,
    more_failing,
)
from semisure.types import (
    Calibration,
    Cues,
    FloatArray,
    Matches,
    Matrix,
    PairSpread,
    PerAxis,
    PerMatch,
    Vector,
)


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
    variance = None if covariance is None else lines.variance(covariance)
    if spread.astray is None:
        adapted = _by_neighbours(matches, law, lines, effects, spread)
    else:
        around = surface_by_lines(matches, law, lines)
        seen = OnLines.of(matches, law, lines, around, variance)
        adapted = law_on_lines(law, effects, spread, seen)
    if variance is not None:
        normal = np.asfortranarray(lines.normal)
        adapted = _with_model_error(adapted, variance[:, None] * normal**2)
    return PairLaw(adapted, _four(effects))


def _by_neighbours(
    matches: Matches,
    law: ErrorLaw,
    lines: Lines,
    effects: Vector,
    spread: PairSpread,
) -> ErrorLaw:
    """The law under a pair's effects, of matches whose own distances have no say."""
    along = lines.normal[:, ::-1] ** 2  # squares of the line's direction
    alike = away = None
    if spread.neighbours is not None:
        alike = agreement_by_lines(matches, law, lines)
    if spread.departure is not None:
        away = surface_by_lines(matches, law, lines).away
    return with_effects(law, effects, spread, along, alike, away=away)


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
    own = 0.5 * variance
    wider = {n: np.sqrt(np.square(getattr(law, n)) + own) for n in names}
    return replace(law, **wider)


def agreement_by_lines(matches: Matches, law: ErrorLaw, lines: Lines) -> FloatArray:
    """How far matches agree with their neighbours, whatever the scene's depth."""
    return agreement(matches, affine_parallax(matches, _near_line(law, lines)))


def surface_by_lines(matches: Matches, law: ErrorLaw, lines: Lines) -> Surface:
    """What the matches around each say of it along its line, px.

    Neighbours count by how near their lines, how sure and how sharp they are.
    """
    fine, logit = law.fine_scale, law.tail_logit
    near = _near_line(law, lines)
    parallax, normal = affine_parallax(matches, near), lines.normal
    along = parallax[:, 0] * normal[:, 1] - parallax[:, 1] * normal[:, 0]
    weight = (near / (fine[:, 0] + fine[:, 1])) ** 2
    weight *= expit(-0.5 * (logit[:, 0] + logit[:, 1]))
    return surface(matches, along, weight)


def _near_line(law: ErrorLaw, lines: Lines) -> PerMatch:
    """1 for matches on their lines, less the farther they are off (Cauchy's weight)."""
    fine = law.fine_scale
    off = 2.0 * lines.distance / (fine[:, 0] + fine[:, 1])
    return np.asarray(1.0 / (1.0 + off * off))


def _spread_of(calibration: Calibration) -> PairSpread:
    if calibration.pairs is None:
        raise InputError(
            "The calibration does not say how pairs differ, so that its law cannot "
            "adapt to one; use a law fitted to scenes, such as the shipped 'daisy'."
        )
    return calibration.pairs


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
    more = more_failing(bluntness(law) if blunt is None else blunt, spread)
    fine, coarse, failing = affected(law, effects, more)
    if along is not None:
        means = np.array(spread.means)
        carried = means + spread.carry * (effects - means)
        carried += [spread.along_fine, spread.along_gate, spread.along_coarse, 0.0]
        carried[3] += spread.along_gate
        fine_along, coarse_along, failing_along = affected(law, carried, more)
        if away is not None and spread.departure is not None:
            constant, slope, along_slope, across_constant, across_slope = (
                spread.departure
            )
            beyond = 0.5 * np.log1p((away[:, None] / fine_along) ** 2)
            fine_along = fine_along * np.exp(constant + slope * beyond)
            failing = _shifted(failing, across_constant + across_slope * beyond)
            failing_along = _shifted(failing_along, along_slope * beyond)
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


def _shifted(chance: FloatArray, logit: FloatArray) -> FloatArray:
    """Chances with so much more on their logits."""
    odds = chance * np.exp(logit)
    return np.asarray(odds / (1.0 - chance + odds))
