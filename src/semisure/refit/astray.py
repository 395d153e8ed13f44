"""What matches' own lines and neighbours say of each, once a pair's lines are known.

Two kinds of failure differ there. Where the coarse cell was wrong a match may lie
anywhere, and nearly always far from its line: its distance tells, by Bayes' rule, with
no number to be fitted. A match that took another surface, near a depth edge or on
repeated structure, lies on its line all the same; it went *astray*. That shows in its
neighbours only: where they lie roughly, or many of the pair depart from theirs.

Along the line the middle component of :mod:`semisure.refit.middle_law` stands for such
matches. How far they go differs between pairs by a factor of ten, and those that
neighbours betray tell how far: the mean logarithm of their departures (Hill's
estimator) sets the scale of all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure.geometry.epipolar import Lines
from semisure.mixture import ErrorLaw, expit, softplus
from semisure.refit.middle_law import MiddleLaw, middle_of
from semisure.refit.neighbours import Surface
from semisure.refit.pair_effects import affected, bluntness, more_failing
from semisure.types import FloatArray, Index, Matches, PairSpread, PerAxis, PerMatch

# A match is on its line within so many fine scales, or windows, and departs from its
# neighbours by more than so many windows.
_ON_LINE, _ON_LINE_WINDOWS, _DEPARTS = 4.0, 0.06, 0.4
# What a pair counts as having before its own matches are looked at.
_USUAL_REACH, _USUAL_COUNT = 0.6, 5.0
_LEAST_ROUGH = 1e-3  # windows: the logarithm stays finite
_LEAST_CHANCE = float(expit(np.array(-30.0)))  # a smaller one is 0 to rounding


@dataclass(frozen=True, slots=True, eq=False)
class OnLines:
    """What lines and neighbours say of each match; `share` and `reach` of its pair."""

    distance: PerMatch  # |d| from the line, px
    normal2: PerAxis  # squares of the line's unit normal
    variance: PerMatch  # of the line itself next to the match, px²
    window: PerMatch  # px
    away: PerMatch  # departure from neighbours, px
    rough: PerMatch  # log of the roughness around, less its mean over the pair
    share: PerMatch  # logit of how many matches on their lines depart
    reach: PerMatch  # mean of log(departure / limit) of these

    @classmethod
    def of(
        cls,
        matches: Matches,
        law: ErrorLaw,
        lines: Lines,
        surface: Surface,
        variance: PerMatch | None = None,
    ) -> OnLines:
        normal2 = np.asfortranarray(lines.normal) ** 2  # by columns, as laws are
        distance = np.abs(lines.distance)
        window = matches.fine_window
        near = np.maximum(
            _ON_LINE * np.sqrt(_across2(law.fine_scale, normal2)),
            _ON_LINE_WINDOWS * window,
        )
        on, limit = distance < near, _DEPARTS * window
        far = np.flatnonzero(on & (surface.away > limit))
        beyond = np.log(surface.away[far] / limit[far])
        count, departing = np.count_nonzero(on), len(beyond)
        reach = beyond.sum() + _USUAL_COUNT * _USUAL_REACH
        rough = np.log(surface.rough / window + _LEAST_ROUGH)
        return cls(
            distance,
            normal2,
            np.zeros(len(distance)) if variance is None else variance,
            window,
            surface.away,
            rough - rough.mean() if len(rough) else rough,
            np.full(len(on), np.log((departing + 1.0) / (count - departing + 1.0))),
            np.full(len(on), reach / (departing + _USUAL_COUNT)),
        )

    def take(self, rows: Index) -> OnLines:
        return OnLines(*(getattr(self, name)[rows] for name in OnLines.__slots__))


def law_on_lines(
    law: ErrorLaw,
    effects: FloatArray,
    spread: PairSpread,
    seen: OnLines,
    *,
    blunt: FloatArray | None = None,
) -> MiddleLaw:
    """`law` under a pair's effects, given what is seen of each match.

    `effects` is (4,), or (4, n, 1) where matches are of several pairs; `blunt` is
    :func:`bluntness` where `law` is that of a part of a pair.
    """
    assert spread.middle is not None  # as PairSpread holds
    more = more_failing(bluntness(law) if blunt is None else blunt, spread)
    fine, coarse, failing = affected(law, effects, more)
    failing_logit = _logit(failing)
    middle, middle_logit = middle_of(fine, coarse, failing_logit, spread.middle)
    fails, near_miss = _by_distance(
        (fine, middle, coarse), failing_logit, middle_logit, seen
    )
    fine_along, beyond = _fine_along(law, effects, spread, seen)
    astray, astray_scale = _gone_astray(failing_logit, spread, seen)
    fails_across = failing_logit + fails
    fails_along = fails_across + spread.along_gate + _departure(spread)[2] * beyond
    across, along = seen.normal2, seen.normal2[:, ::-1]
    astray_scale = np.maximum(astray_scale, fine_along)
    fine = _turned(across, fine, along, fine_along)
    middle = _turned(across, middle, along, astray_scale)
    coarse = coarse * (across + along * np.exp(spread.along_coarse))
    failing = across * expit(fails_across) + along * expit(fails_along)
    share = across * expit(middle_logit + near_miss) + along * expit(astray)
    return MiddleLaw(
        fine,
        np.maximum(coarse, fine),
        _logit(failing),
        law.location,
        law.family,
        middle_scale=middle,
        middle_logit=_logit(share),
    )


def _turned(
    across2: PerAxis, across: PerAxis, along2: PerAxis, along: PerAxis
) -> PerAxis:
    """Scales on x and y of errors with these across and along lines."""
    square = across * across
    square *= across2
    square += along2 * (along * along)
    return np.sqrt(square, out=square)


def _by_distance(
    scales: tuple[PerAxis, PerAxis, PerAxis],
    failing_logit: PerAxis,
    middle_logit: PerAxis,
    seen: OnLines,
) -> tuple[FloatArray, FloatArray]:
    """What the distance adds to the logits of failing and of a near miss, (n, 1)."""
    of_lines = 0.5 * seen.variance
    across = [np.sqrt(_across2(scale, seen.normal2) + of_lines) for scale in scales]
    fine, middle, coarse = (-seen.distance / s - np.log(s) for s in across)
    missing = _over_axes(seen.normal2, middle_logit)
    ahead = middle - fine
    # log of (1 − β) e^fine + β e^middle
    right = fine + softplus(missing + ahead) - softplus(missing)
    return (coarse - right)[:, None], ahead[:, None]


def _fine_along(
    law: ErrorLaw, effects: FloatArray, spread: PairSpread, seen: OnLines
) -> tuple[PerAxis, PerAxis]:
    """Fine scales along lines, and the logarithms of departures by which they grow."""
    mean, (constant, slope, _) = spread.means[0], _departure(spread)
    carried = mean + spread.carry * (effects[0] - mean) + spread.along_fine
    usual = law.fine_scale * np.exp(carried)
    beyond = 0.5 * np.log1p((seen.away[:, None] / usual) ** 2)
    return usual * np.exp(constant + slope * beyond), beyond


def _departure(spread: PairSpread) -> tuple[float, float, float]:
    assert spread.departure is not None  # as PairSpread holds
    return spread.departure[:3]


def _gone_astray(
    failing_logit: PerAxis, spread: PairSpread, seen: OnLines
) -> tuple[PerAxis, FloatArray]:
    """Logit of having gone astray if the cell was right, and the scale of it, px."""
    assert spread.astray is not None
    constant, by_failing, by_rough, by_share, by_reach, log_scale, stretch = (
        spread.astray
    )
    logit = by_failing * failing_logit
    more = constant + by_rough * seen.rough + by_share * seen.share
    logit += (more + by_reach * seen.reach)[:, None]
    scale = seen.window * np.exp(log_scale + stretch * seen.reach)
    return logit, scale[:, None]


def _across2(scale: PerAxis, normal2: PerAxis) -> PerMatch:
    """The squared size across lines of errors with these scales on x and y."""
    return _over_axes(normal2, scale * scale)


def _over_axes(weight: PerAxis, value: PerAxis) -> PerMatch:
    """Weighted sums over x and y; NumPy sums short rows slowly."""
    return np.asarray(np.einsum("na,na->n", weight, value))


def _logit(chance: FloatArray) -> FloatArray:
    held = np.clip(chance, _LEAST_CHANCE, 1.0 - _LEAST_CHANCE)
    return np.log(held) - np.log1p(-held)
