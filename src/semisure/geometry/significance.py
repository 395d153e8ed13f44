"""Could this model be chance? An a-contrario test (Moisan and Stival, 2004).

If the images had nothing to do with each other, a match would land within τ px of where
a homography sends it with probability π τ² / area, and within τ px of an epipolar line
with probability at most 2 τ · diagonal / area. The expected number of models at least
this well supported, over all that minimal samples can propose, is the number of false
alarms. Far below one, the model is no accident. Neighbouring matches err together, so
only one per block counts: for a homography any that agrees, since hardly one does by
chance; for lines, which many meet by chance, the one of highest confidence.

Some thresholds τ are tried, and for lines also the surer half of the matches alone. The
best counts, and its number is multiplied by how many there are: matches of one pair are
good to a pixel, those of another only to five.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, lgamma, log, pi

import numpy as np

from semisure.geometry import epipolar
from semisure.geometry import fundamental as fm
from semisure.geometry.homography import residual
from semisure.types import Index, Labels, Matches, Matrix3, Points

BLOCK_PX = 32.0  # neighbours err together within so much
WIDEST = 2**30  # squares along an axis; what is beyond is in the last
THRESHOLDS_PX = (5.0, 3.0)
LINE_THRESHOLDS_PX = (1.0, 2.0, 3.0)


@dataclass(frozen=True, slots=True)
class Proposals:
    """What a minimal sample proposes: its size, and how many models it has at most."""

    sample: int
    models: int


FOUR_POINTS = Proposals(4, 1)  # homographies
SEVEN_POINTS = Proposals(fm.MINIMAL_SAMPLE, 3)  # fundamental matrices
FIVE_POINTS = Proposals(epipolar.MINIMAL_SAMPLE, 10)  # essential matrices


def log_false_alarms(H_01: Matrix3, matches: Matches) -> float:
    """Logarithm of the number of homographies this good to be expected by chance."""
    with np.errstate(invalid="ignore"):  # beyond the horizon
        distance = np.linalg.norm(residual(H_01, matches), axis=1)
    blocks, alarms = _blocks(matches, slice(None)), []
    for limit in THRESHOLDS_PX:
        chance = pi * limit**2 / _area(matches)
        hits = _blocks(matches, distance <= limit)
        alarms.append(_log_expected(blocks, hits, chance, FOUR_POINTS))
    return min(alarms) + log(len(alarms))


def log_false_alarms_of_lines(
    F_01: Matrix3, matches: Matches, proposals: Proposals = SEVEN_POINTS
) -> float:
    """The same for epipolar lines; `proposals` are those of E or F."""
    surest = _surest(matches)
    distance = np.abs(epipolar.lines_of(F_01[None], matches).distance[surest])
    diagonal = float(np.max(np.linalg.norm(matches.refined_size, axis=1)))
    alarms = []
    # The surer half may hold most of those that are right.
    for some in (distance, distance[: (len(distance) + 1) // 2]):
        for limit in LINE_THRESHOLDS_PX:
            hits = int(np.count_nonzero(some <= limit))
            chance = 2.0 * limit * diagonal / _area(matches)
            alarms.append(_log_expected(len(some), hits, chance, proposals))
    return min(alarms) + log(len(alarms))


def chance_of_alarms(log_alarms: float) -> float:
    """Chance, as far as the test can tell, that a model is an accident."""
    return 1.0 / (1.0 + exp(min(-log_alarms, 700.0)))


def log_alarms_of(failure: float) -> float:
    """The inverse of :func:`chance_of_alarms`.

    >>> log_alarms_of(0.5)
    0.0
    """
    tiny = 1e-300
    return float(np.log(max(failure, tiny)) - np.log(max(1.0 - failure, tiny)))


def _area(matches: Matches) -> float:
    return float(np.min(matches.refined_size.prod(axis=1)))


def _log_expected(blocks: int, hits: int, chance: float, proposals: Proposals) -> float:
    # A sample always agrees with the model it proposes, and proves nothing.
    least = proposals.sample
    blocks, hits = max(blocks, least + 1), max(hits, least)
    choices = _log_choose(blocks, hits) + _log_choose(hits, least)
    tries = np.log(proposals.models * (blocks - least))
    return float(tries + choices + (hits - least) * np.log(min(1.0, chance)))


def _blocks(matches: Matches, some: Index) -> int:
    """Blocks that hold some of the matches, in whichever image has fewer.

    Matches that crowd into a corner of one image are few, however widely they came
    from the other.
    """
    sides = (matches.source[some], matches.target[some])
    return min(len(np.unique(squares(points, BLOCK_PX))) for points in sides)


def _surest(matches: Matches) -> Labels:
    """The surest match of each block, at most one in either image, by confidence."""
    kept = np.argsort(-matches.confidence, kind="stable")
    for points in (matches.source, matches.target):
        _, first = np.unique(squares(points[kept], BLOCK_PX), return_index=True)
        kept = kept[np.sort(first)]
    return kept


def squares(points: Points, side_px: float, shift: float = 0.0) -> Labels:
    """Numbers from 0 of the squares of a grid that points lie in; `shift` moves it.

    >>> squares(np.array([[1.0, 1.0], [9.0, 1.0], [7.9, 7.9]]), 8.0).tolist()
    [0, 1, 0]
    """
    cells = np.clip(np.floor(points.T / side_px + shift), -WIDEST, WIDEST)
    column, row = cells.astype(np.int64)
    return np.unique(column * (2 * WIDEST + 1) + row, return_inverse=True)[1]


def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
