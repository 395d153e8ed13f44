"""Is this model an accident? An a-contrario test (Moisan and Stival, 2004).

If the images were unrelated, a match would land within τ px of where
a homography sends it with probability π τ² / area, and within τ px of an epipolar line
with probability at most 2 τ · diagonal / area. The expected number of models at least
this well supported, over all that minimal samples can propose, is the number of false
alarms. Far below one, the model is no accident. Neighbouring matches have correlated
errors, so one per block counts: for a homography any that agrees, since hardly one does
by chance; for lines, which many meet by chance, the one of highest confidence.

Several thresholds τ are tried, since matches of one pair are good to a pixel and those
of another to five; for lines also the more confident half of the matches alone. The
lowest number of false alarms counts, multiplied by the number of tries.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, lgamma, log, pi

import numpy as np

from semisure.geometry import epipolar
from semisure.geometry import fundamental as fm
from semisure.geometry.homography import residual
from semisure.types import Index, Labels, Matches, Matrix3, Points

BLOCK_PX = 32.0  # within it, errors of neighbours are correlated
WIDEST = 2**30  # squares along an axis; points beyond count to the last one
THRESHOLDS_PX = (5.0, 3.0)
LINE_THRESHOLDS_PX = (1.0, 2.0, 3.0)


@dataclass(frozen=True, slots=True)
class Proposals:
    """The size of a minimal sample, and the largest number of models from one."""

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
    rows = _most_confident(matches)
    distance = np.abs(epipolar.lines_of(F_01[None], matches).distance[rows])
    diagonal = float(np.max(np.linalg.norm(matches.refined_size, axis=1)))
    alarms = []
    # The more confident half may hold most of the inliers.
    for distances in (distance, distance[: (len(distance) + 1) // 2]):
        for limit in LINE_THRESHOLDS_PX:
            hits = int(np.count_nonzero(distances <= limit))
            chance = 2.0 * limit * diagonal / _area(matches)
            alarms.append(_log_expected(len(distances), hits, chance, proposals))
    return min(alarms) + log(len(alarms))


def chance_of_alarms(log_alarms: float) -> float:
    """The chance that a model is an accident, by this test."""
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


def _blocks(matches: Matches, rows: Index) -> int:
    """The number of blocks that hold these matches, in the image with fewer.

    Matches that crowd into a corner of one image are weak evidence, however wide they
    are spread over the other.
    """
    sides = (matches.source[rows], matches.target[rows])
    return min(len(np.unique(squares(points, BLOCK_PX))) for points in sides)


def _most_confident(matches: Matches) -> Labels:
    """The most confident match of each block, at most one in either image."""
    rows = np.argsort(-matches.confidence, kind="stable")
    for points in (matches.source, matches.target):
        _, first = np.unique(squares(points[rows], BLOCK_PX), return_index=True)
        rows = rows[np.sort(first)]
    return rows


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
