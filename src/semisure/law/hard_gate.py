"""The ablation's hard gate, fitted exactly along a given direction.

Where the gate is a step, each match is wholly fine or wholly coarse. For a fixed
direction of the score k_s s̄ + k_m (−log m) the likelihood depends only on where the
sorted scores are cut, and the best scales on either side are means of |r| / s̃, so
cumulative sums give the NLL of every cut at once. The direction comes from the soft
fit and is then searched over its angle.
"""

from __future__ import annotations

import numpy as np

from semisure.law.likelihood import Observations
from semisure.law.mixture import STD_FLOOR_PX
from semisure.law.parameters import DOUBT_SLOPE, SIZE, SPREAD_SLOPE, of_axis
from semisure.types import FloatArray, PerAxis, PerMatch, Vector

_ANGLES = 16


def harden(obs: Observations, x: PerAxis, soft: Vector) -> tuple[Vector, int]:
    """The eight parameters of the best hard gate, and how many cuts were searched.

    `x` is |r| less the location, (n, 2); `soft` the parameters of the soft fit.
    """
    candidates = [(soft[SPREAD_SLOPE], soft[DOUBT_SLOPE])]
    unit = np.maximum([obs.spread.std(), obs.doubt.std()], 1e-9)
    for angle in np.linspace(0.0, np.pi / 2, _ANGLES):
        candidates.append((np.cos(angle) / unit[0], np.sin(angle) / unit[1]))
    fits = [_best_cuts(obs, x, slopes) for slopes in candidates]
    _, parameters = min(fits, key=lambda fit: fit[0])
    return parameters, len(candidates)


def _best_cuts(
    obs: Observations, x: PerAxis, slopes: tuple[float, float]
) -> tuple[float, Vector]:
    parameters = np.zeros(SIZE)
    total = 0.0
    for axis in (0, 1):
        score = slopes[0] * obs.spread[:, axis] + slopes[1] * obs.doubt
        fine = np.maximum(obs.fine_std[:, axis], STD_FLOOR_PX)
        coarse = np.maximum(obs.coarse_std[:, axis], STD_FLOOR_PX)
        nll, cut, fine_gain, coarse_gain = _best_cut(score, x[:, axis], fine, coarse)
        total += nll
        log_gains = 2 * np.log([fine_gain, coarse_gain])
        parameters[of_axis(axis)] = *log_gains, *slopes, -cut
    return total, parameters


def _best_cut(
    score: PerMatch, x: PerMatch, fine: PerMatch, coarse: PerMatch
) -> tuple[float, float, float, float]:
    """NLL, threshold and the two scale gains of the best split of sorted scores."""
    order = np.argsort(score, kind="stable")
    score, x, fine, coarse = score[order], x[order], fine[order], coarse[order]
    n = len(score)
    count = np.arange(1, n)
    # Below the cut: scale gain = mean |r|/s̃, whose NLL is n log(2 gain) + n + Σ log s̃.
    fine_gain = np.maximum(np.cumsum(x / fine)[:-1] / count, 1e-6)
    below = count * np.log(2 * fine_gain) + count + np.cumsum(np.log(fine))[:-1]
    coarse_gain = np.maximum(_sums_above(x / coarse) / (n - count), 1e-6)
    above = (n - count) * (np.log(2 * coarse_gain) + 1) + _sums_above(np.log(coarse))
    nll = below + above
    # Equal scores cannot be parted.
    nll[score[1:] <= score[:-1]] = np.inf
    best = int(np.argmin(nll))
    cut = 0.5 * (score[best] + score[best + 1])
    return (
        float(nll[best]),
        float(cut),
        float(fine_gain[best]),
        float(coarse_gain[best]),
    )


def _sums_above(values: PerMatch) -> FloatArray:
    """Sum of all values after each place but the last."""
    return np.cumsum(values[::-1])[::-1][1:]
