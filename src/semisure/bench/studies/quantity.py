"""Supplement B.3: how many calibration pairs it takes, and how long the fit lasts.

Sequences are split in two halves. Subsets of one half are fitted and judged on the
other, by NLL and by the AUC at 3 px after the paper's refit, and the other way round;
numbers are means over both halves and the draws. Seconds are of one thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from semisure.bench import paper
from semisure.bench.cross_validation import halves, inside, outside
from semisure.bench.exported import Exported
from semisure.bench.outcome import Cell, Outcome, Panel, Table, where
from semisure.bench.study import Study
from semisure.bench.subset_fits import AUC_PX, Task, evaluate
from semisure.errors import InputError
from semisure.types import Vector

DRAWS = 5
MIN_MATCHES = 16  # of a pair; one without matches teaches nothing
POWELL_PAIRS = 50  # beyond, the paper's optimiser takes minutes for each fit
_NUMBERS = ("matches", "fit nll", "seconds", "held-out nll", "auc", "powell seconds")
_DRAWN = {
    "fit nll": "NLL of the fit",
    "seconds": "seconds, Newton",
    "held-out nll": "NLL held out",
    "auc": f"AUC at {AUC_PX} px, %",
}
Lines = dict[str, tuple[Vector, Vector]]  # by matcher


def quantity(study: Study) -> Outcome:
    """Means over draws for each size of the calibration set."""
    tasks = [task for m in study.options.matchers for task in _tasks(study, m)]
    if not tasks:
        raise InputError(
            "Each half of the data must hold at least 2 pairs with matches; give pairs "
            "of more sequences."
        )
    rows = study.map(evaluate, tasks, "Fitting subsets")
    printed: list[list[Cell]] = []
    lines: dict[str, Lines] = {name: {} for name in _NUMBERS}
    for matcher in study.options.matchers:
        mine = where(rows, matcher=matcher)
        counts = sorted({row["pairs"] for row in mine})
        x = np.array(counts, dtype=np.float64)
        draws = [[row for row in mine if row["pairs"] == count] for count in counts]
        means = {name: [_mean(some, name) for some in draws] for name in _NUMBERS}
        for k, count in enumerate(counts):
            numbers = (means[name][k] for name in _NUMBERS)
            printed.append([matcher, count, *numbers, len(draws[k])])
        for name in _NUMBERS:
            lines[name][matcher] = (x, np.array(means[name]))
    head = ["", "N pairs", "matches", "NLL fitted", "fit, s", "NLL held out"]
    table = Table(
        name="quantity",
        title="Calibration data quantity; the paper's: supplement B.3, Powell "
        f"{paper.POWELL_SECONDS_200_PAIRS} s on 200 pairs",
        head=[*head, f"AUC@{AUC_PX}px", "Powell, s", "draws"],
        rows=printed,
    )
    note = (
        "Fitted on subsets of one half of the sequences, judged on the other half, and "
        f"the other way round; seed {study.options.seed}, Powell once for each half."
    )
    panels = [_panel(title, lines[name]) for name, title in _DRAWN.items()]
    return Outcome(
        tables=[table], rows=rows, figures={"quantity": panels}, notes=[note]
    )


def _tasks(study: Study, matcher: str) -> list[Task]:
    exported = [e for e in study.exported(matcher) if len(e.matches()) >= MIN_MATCHES]
    half = halves([e.group for e in exported])
    least = min((half == 0).sum(), (half == 1).sum())
    options, tasks = study.options, []
    for k in (0, 1):
        for count in (n for n in paper.QUANTITIES if n <= least):
            for draw in range(DRAWS):
                rng = np.random.default_rng([options.seed, k, count, draw])
                task = Task(
                    matcher=matcher,
                    chosen=_drawn(inside(exported, half, k), count, rng),
                    held_out=outside(exported, half, k),
                    estimator=options.estimator,
                    settings=options.ransac(),
                    powell=draw == 0 and count <= POWELL_PAIRS,
                )
                tasks.append(task)
    return tasks


def _drawn(
    pairs: Sequence[Exported], count: int, rng: np.random.Generator
) -> list[Exported]:
    """`count` pairs at random, in their order."""
    return [pairs[i] for i in sorted(rng.choice(len(pairs), count, replace=False))]


def _mean(rows: Sequence[dict[str, Any]], name: str) -> float:
    values = [row[name] for row in rows if name in row]
    return float(np.mean(values)) if values else float("nan")


def _panel(title: str, lines: Lines) -> Panel:
    return Panel(
        title=title,
        xlabel="calibration pairs",
        ylabel=title,
        xscale="log",
        lines=lines,
    )
