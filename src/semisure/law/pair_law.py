"""The law of each match once its pair's geometry is known: Bayes on its mixture.

Pairs differ more than eight numbers can describe. Four effects of a pair are estimated
from its matches' residuals to a homography, or their distances from epipolar lines
(:mod:`semisure.law.pair_effects`). Under these a match has scales sᶠ, sᶜ and chances
α of a wrong coarse cell, before its own residual is used.

A line gives a match's error across it: its distance d, with the line's own variance v.
Along the line, the match and its neighbours depart by about a from one affine map
(:mod:`semisure.law.neighbours`). Failure is one event of the match. With scales f, c
along the line, f⊥, c⊥ across it (v/2 added to their squares) and h = √(f² + a²),

    logit q = logit(1 − (1−α_x)(1−α_y)) + log Lap(d; c⊥) − log Lap(d; f⊥)
              + g + k log(h²/f²)

and the error along the line follows (1−q) Lap(λ √(f h)) + q Lap(μ √(c h)): each scale
is the geometric mean of the match's own and of h. λ, μ, g, k are the matcher's
(:class:`semisure.types.AlongLines`), fitted to scenes with truth.

A homography gives the whole error: the residual, up to the model's own error. Its
failures are the paper's, per axis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure.errors import InputError
from semisure.geometry.epipolar import CAMERA_FLOOR, Lines
from semisure.geometry.homography import far_not_undefined
from semisure.law.error_laws import error_law
from semisure.law.mixture import ErrorLaw, expit
from semisure.law.neighbours import affine_parallax, departure
from semisure.law.pair_effects import (
    effects_by_lines,
    effects_by_residuals,
    either_logit,
    size_of_sum,
    with_effects,
)
from semisure.types import (
    AlongLines,
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
    """The law of each match of one pair, and what it was made from."""

    law: ErrorLaw  # the tail of either axis is the match's: failure is one event
    blind: ErrorLaw  # the same before each match's own residual is used
    effects: Vector  # fine, gate, coarse, background

    @property
    def failure(self) -> PerMatch:
        """Chance of each match that its coarse cell was wrong."""
        return expit(self.law.tail_logit[:, 0])


def predictive_law(matches: Cues, calibration: Calibration) -> ErrorLaw:
    """The law of raw `matches` before their geometry is known: that of all pairs."""
    law, spread = error_law(matches, calibration), calibration.pairs
    if spread is None:
        return law
    return with_effects(law, np.array(spread.usual or spread.means))


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
    law, spread = error_law(matches, calibration), _spread_of(calibration)
    effects = effects_by_lines(law, lines, spread)
    variance = _floor2(matches)
    if covariance is not None:
        variance = np.maximum(variance, lines.variance(covariance))
    gap = departure_by_lines(matches, law, lines)
    blind = with_effects(law, effects)
    adapted = law_on_lines(blind, lines, variance, gap, spread.along)
    return PairLaw(adapted, blind, effects)


def law_on_lines(
    law: ErrorLaw, lines: Lines, variance: PerMatch, gap: PerMatch, along: AlongLines
) -> ErrorLaw:
    """`law` after each match's distance from its line, and that from its neighbours.

    `variance` is that of the lines, px², and `gap` the departure from neighbours, px.
    """
    logit, fine, coarse = on_lines(
        law, lines.distance, lines.normal, variance, gap, along
    )
    normal2 = lines.normal**2
    across2, along2 = 0.5 * variance[:, None] * normal2, normal2[:, ::-1]
    fine, coarse = (np.sqrt(along2 * s[:, None] ** 2 + across2) for s in (fine, coarse))
    logit = np.repeat(logit[:, None], 2, axis=1)
    return ErrorLaw(fine, coarse, logit, law.location + lines.offset, law.family)


def on_lines(
    law: ErrorLaw,
    distance: PerMatch,
    normal: PerAxis,
    variance: PerMatch,
    gap: PerMatch,
    along: AlongLines,
) -> tuple[PerMatch, PerMatch, PerMatch]:
    """Logit of failing, and fine and coarse scales along the lines, px."""
    normal, scales = np.abs(normal), (law.fine_scale, law.coarse_scale)
    across = [np.sqrt(_size(s, normal) ** 2 + 0.5 * variance) for s in scales]
    fine, coarse = (_size(s, normal[:, ::-1]) for s in scales)
    reach = np.hypot(fine, gap)
    logit = either_logit(*law.tail_logit.T) + _evidence(distance, *across) + along.gate
    logit += 2.0 * along.departure * np.log(reach / fine)
    fine = np.exp(along.fine) * np.sqrt(fine * reach)
    coarse = np.exp(along.coarse) * np.sqrt(coarse * reach)
    return logit, fine, np.maximum(coarse, fine)


def pair_law_by_residuals(
    matches: Matches,
    calibration: Calibration,
    residual: PerAxis,
    variance: PerAxis | float = 0.0,
) -> PairLaw:
    """The adapted law of raw `matches` whose residuals to a model are known.

    `residual` is that of the matches less their location; rows that are not finite
    are left out of the effects. `variance`, px², is that of where the model puts each
    match, if it was estimated.
    """
    law, spread = error_law(matches, calibration), _spread_of(calibration)
    effects = effects_by_residuals(law, residual, spread)
    blind, residual = with_effects(law, effects), far_not_undefined(residual)
    own2 = 0.5 * np.maximum(_floor2(matches)[:, None], variance)
    scales = blind.fine_scale, blind.coarse_scale
    fine, coarse = (np.sqrt(scale**2 + own2) for scale in scales)
    failing = blind.tail_logit + _evidence(residual, fine, coarse)
    logit = np.repeat(either_logit(*failing.T)[:, None], 2, axis=1)
    own = np.sqrt(own2) * np.ones_like(residual)
    adapted = ErrorLaw(own, own, logit, law.location + residual, law.family)
    return PairLaw(adapted, blind, effects)


def departure_by_lines(matches: Matches, law: ErrorLaw, lines: Lines) -> PerMatch:
    """How far matches depart from their neighbours along their lines, px.

    A neighbour weighs more the nearer its line, the likelier and more precise it is.
    """
    fine, logit, normal = law.fine_scale, law.tail_logit, lines.normal
    size = fine[:, 0] + fine[:, 1]
    near = 1.0 / (1.0 + (2.0 * lines.distance / size) ** 2)  # Cauchy's weight
    parallax = affine_parallax(matches, near)
    along = parallax[:, 0] * normal[:, 1] - parallax[:, 1] * normal[:, 0]
    weight = (near / size) ** 2 * expit(-0.5 * (logit[:, 0] + logit[:, 1]))
    return departure(matches, along, weight)


def _size(scale: PerAxis, direction: PerAxis) -> PerMatch:
    """Mean size of errors with these scales on x and y, in a direction."""
    return size_of_sum(scale[:, 0] * direction[:, 0], scale[:, 1] * direction[:, 1])


def _evidence(x: FloatArray, fine: FloatArray, coarse: FloatArray) -> FloatArray:
    """log Lap(x; coarse) − log Lap(x; fine)."""
    return np.abs(x) * (1.0 / fine - 1.0 / coarse) - np.log(coarse / fine)


def _floor2(matches: Matches) -> PerMatch:
    """px²: no camera is exactly a pinhole, so no model is more exact."""
    return np.asarray(CAMERA_FLOOR**2 * (matches.refined_size**2).sum(axis=1))


def _spread_of(calibration: Calibration) -> PairSpread:
    if calibration.pairs is None:
        raise InputError(
            "The calibration does not say how pairs differ, so that its law cannot "
            "adapt to one; use a law fitted to scenes, such as the shipped 'daisy'."
        )
    return calibration.pairs
