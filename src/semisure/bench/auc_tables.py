"""Tables of AUC by arm, of what refits gain, and AUC over the thresholds as panels.

AUC as in :func:`semisure.metrics.auc`, of the corner errors that
:mod:`semisure.bench.corner_errors` measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from semisure.bench import paper
from semisure.bench.arms import CORE_ARMS
from semisure.bench.outcome import Cell, Outcome, Panel, Table
from semisure.metrics import auc, auc_gain

Rows = Sequence[dict[str, Any]]
Lines = list[list[Cell]]


def paper_rows(
    name: str, numbers: tuple[paper.Row, paper.Row], pairs: int | None
) -> Lines:
    """The paper's AUC, base and core."""
    base, core = numbers
    return [[name, "base", *base, pairs], [name, "core", *core, pairs]]


def our_rows(name: str, rows: Rows, at: Sequence[int]) -> Lines:
    """Our AUC: base, core and core+."""
    return [our_row(name, arm, rows, at) for arm in ("base", *CORE_ARMS)]


def our_row(name: str, arm: str, rows: Rows, at: Sequence[int]) -> list[Cell]:
    """AUC (%) of one arm at each threshold."""
    areas = auc([row[arm] for row in rows], at)
    return [name, arm, *(100.0 * area for area in areas), len(rows)]


def gain_rows(name: str, rows: Rows, at: Sequence[int], seed: int) -> Lines:
    """What the refits gain over the base, with standard errors over the pairs."""
    lines: Lines = []
    for arm in CORE_ARMS:
        before, after = ([row[key] for row in rows] for key in ("base", arm))
        gain, spread = auc_gain(before, after, at, seed)
        shown = [
            f"{100 * g:+.1f} ± {100 * s:.1f}" for g, s in zip(gain, spread, strict=True)
        ]
        lines.append([name, arm, *shown, len(rows)])
    return lines


def auc_outcome(
    name: str,
    title: str,
    at: Sequence[int],
    printed: Lines,
    rows: Rows,
    notes: Sequence[str],
    gained: Lines | None = None,
) -> Outcome:
    """The table called `name`, that of the gains if there are any, and a figure."""
    head = ["", "arm", *(f"@{t}px" for t in at), "pairs"]
    tables = [Table(name=name, title=title, head=head, rows=printed)]
    if gained:
        title = (
            f"{name}: gain of AUC (%) over base ± its standard error, pairs resampled"
        )
        tables.append(Table(name=f"{name}_gain", title=title, head=head, rows=gained))
    figures = {name: auc_panels(printed, at, "threshold, px")}
    return Outcome(tables=tables, rows=rows, figures=figures, notes=notes)


def auc_panels(
    printed: Lines, at: Sequence[int], xlabel: str, arms: Sequence[str] = ()
) -> list[Panel]:
    """AUC over the thresholds, a panel for each name, a line for each arm.

    Where `arms` are given, an arm that a panel lacks has an empty line there, so that
    colours agree between panels.
    """
    x = np.array(at, dtype=np.float64)
    panels = []
    for name in dict.fromkeys(str(row[0]) for row in printed):
        mine = {str(row[1]): row[2 : 2 + len(x)] for row in printed if row[0] == name}
        lines = {
            arm: (x, np.array(mine.get(arm, [None] * len(x)), dtype=np.float64))
            for arm in arms or mine
        }
        panels.append(
            Panel(title=name, xlabel=xlabel, ylabel="AUC, %", xscale="log", lines=lines)
        )
    return panels
