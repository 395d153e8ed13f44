"""Supplement B.2: calibration and ROC of the coarse-success posterior.

The posterior ω of each match comes from the residuals of the initial homography, as in
the refit. A coarse success is, by ``cell``, the paper's event: the true point lies in
the cell that the coarse stage chose, where the matcher says which; by ``window``: the
true error is within the fine window on both axes. A random score has an AUPRC
equal to the rate of successes, which stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from semisure.bench.outcome import Cell, Lines, Outcome, Panel, Table
from semisure.bench.studies.homography import rows_of, start_of
from semisure.bench.study import Study, Task
from semisure.geometry.homography import residual, true_residual
from semisure.law.error_laws import error_law
from semisure.metrics import auprc, auroc, expected_calibration_error, reliability
from semisure.refit import weights
from semisure.types import Mask, Matches, PerAxis, PerMatch, Vector

SUCCESSES = ("cell", "window")
# Supplement, fig:posterior_roc_pr: EfficientLoFTR on HPatches.
PAPER_AUROC, PAPER_AUPRC = 0.760, 0.951
MAX_POINTS = 400  # of a curve


def evaluate(task: Task) -> dict[str, Any]:
    """ω of each match, and success by each definition; nothing without a model."""
    matches = task.exported.matches()
    start = start_of(task, matches)
    row: dict[str, Any] = {"matcher": task.matcher, "pair": task.exported.name}
    if start.model is None:
        none = np.zeros(0, dtype=np.bool_)
        definitions = SUCCESSES if matches.cell is not None else ("window",)
        return {**row, "omega": np.zeros(0), **dict.fromkeys(definitions, none)}
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


def curves(score: PerMatch, positive: Mask) -> tuple[Vector, Vector, Vector]:
    """False-positive rate, recall and precision at falling thresholds of the score."""
    order = np.argsort(-score, kind="stable")
    hits = np.cumsum(positive[order])
    last = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)
    if len(last) > MAX_POINTS:
        last = last[np.linspace(0, len(last) - 1, MAX_POINTS).astype(np.int64)]
    true, false = hits[last], last + 1 - hits[last]
    negatives = max(1, int((~positive).sum()))
    return false / negatives, true / max(1, int(positive.sum())), true / (last + 1)


def posterior(study: Study) -> Outcome:
    """Reliability, ROC and precision–recall of ω."""
    by_pair = rows_of(study, [study.options.estimator], evaluate)
    printed: Lines = [
        ["EfficientLoFTR, paper", "cell", PAPER_AUROC, PAPER_AUPRC, *[None] * 4]
    ]
    panels, rows = [], []
    for matcher, label, mine in study.by_matcher(by_pair):
        omega = np.concatenate([row["omega"] for row in mine])
        if not len(omega):
            study.note(f"{matcher}: no pair has an initial model.")
            continue
        definitions = [name for name in SUCCESSES if all(name in row for row in mine)]
        for name in definitions:
            success = np.concatenate([row[name] for row in mine])
            printed.append([label, name, *_numbers(omega, success)])
            panels += _panels(f"{label}, by {name}", omega, success)
        if "cell" not in definitions:
            study.note(f"{matcher} does not say which cells it chose.")
        rows += [_short(row, definitions) for row in mine]
    table = Table(
        name="posterior",
        title="Coarse-success posterior by definition of success (a blind score's "
        "AUPRC: the rate); the paper's: supplement B.2, HPatches",
        head=["", "success", "AUROC", "AUPRC", "rate", "mean ω", "ECE", "matches"],
        rows=printed,
        digits=3,
    )
    return Outcome(tables=[table], rows=rows, figures={"posterior": panels})


def _numbers(omega: PerMatch, success: Mask) -> list[Cell]:
    """AUROC, AUPRC, rate of successes, mean posterior, ECE and matches."""
    ece = expected_calibration_error(omega, success.astype(np.float64))
    areas = auroc(omega, success), auprc(omega, success)
    return [*areas, float(success.mean()), float(omega.mean()), ece, len(omega)]


def _short(row: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    n = len(row["omega"])
    rates = {f"success by {name}": float(row[name].mean()) for name in names if n}
    return {
        "pair": row["pair"],
        "matcher": row["matcher"],
        "matches": n,
        "mean omega": float(row["omega"].mean()) if n else None,
        **rates,
    }


def _panels(name: str, omega: PerMatch, success: Mask) -> list[Panel]:
    x, y, _ = reliability(omega, success.astype(np.float64), 20)
    false, recall, precision = curves(omega, success)
    shown = (
        ("reliability", "posterior ω", "coarse successes", "observed", x, y),
        ("ROC", "false positives", "true positives", "ω", false, recall),
        ("precision and recall", "recall", "precision", "ω", recall, precision),
    )
    return [
        Panel(
            title=f"{name}: {what}",
            xlabel=xlabel,
            ylabel=ylabel,
            lines={line: (x, y)},
            diagonal=xlabel != "recall",
        )
        for what, xlabel, ylabel, line, x, y in shown
    ]
