"""Supplement B.1: what the refit makes of better and worse initial homographies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from semisure.bench import paper
from semisure.bench.arms import CORE_ARMS
from semisure.bench.corner_errors import evaluate_with_inliers
from semisure.bench.outcome import Cell, Outcome, Panel, Table, where
from semisure.bench.pair_rows import rows_of
from semisure.bench.study import Study

BINS_PX: dict[str, tuple[float, float]] = {
    "<1": (0, 1),
    "1-3": (1, 3),
    "3-10": (3, 10),
    "10-30": (10, 30),
    "30-100": (30, 100),
    "100-300": (100, 300),
    ">=300": (300, np.inf),
}


def binned(rows: Sequence[dict[str, Any]], method: str) -> list[list[float]]:
    """By bin: pairs, median reduction, % improved, median change in inliers, median %.

    Pairs without an initial model are in no bin: there is nothing to refit.
    """
    finite = [row for row in rows if np.isfinite(row["base"])]
    return [
        _bin([row for row in finite if low <= row["base"] < high], method)
        for low, high in BINS_PX.values()
    ]


def _bin(rows: Sequence[dict[str, Any]], method: str) -> list[float]:
    if not rows:
        return [0.0, *[float("nan")] * 4]
    base, after = (np.array([row[name] for row in rows]) for name in ("base", method))
    gained = [row[f"{method} inliers"] - row["base inliers"] for row in rows]
    relative = np.median((base - after) / base)
    return [
        float(len(rows)),
        float(np.median(base - after)),
        float(100.0 * (after < base).mean()),
        float(np.median(gained)),
        float(100.0 * relative),
    ]


def initial(study: Study) -> Outcome:
    """The table by bins of initial error, and its figure over matchers."""
    options = study.options
    rows, notes = rows_of(study, [options.estimator], function=evaluate_with_inliers)
    printed: list[list[Cell]] = [
        ["EfficientLoFTR, paper", "core", name, int(row[0]), *row[1:], None]
        for name, row in paper.BY_INITIAL.items()
    ]
    reduction, improved, counts = {}, {}, {}
    for matcher in options.matchers:
        mine = where(rows, matcher=matcher)
        for method in CORE_ARMS:
            bins = binned(mine, method)
            label = f"{study.label(matcher)}, {method}"
            for name, numbers in zip(BINS_PX, bins, strict=True):
                cells = int(numbers[0]), *numbers[1:]
                printed.append([study.label(matcher), method, name, *cells])
            reduction[label] = (list(BINS_PX), np.array([n[4] for n in bins]))
            improved[label] = (list(BINS_PX), np.array([n[2] for n in bins]))
            counts[label] = np.array([n[0] for n in bins])
        lost = sum(not np.isfinite(row["base"]) for row in mine)
        notes.append(f"{matcher}: {lost} of {len(mine)} pairs have no initial model.")
    head = ["", "arm", "e0, px", "pairs", "Δe, px", "improved, %", "Δinliers", "Δe, %"]
    table = Table(
        name="initial",
        title=f"By corner error e0 of the start ({options.estimator}): medians; the "
        "paper's: supplement, HPatches",
        head=head,
        rows=printed,
    )
    shown = {"Median relative reduction": reduction, "Pairs improved": improved}
    panels = [
        Panel(
            title=f"{title}; areas: pairs",
            xlabel="initial corner error, px",
            ylabel="%",
            lines=lines,
            counts=counts,
        )
        for title, lines in shown.items()
    ]
    return Outcome(tables=[table], rows=rows, figures={"initial": panels}, notes=notes)
