"""The eight numbers that a fit looks for, and the one place that knows their order.

=====  ================  ==========================================================
place  paper             meaning
=====  ================  ==========================================================
0, 1   log b_x, log b_y  fine variance gains; positive, so fitted as logarithms
2, 3   log a_x, log a_y  coarse variance gains
4      k_s               slope of the gate by the coarse spread, logit per %
5      k_m               slope of the gate by −log m, logit per nat
6, 7   β_x, β_y          intercepts of the gate, β_d = −k_s t_d − k_m t_m
=====  ================  ==========================================================

The paper's nine have one number too many: its t_x, t_y and t_m enter the gate by the
two intercepts only.
"""

from __future__ import annotations

import numpy as np

from semisure.types import Calibration, Vector

SIZE = 8
NAMES = ("b_x", "b_y", "a_x", "a_y", "k_s", "k_m", "beta_x", "beta_y")
FINE, COARSE, INTERCEPT = slice(0, 2), slice(2, 4), slice(6, 8)  # by axis
LOG_GAINS, SLOPES = slice(0, 4), slice(4, 6)
SPREAD_SLOPE, DOUBT_SLOPE = 4, 5

NINE = (*NAMES[:6], "t_x", "t_y", "t_m")  # the paper's, gains as logarithms here too


def of_axis(axis: int) -> list[int]:
    """The places of (log b, log a, k_s, k_m, β) of one axis."""
    return [
        FINE.start + axis,
        COARSE.start + axis,
        SPREAD_SLOPE,
        DOUBT_SLOPE,
        INTERCEPT.start + axis,
    ]


def pack(calibration: Calibration) -> Vector:
    """The eight numbers of a calibration."""
    eight = np.empty(SIZE)
    eight[FINE] = np.log(calibration.fine_var_gain)
    eight[COARSE] = np.log(calibration.coarse_var_gain)
    eight[SPREAD_SLOPE] = calibration.spread_slope
    eight[DOUBT_SLOPE] = calibration.doubt_slope
    eight[INTERCEPT] = calibration.intercept
    return eight


def unpack(eight: Vector) -> Calibration:
    """The calibration of eight numbers; inverse of :func:`pack`."""
    fine, coarse = np.exp(eight[FINE]), np.exp(eight[COARSE])
    beta = eight[INTERCEPT]
    return Calibration(
        fine_var_gain=(fine[0], fine[1]),
        coarse_var_gain=(coarse[0], coarse[1]),
        spread_slope=eight[SPREAD_SLOPE],
        doubt_slope=eight[DOUBT_SLOPE],
        intercept=(beta[0], beta[1]),
    )


def from_nine(nine: Vector) -> Vector:
    """The eight of the paper's nine, whatever their gauge."""
    k_s, k_m, t_x, t_y, t_m = nine[4:]
    tail = k_s * np.array([t_x, t_y]) + k_m * t_m
    return np.concatenate([nine[:6], -tail])


def to_nine(calibration: Calibration) -> Vector:
    """The paper's nine of a calibration with t_m = 0, knees of no slope 0."""
    symbols = calibration.paper_symbols()
    knees = [symbols[name] or 0.0 for name in ("t_x", "t_y", "t_m")]
    return np.concatenate([pack(calibration)[:6], knees])


def gain_slopes(eight: Vector) -> Vector:
    """d number / d fitted number: the gains for their logarithms, 1 for the rest."""
    slopes = np.ones(SIZE)
    slopes[LOG_GAINS] = np.exp(np.minimum(eight[LOG_GAINS], 700.0))
    return slopes
