"""The coarse-success posterior of each match of a pair, and whether its cell was right.

Two definitions of success, by name:

``cell``
    The true point lies in the cell that the coarse stage chose: the paper's event,
    ŷᶜ = y^{c,*}. Known where the matcher says which cell it chose.
``window``
    The true error is within the fine window on both axes. Easier: a point that the
    refinement found across the cell's edge counts too.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np

from semisure.bench.corner_errors import PairTask, start_of
from semisure.geometry.homography import residual, true_residual
from semisure.law.error_laws import error_law
from semisure.refit import weights
from semisure.types import Mask, Matches, PerAxis

Success = Literal["cell", "window"]
SUCCESSES: tuple[Success, ...] = get_args(Success)


def evaluate(task: PairTask) -> dict[str, Any]:
    """ω of each match, and success by each definition; nothing without a model."""
    matches = task.exported.matches()
    start = start_of(task, matches)
    row: dict[str, Any] = {"matcher": task.matcher, "pair": task.exported.name}
    if start.model is None:
        none = np.zeros(0, dtype=np.bool_)
        known = SUCCESSES if matches.cell is not None else ("window",)
        return {**row, "omega": np.zeros(0), **dict.fromkeys(known, none)}
    at_start = residual(start.model, matches)
    true = true_residual(task.exported.H_01, matches)
    finite = np.asarray(np.isfinite(at_start).all(axis=1))
    omega = weights.core(error_law(matches, task.calibrations.paper), at_start)
    successes = coarse_successes(matches.take(finite), true[finite])
    return {**row, "omega": omega[finite], **successes}


def coarse_successes(matches: Matches, true: PerAxis) -> dict[str, Mask]:
    """Which matches succeeded, by each definition that the matcher allows."""
    within = np.asarray((np.abs(true) <= matches.fine_window[:, None]).all(axis=1))
    cell = matches.in_cell(matches.refined - true)
    return {"window": within} if cell is None else {"cell": cell, "window": within}
