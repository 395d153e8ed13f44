"""Figure 4: the tail mass P(|r_x| > 8 px) that the law gives to harder data.

The mass is a mean over all matches. Observed beside it is the share of those whose true
error is known: with depth not all are.
"""

from __future__ import annotations

import numpy as np

from semisure.bench.data import parts_of
from semisure.bench.exported import with_truth
from semisure.bench.outcome import Lines, Outcome, Panel, Table, where
from semisure.bench.study import Study, Task
from semisure.io.cache import Row
from semisure.law import mixture
from semisure.law.error_laws import error_law

TAIL_PX = 8.0


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
    law = error_law(matches, task.calibrations.paper)
    predicted = mixture.prob_beyond(law, TAIL_PX)[:, 0]
    observed = np.abs(residual[:, 0]) > TAIL_PX
    return {
        **row,
        "predicted": float(predicted.mean()),
        "observed": float(observed.mean()) if len(observed) else None,
    }


def tail(study: Study) -> Outcome:
    """By matcher and data set, all matches of a set together."""
    tasks: list[Task] = []
    for matcher in study.options.matchers:
        for root in study.options.data:
            part = study.on([root])
            exported = part.exported(matcher)
            parts = parts_of([root.name] * len(exported), exported)
            tasks += part.tasks(matcher, exported, parts)
    rows = study.map(evaluate, tasks, "Tails")
    printed: Lines = []
    lines = {}
    names = list(dict.fromkeys(task.data for task in tasks))
    for matcher, label, mine in study.by_matcher(rows):
        totals = [total(where(mine, data=name)) for name in names]
        printed += [[label, n, *t] for n, t in zip(names, totals, strict=True)]
        lines[f"{matcher}, predicted"] = (names, np.array([t[0] for t in totals]))
        lines[f"{matcher}, observed"] = (names, np.array([t[1] for t in totals]))
    table = Table(
        name="tail",
        title="P(|r_x| > 8 px), mean over all matches, and how often it is so where "
        "the truth is known; the paper's: Fig. 4, no numbers",
        head=["", "data", "predicted", "observed", "pairs", "matches", "known"],
        rows=printed,
        digits=4,
    )
    panel = Panel(title="Tail mass", xlabel="data", ylabel="P(|r_x| > 8)", lines=lines)
    return Outcome(tables=[table], rows=rows, figures={"tail": [panel]})


def total(rows: list[Row]) -> tuple[float, float, int, int, int]:
    """Tail predicted and observed, pairs, matches, and those with a known error."""
    predicted, matches = _mean(rows, "predicted", "matches")
    observed, count = _mean(rows, "observed", "known")
    return predicted, observed, len(rows), matches, count


def _mean(rows: list[Row], name: str, count: str) -> tuple[float, int]:
    """The mean over all matches that count, and their number."""
    full = [row for row in rows if row[count]]
    counted = sum(row[count] for row in full)
    if not counted:
        return float("nan"), 0
    return sum(row[count] * row[name] for row in full) / counted, counted
