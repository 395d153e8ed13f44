"""How often a law would meet the bars of :mod:`semisure.bench.interval_scores` by luck.

A scene has few independent errors: neighbours take the same wrong edge together, and
one region far off moves a mean over hundreds of matches. So squares of the images are
drawn anew with all their matches (a bootstrap). What the numbers of a draw depart by
from those of all matches is chance. A law that is right in the mean departs by chance
alone, and meets a bar as often as draws stay within it.
"""

from __future__ import annotations

import numpy as np

from semisure.bench.interval_scores import (
    DECILES,
    MIDDLE,
    NUMBERS,
    TAIL_PX,
    Scores,
    bars,
)
from semisure.geometry.squares import square_of
from semisure.metrics import mass_bins
from semisure.types import FloatArray, Labels, Points, Vector

SQUARE_PX = 96.0  # matches in one square err together
DRAWS = 500
BARS = ("covers", "tail", "deciles")
LEVELS = (0.5, 0.9)


def squares_of(points: Points) -> Labels:
    """Which square of its image each point lies in, counted from 0.

    >>> squares_of(np.array([[900.0, 9.0], [1.0, 1.0], [880.0, 90.0]])).tolist()
    [1, 0, 1]
    """
    return np.unique(square_of(points, SQUARE_PX), return_inverse=True)[1].reshape(-1)


def chances(scores: Scores, seed: int = 0) -> dict[str, float]:
    """How often a law that is right in the mean would meet each bar.

    >>> from semisure.law.mixture import ErrorLaw
    >>> one = np.ones((4000, 2))
    >>> law = ErrorLaw(one, 9 * one, -3 * one, 0 * one)
    >>> residual = np.random.default_rng(0).laplace(size=(4000, 2))
    >>> chances(Scores.of(law, residual))["deciles"]
    1.0
    """
    if len(scores) < DECILES:
        return dict.fromkeys(BARS, 0.0)
    sums = _by_square(scores)
    rng, count, whole = np.random.default_rng(seed), len(sums), sums.sum(axis=0)
    met = []
    for _ in range(DRAWS):
        times = np.bincount(rng.integers(count, size=count), minlength=count)
        met.append(bars(_if_right(times @ sums, whole)))
    return {bar: float(np.mean([getattr(one, bar) for one in met])) for bar in BARS}


def _by_square(scores: Scores) -> FloatArray:
    """What numbers are made of, summed over the matches of each square, (squares, 21).

    Matches, those inside either interval, the tail predicted and observed, then errors
    expected and observed in each of the middle deciles.
    """
    off = 2.0 * np.abs(scores.pit - 0.5)
    error = np.abs(scores.residual)
    columns = [np.ones(len(scores))]
    columns += [(off <= level).mean(axis=1) for level in LEVELS]
    columns += [scores.beyond.mean(axis=1), (error > TAIL_PX).mean(axis=1)]
    deciles = mass_bins(scores.expected, DECILES)[MIDDLE]
    for values in (scores.expected, error.mean(axis=1)):
        for rows in deciles:
            of_decile = np.zeros(len(scores))
            of_decile[rows] = values[rows]
            columns.append(of_decile)
    sums = np.array([np.bincount(scores.square, column) for column in columns]).T
    return sums[sums[:, 0] > 0]


def _if_right(drawn: Vector, whole: Vector) -> dict[str, float]:
    """The numbers of a draw by a law whose numbers are right for all matches."""
    inside = 100.0 * (drawn[1:3] / drawn[0] - whole[1:3] / whole[0] + LEVELS)
    with np.errstate(divide="ignore", invalid="ignore"):  # where nothing errs
        predicted, observed = drawn[3:5] / whole[3:5]
        expected, erred = (drawn[5:] / whole[5:]).reshape(2, -1)
        ratio = expected / erred
        off = np.abs(np.log(ratio)).mean()
    values = [*inside, predicted, observed, ratio.min(), ratio.max(), off, 0.0]
    return dict(zip(NUMBERS, map(float, values), strict=True))
