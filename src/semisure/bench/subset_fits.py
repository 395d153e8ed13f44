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
from semisure.estimators import estimate_homography
from semisure.estimators.settings import RansacSettings
from semisure.law.fit_law import Optimiser, fit
from semisure.metrics import auc, corner_error
from semisure.refit.planes import refit_homography
from semisure.types import Calibration, Estimate

AUC_PX = 3


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Judges:
    """Pairs with homographies, which have an AUC, and pairs whose NLL counts."""

    planar: Sequence[Exported]
    by_nll: Sequence[Exported]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Task:
    """A subset to fit on, and the pairs to judge by."""

    matcher: str
    chosen: Sequence[Exported]
    judges: Judges
    estimator: str
    settings: RansacSettings
    optimiser: Optimiser
    timed: Sequence[Optimiser] = ()  # others, whose time is taken too
    given: Calibration | None = None  # judged instead of a fit


@lru_cache(maxsize=4096)
def _start(file: Path, estimator: str, settings: RansacSettings) -> Estimate:
    return estimate_homography(stored_matches(file), estimator, settings)


def evaluate(task: Task) -> dict[str, Any]:
    """One draw: the fit, its seconds, and how it does on the pairs held out."""
    row: dict[str, Any] = {"matcher": task.matcher, "pairs": len(task.chosen)}
    calibration = task.given
    if calibration is None:
        calibration, numbers = _fitted(task)
        row |= numbers
    row["held-out nll"] = float(score(calibration, task.judges.by_nll).nll.mean())
    if task.judges.planar:
        errors = [_error(task, calibration, e) for e in task.judges.planar]
        row["auc"] = 100.0 * auc(errors, [AUC_PX])[0]
    return row


def _fitted(task: Task) -> tuple[Calibration, dict[str, Any]]:
    """The law, and the numbers of its fit and of those that are only timed."""
    pairs = [with_truth(e) for e in task.chosen]
    begin = time.perf_counter()
    calibration, report = fit(pairs, optimiser=task.optimiser)
    numbers: dict[str, Any] = {
        "matches": report.matches,
        "fit nll": report.nll,
        f"{task.optimiser} seconds": time.perf_counter() - begin,
    }
    for other in task.timed:
        begin = time.perf_counter()
        fit(pairs, optimiser=other)
        numbers[f"{other} seconds"] = time.perf_counter() - begin
    return calibration, numbers


def _error(task: Task, calibration: Calibration, exported: Exported) -> float:
    """The corner error of a pair after the paper's refit, px."""
    matches = exported.matches()
    start = _start(exported.file, task.estimator, task.settings)
    H = refit_homography(matches, calibration, start, method="core").model
    return corner_error(H, exported.H_01, matches.source_size)
