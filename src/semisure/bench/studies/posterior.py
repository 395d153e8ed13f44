"""Supplement B.2: is the coarse-success posterior calibrated, and does it separate.

The posterior ω of each match comes from the residuals of the initial homography, as in
the refit. :mod:`semisure.bench.coarse_successes` has the two definitions of a coarse
success: by the exact cell, which is the paper's, and by the fine window, easier. A
score that knows nothing has an AUPRC equal to the rate of successes, which stands
beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from semisure.bench import paper
from semisure.bench.coarse_successes import SUCCESSES, evaluate
from semisure.bench.outcome import Cell, Outcome, Panel, Table, where
from semisure.bench.pair_rows import rows_of
from semisure.bench.study import Study
from semisure.metrics import auprc, auroc, reliability
from semisure.types import Mask, PerMatch, Vector

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
        if not len(omega):
            notes.append(f"{matcher}: no pair has an initial model.")
            continue
        known = [name for name in SUCCESSES if all(name in row for row in mine)]
        for name in known:
            success = np.concatenate([row[name] for row in mine])
            label = study.label(matcher)
            printed.append([label, name, *_numbers(omega, success)])
            panels += _panels(f"{label}, by {name}", omega, success)
        if "cell" not in known:
            notes.append(f"{matcher} does not say which cells it chose.")
        rows += [_short(row, known) for row in mine]
    table = Table(
        name="posterior",
        title="Coarse-success posterior by definition of success (a blind score's "
        "AUPRC: the rate); the paper's: supplement B.2, HPatches",
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


def _short(row: dict[str, Any], known: Sequence[str]) -> dict[str, Any]:
    n = len(row["omega"])
    rates = {f"success by {name}": float(row[name].mean()) for name in known if n}
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
