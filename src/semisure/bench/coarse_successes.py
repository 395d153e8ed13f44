"""The coarse-success posterior of each match of a pair beside its true error."""

from __future__ import annotations

from typing import Any

import numpy as np

from semisure.bench.corner_errors import PairTask, start_of
from semisure.error_laws import error_law
from semisure.geometry.homography import residual, true_residual
from semisure.refit import weights


def evaluate(task: PairTask) -> dict[str, Any]:
    """ω of each match and its true error in fine windows; none without a model."""
    matches = task.exported.matches()
    start = start_of(task, matches)
    row: dict[str, Any] = {"matcher": task.matcher, "pair": task.exported.name}
    if start.model is None:
        return {**row, "omega": np.zeros(0), "windows": np.zeros(0)}
    at_start = residual(start.model, matches)
    true = true_residual(task.exported.H_01, matches)
    finite = np.isfinite(at_start).all(axis=1)
    omega = weights.core(error_law(matches, task.calibrations.paper), at_start)
    windows = np.abs(true).max(axis=1) / matches.fine_window
    return {**row, "omega": omega[finite], "windows": windows[finite]}
