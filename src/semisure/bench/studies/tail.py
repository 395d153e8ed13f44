"""Figure 4: the tail mass P(|r_x| > 8 px) that the law gives to harder data.

The mass is a mean over all matches. Observed beside it is the share of those whose true
error is known: with depth not all are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure.bench.exported import Exported, with_truth
from semisure.bench.outcome import Cell, Outcome, Panel, Table, where
from semisure.bench.study import Study
from semisure.io.cache import Row
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.types import Calibration

TAIL_PX = 8.0


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One pair and the law of its matches."""

    matcher: str
    data: str
    exported: Exported
    calibration: Calibration


def evaluate(task: Task) -> Row:
    """Predicted and observed tail of a pair, as means over its matches."""
    matches = task.exported.matches()
    _, residual = with_truth(task.exported)
    row: Row = {
        "matcher": task.matcher,
        "data": task.data,
        "pair": task.exported.name,
        "matches": len(matches),
        "known": len(residual),
    }
    if not len(matches):
        return {**row, "predicted": None, "observed": None}
    law = error_law(matches, task.calibration)
    predicted = mixture.prob_beyond(law, TAIL_PX)[:, 0]
    observed = np.abs(residual[:, 0]) > TAIL_PX
    return {
        **row,
        "predicted": float(predicted.mean()),
        "observed": float(observed.mean()) if len(observed) else None,
    }


def tail(study: Study) -> Outcome:
    """By matcher and data set, all matches of a set together."""
    tasks, notes = [], []
    for matcher in study.options.matchers:
        folders = [study.on([root]) for root in study.options.data]
        matched = [part.exported(matcher) for part in folders]
        for part, exported in zip(folders, matched, strict=True):
            calibrations, remark = part.calibrations(matcher, exported)
            tasks += [
                Task(matcher, part.options.data[0].name, pair, both.paper)
                for pair, both in zip(exported, calibrations, strict=True)
            ]
            if remark not in notes:
                notes.append(remark)
    rows = study.rows(evaluate, tasks, "Tails")
    printed: list[list[Cell]] = []
    lines = {}
    names = list(dict.fromkeys(root.name for root in study.options.data))
    for matcher in study.options.matchers:
        label = study.label(matcher)
        totals = [_total(rows, matcher, name) for name in names]
        printed += [[label, n, *t] for n, t in zip(names, totals, strict=True)]
        lines[f"{label}, predicted"] = (names, np.array([t[0] for t in totals]))
        lines[f"{label}, observed"] = (names, np.array([t[1] for t in totals]))
    table = Table(
        name="tail",
        title="P(|r_x| > 8 px), mean over all matches, and how often it is so where "
        "the truth is known; the paper's: Fig. 4, no numbers",
        head=["", "data", "predicted", "observed", "pairs", "matches", "known"],
        rows=printed,
        digits=4,
    )
    panel = Panel(title="Tail mass", xlabel="data", ylabel="P(|r_x| > 8)", lines=lines)
    return Outcome(tables=[table], rows=rows, figures={"tail": [panel]}, notes=notes)


def _total(
    rows: list[Row], matcher: str, data: str
) -> tuple[float, float, int, int, int]:
    """Tail predicted and observed, pairs, matches, and those with a known error."""
    mine = where(rows, matcher=matcher, data=data)
    predicted, matches = _mean(mine, "predicted", "matches")
    observed, known = _mean(mine, "observed", "known")
    return predicted, observed, len(mine), matches, known


def _mean(rows: list[Row], name: str, count: str) -> tuple[float, int]:
    """The mean over all matches that count, and their number."""
    full = [row for row in rows if row[count]]
    total = sum(row[count] for row in full)
    if not total:
        return float("nan"), 0
    return sum(row[count] * row[name] for row in full) / total, total
