"""Fits of the ablation's laws that need no optimiser: fine only, and a hard gate.

Where the gate is a step, each match is wholly fine or wholly coarse. For a fixed
direction of the score k_s s̄ + k_m (−log m) the likelihood depends only on where the
sorted scores are cut, and the best scales on either side are means of |r| / s̃, so
cumulative sums give the NLL of every cut at once. The direction comes from the soft
fit and is then searched over its angle.
"""

from __future__ import annotations

import numpy as np

from semisure.law.likelihood import AXES, FINE, SIZE, unpack
from semisure.law.mixture import STD_FLOOR_PX
from semisure.law.newton import LawFit, fit_newton
from semisure.law.observations import Observations
from semisure.types import PerAxis, PerMatch, Vector

ANGLES = 16


def fit_fine_only(obs: Observations) -> LawFit:
    """√b = mean |r| / s̃ᶠ: the maximum-likelihood scale of a Laplace law."""
    x = np.abs(obs.residual)
    gain = (x / np.maximum(obs.fine_std, STD_FLOOR_PX)).mean(axis=0)
    parameters = np.zeros(SIZE)
    parameters[FINE] = 2.0 * np.log(np.maximum(gain, 1e-3))
    return LawFit(calibration=unpack(parameters))


def fit_hard_gate(obs: Observations) -> LawFit:
    """The best cut along the soft fit's direction or one of a fan of others."""
    soft = fit_newton(obs, "mixture")
    x = np.abs(obs.residual)
    directions = [(soft.calibration.spread_slope, soft.calibration.doubt_slope)]
    unit = np.maximum([obs.spread.std(), obs.doubt.std()], 1e-9)
    for angle in np.linspace(0.0, np.pi / 2, ANGLES):
        directions.append((np.cos(angle) / unit[0], np.sin(angle) / unit[1]))
    fits = [_best_cuts(obs, x, slopes) for slopes in directions]
    return LawFit(
        calibration=unpack(min(fits, key=lambda fit: fit[0])[1]),
        iterations=soft.iterations,
        message="soft fit, then the exact best cut",
    )


def _best_cuts(
    obs: Observations, x: PerAxis, slopes: tuple[float, float]
) -> tuple[float, Vector]:
    parameters = np.zeros(SIZE)
    total = 0.0
    for axis, places in enumerate(AXES):
        score = slopes[0] * obs.spread[:, axis] + slopes[1] * obs.doubt
        fine = np.maximum(obs.fine_std[:, axis], STD_FLOOR_PX)
        coarse = np.maximum(obs.coarse_std[:, axis], STD_FLOOR_PX)
        nll, cut, fine_gain, coarse_gain = _best_cut(score, x[:, axis], fine, coarse)
        total += nll
        log_gains = 2 * np.log([fine_gain, coarse_gain])
        parameters[places] = *log_gains, *slopes, -cut
    return total, parameters


def _best_cut(
    score: PerMatch, x: PerMatch, fine: PerMatch, coarse: PerMatch
) -> tuple[float, float, float, float]:
    """NLL, threshold, fine and coarse scale gain of the best split of the scores."""
    order = np.argsort(score, kind="stable")
    score, x, fine, coarse = score[order], x[order], fine[order], coarse[order]
    n = len(score)
    count = np.arange(1, n)
    # Below the cut: scale gain = mean |r|/s̃, whose NLL is n log(2 gain) + n + Σ log s̃.
    fine_gain = np.maximum(np.cumsum(x / fine)[:-1] / count, 1e-6)
    nll = count * (np.log(2 * fine_gain) + 1) + np.cumsum(np.log(fine))[:-1]
    # Above it the same, summed from the other end.
    sums = np.cumsum(np.stack([x / coarse, np.log(coarse)])[:, ::-1], axis=1)
    gains, logs = sums[:, -2::-1]
    coarse_gain = np.maximum(gains / (n - count), 1e-6)
    nll += (n - count) * (np.log(2 * coarse_gain) + 1) + logs
    # Equal scores cannot be parted.
    nll[score[1:] <= score[:-1]] = np.inf
    best = int(np.argmin(nll))
    cut = 0.5 * (score[best] + score[best + 1])
    return nll[best], cut, fine_gain[best], coarse_gain[best]
