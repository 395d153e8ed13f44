"""Supplement B.2: is the coarse-success posterior honest, and does it discriminate.

The posterior ω of each match comes from the residuals of the initial homography, as in
the refit. A coarse success is a match whose true error is within the fine window on
both axes: the window around the chosen cell then held the true point. The matcher's
cell itself is not kept, so half the window is shown as a stricter reading beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semisure.bench import paper
from semisure.bench.outcome import Cell, Outcome, Panel, Table
from semisure.bench.studies.arms import Task, rows_of
from semisure.bench.study import Study
from semisure.error_laws import error_law
from semisure.estimators import estimate_homography
from semisure.geometry.homography import residual
from semisure.metrics import auprc, auroc, reliability
from semisure.refit import weights
from semisure.types import BoolArray, FloatArray

WINDOWS = {"window": 1.0, "half window": 0.5}
MAX_POINTS = 400  # of a curve


def evaluate(task: Task) -> dict[str, Any]:
    """ω of each match and its true error in fine windows; none without a model."""
    matches = task.exported.matches()
    start = estimate_homography(matches, task.estimator, task.settings)
    row: dict[str, Any] = {"matcher": task.matcher, "pair": task.exported.name}
    if start.model is None:
        return {**row, "omega": np.zeros(0), "windows": np.zeros(0)}
    at_start = residual(start.model, matches)
    true = residual(task.exported.H_01, matches)
    known = np.isfinite(at_start).all(axis=1) & np.isfinite(true).all(axis=1)
    omega = weights.core(error_law(matches, task.calibrations.paper), at_start)
    windows = np.abs(true).max(axis=1) / matches.fine_window
    return {**row, "omega": omega[known], "windows": windows[known]}


def curves(
    score: FloatArray, positive: BoolArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
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
    options = study.options
    found, notes = rows_of(study, [options.estimator], function=evaluate, kept=False)
    printed: list[list[Cell]] = [
        [
            "EfficientLoFTR, paper",
            "cell",
            paper.POSTERIOR_AUROC,
            paper.POSTERIOR_AUPRC,
            *[None] * 4,
        ]
    ]
    panels, rows = [], []
    for matcher in options.matchers:
        mine = [row for row in found if row["matcher"] == matcher]
        omega = np.concatenate([row["omega"] for row in mine])
        windows = np.concatenate([row["windows"] for row in mine])
        if not len(omega):
            notes.append(f"{matcher}: no pair has an initial model.")
            continue
        for name, width in WINDOWS.items():
            success = windows <= width
            x, y, count = reliability(omega, success.astype(np.float64))
            gap = float((count * np.abs(x - y)).sum() / count.sum())
            printed.append(
                [
                    matcher,
                    name,
                    auroc(omega, success),
                    auprc(omega, success),
                    float(success.mean()),
                    float(omega.mean()),
                    gap,
                    len(omega),
                ]
            )
        panels += _panels(matcher, omega, windows <= 1.0)
        rows += [_short(row) for row in mine]
    table = Table(
        name="posterior",
        title="Coarse-success posterior; the paper's: supplement, HPatches",
        head=["", "success", "AUROC", "AUPRC", "rate", "mean ω", "ECE", "matches"],
        rows=printed,
        digits=3,
    )
    return Outcome(
        tables=[table], rows=rows, figures={"posterior": panels}, notes=notes
    )


def _short(row: dict[str, Any]) -> dict[str, Any]:
    n = len(row["omega"])
    return {
        "pair": row["pair"],
        "matcher": row["matcher"],
        "matches": n,
        "mean omega": float(row["omega"].mean()) if n else None,
        "success rate": float((row["windows"] <= 1.0).mean()) if n else None,
    }


def _panels(matcher: str, omega: FloatArray, success: BoolArray) -> list[Panel]:
    x, y, _ = reliability(omega, success.astype(np.float64), 20)
    false, recall, precision = curves(omega, success)
    return [
        Panel(
            title=f"{matcher}: reliability",
            xlabel="posterior ω",
            ylabel="coarse successes",
            lines={"observed": (x, y)},
            diagonal=True,
        ),
        Panel(
            title=f"{matcher}: ROC",
            xlabel="false positives",
            ylabel="true positives",
            lines={"ω": (false, recall)},
            diagonal=True,
        ),
        Panel(
            title=f"{matcher}: precision and recall",
            xlabel="recall",
            ylabel="precision",
            lines={"ω": (recall, precision)},
        ),
    ]
