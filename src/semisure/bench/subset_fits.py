"""A law fitted to some pairs, judged on others by NLL and by AUC after the refit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from semisure.bench.exported import Exported, stored_matches
from semisure.bench.law_scores import score
from semisure.bench.true_errors import with_truth
from semisure.calibration import fit
from semisure.estimators import estimate_homography
from semisure.estimators.settings import RansacSettings
from semisure.metrics import auc, corner_error
from semisure.refit import refit_homography
from semisure.types import Calibration, Estimate

AUC_PX = 3


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Task:
    """A subset to fit on, and the pairs to judge by."""

    matcher: str
    chosen: Sequence[Exported]
    held_out: Sequence[Exported]
    estimator: str
    settings: RansacSettings
    powell: bool  # time the paper's optimiser too


@lru_cache(maxsize=4096)
def _start(file: Path, estimator: str, settings: RansacSettings) -> Estimate:
    return estimate_homography(stored_matches(file), estimator, settings)


def evaluate(task: Task) -> dict[str, Any]:
    """One draw: the fit, its seconds, and how it does on the pairs held out."""
    pairs = [with_truth(e) for e in task.chosen]
    begin = time.perf_counter()
    calibration, report = fit(pairs)
    seconds = time.perf_counter() - begin
    row: dict[str, Any] = {
        "matcher": task.matcher,
        "pairs": len(task.chosen),
        "matches": report.matches,
        "fit nll": report.nll,
        "seconds": seconds,
        "held-out nll": float(score(calibration, task.held_out).nll.mean()),
    }
    errors = [_error(task, calibration, e) for e in task.held_out]
    row["auc"] = 100.0 * auc(errors, [AUC_PX])[0]
    if task.powell:
        begin = time.perf_counter()
        fit(pairs, optimiser="powell")
        row["powell seconds"] = time.perf_counter() - begin
    return row


def _error(task: Task, calibration: Calibration, exported: Exported) -> float:
    """The corner error of a pair after the paper's refit, px."""
    matches = exported.matches()
    start = _start(exported.file, task.estimator, task.settings)
    H = refit_homography(matches, calibration, start, method="core").model
    return corner_error(H, exported.H_01, matches.source_size)
