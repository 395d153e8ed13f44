"""Supplement B.2: is the coarse-success posterior calibrated, and does it separate.

The posterior ω of each match comes from the residuals of the initial homography, as in
the refit. A coarse success is a match whose true error is within the fine window on
both axes: the window around the chosen cell then held the true point. The matcher's
cell itself is not kept, so half the window is shown as a stricter reading beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from semisure.bench import paper
from semisure.bench.coarse_successes import evaluate
from semisure.bench.outcome import Cell, Outcome, Panel, Table, where
from semisure.bench.pair_rows import rows_of
from semisure.bench.study import Study
from semisure.metrics import auprc, auroc, reliability
from semisure.types import Mask, PerMatch, Vector

WINDOWS = {"window": 1.0, "half window": 0.5}
MAX_POINTS = 400  # of a curve


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
    options = study.options
    by_pair, notes = rows_of(study, [options.estimator], function=evaluate, kept=False)
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
        mine = where(by_pair, matcher=matcher)
        omega = np.concatenate([row["omega"] for row in mine])
        windows = np.concatenate([row["windows"] for row in mine])
        if not len(omega):
            notes.append(f"{matcher}: no pair has an initial model.")
            continue
        for name, width in WINDOWS.items():
            printed.append([matcher, name, *_numbers(omega, windows <= width)])
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


def _numbers(omega: PerMatch, success: Mask) -> list[Cell]:
    """AUROC, AUPRC, rate of successes, mean posterior, ECE and matches."""
    x, y, count = reliability(omega, success.astype(np.float64))
    gap = float((count * np.abs(x - y)).sum() / count.sum())
    areas = auroc(omega, success), auprc(omega, success)
    return [*areas, float(success.mean()), float(omega.mean()), gap, len(omega)]


def _short(row: dict[str, Any]) -> dict[str, Any]:
    n = len(row["omega"])
    return {
        "pair": row["pair"],
        "matcher": row["matcher"],
        "matches": n,
        "mean omega": float(row["omega"].mean()) if n else None,
        "success rate": float((row["windows"] <= 1.0).mean()) if n else None,
    }


def _panels(matcher: str, omega: PerMatch, success: Mask) -> list[Panel]:
    x, y, _ = reliability(omega, success.astype(np.float64), 20)
    false, recall, precision = curves(omega, success)
    shown = (
        ("reliability", "posterior ω", "coarse successes", "observed", x, y),
        ("ROC", "false positives", "true positives", "ω", false, recall),
        ("precision and recall", "recall", "precision", "ω", recall, precision),
    )
    return [
        Panel(
            title=f"{matcher}: {what}",
            xlabel=xlabel,
            ylabel=ylabel,
            lines={line: (x, y)},
            diagonal=xlabel != "recall",
        )
        for what, xlabel, ylabel, line, x, y in shown
    ]
