"""Other peaks of the likelihood of lines, and which of them is the highest.

A climb ends on the peak that its start stands under, and a robust estimator does not
know which of several is the highest. So other geometries climb too: ten steps by some
hundred matches for each, more for the best three, and all the way by all matches for
one that is higher. It is taken where it is clearly more likely.

Two calibrated views of a plane have a second pose, however many matches there are
(:mod:`semisure.geometry.plane_poses`). Of fundamental matrices, where few matches agree
or nearly lie on a plane, other peaks lie along the directions that the matches
determine least, since there a large move changes few distances. So from the peak F is
moved both ways along its two least determined axes, by 5, 15 and 50 of the law's own
standard deviations. Where many agree there was never such a peak in the pairs that this
was made with. For relative poses the same moves found likelier ones that were not
nearer the truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from semisure.refit.across_lines import AcrossLines, G
from semisure.refit.climbing import climb
from semisure.types import Vector

MANY = 400.0  # so many matches that agree leave no second peak
AXES, AWAY = 2, (5.0, 15.0, 50.0)  # least determined ones; standard deviations
FARTHEST = 0.5  # radians, or half-diagonals
LOOKED_AT = 600  # matches
FIRST_STEPS, MORE_STEPS, FOLLOWED = 10, 10, 3
HIGHER_NATS = 1.0  # by those matches; less is the same peak again
CLEAR_NATS = 5.0  # by all matches: e⁵ times as likely


def highest(
    peak: AcrossLines[G], others: Sequence[G], *, within: float = np.inf
) -> tuple[AcrossLines[G], int]:
    """The peak itself, or one above `others` that is clearly higher, and its steps.

    Of the others those farther below the peak than `within`, nats a match that agrees,
    are not tried.
    """
    if not others:
        return peak, 0
    here, _ = climb(_thinned(peak), FIRST_STEPS)
    least = here.score - within * here.weight().sum()
    starts = [start for start in (_at(here, g) for g in others) if start.score > least]
    tried = sorted((climb(start, FIRST_STEPS)[0] for start in starts), key=_score)
    tried = [climb(view, MORE_STEPS)[0] for view in tried[-FOLLOWED:]]
    best = max(tried, key=_score, default=here)
    if not best.score > here.score + HIGHER_NATS:
        return peak, 0
    other, steps = climb(_at(peak, best.geometry))
    return (other, steps) if other.score > peak.score + CLEAR_NATS else (peak, 0)


def aside(peak: AcrossLines[G]) -> list[G]:
    """The geometry moved along what the matches tell least; none where many agree."""
    if not 0 < peak.weight().sum() <= MANY:
        return []
    return [peak.geometry.moved(step) for step in _moves(peak)]


def _at(view: AcrossLines[G], geometry: G) -> AcrossLines[G]:
    """The same matches by another geometry."""
    return AcrossLines.at(geometry, view.matches, view.match_law)


def _score(view: AcrossLines[G]) -> float:
    return view.score if np.isfinite(view.score) else -np.inf


def _thinned(view: AcrossLines[G]) -> AcrossLines[G]:
    """The same view of some of the matches, evenly taken."""
    count = len(view.matches)
    if count <= LOOKED_AT:
        return view
    rows = np.linspace(0, count - 1, LOOKED_AT).astype(np.int64)
    some, law = view.matches.take(rows), view.match_law.take(rows)
    return AcrossLines.at(view.geometry, some, law)


def _moves(peak: AcrossLines[G]) -> Iterator[Vector]:
    """Both ways along the least determined axes."""
    information = peak.information()
    if not np.isfinite(information).all():
        return
    values, vectors = np.linalg.eigh(information)
    for value, axis in zip(values[:AXES], vectors.T[:AXES], strict=True):
        unit = FARTHEST / np.abs(axis).max()
        for away in AWAY:
            length = min(away / np.sqrt(value), unit) if value > 0 else unit
            yield length * axis
            yield -length * axis
