"""Supplement B.1: what the refit makes of better and worse initial homographies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from semisure.bench import paper
from semisure.bench.outcome import Cell, Outcome, Panel, Table
from semisure.bench.studies.arms import CORE_ARMS, Task, rows_of
from semisure.bench.study import Study
from semisure.estimators import estimate_homography
from semisure.geometry.homography import project
from semisure.metrics import corner_error
from semisure.refit import refit_homography
from semisure.types import FloatArray, Matches

BINS_PX: dict[str, tuple[float, float]] = {
    "<1": (0, 1),
    "1-3": (1, 3),
    "3-10": (3, 10),
    "10-30": (10, 30),
    "30-100": (30, 100),
    "100-300": (100, 300),
    ">=300": (300, np.inf),
}


def inliers(H: FloatArray | None, matches: Matches, threshold_px: float) -> int:
    """Matches within `threshold_px` of the model in image 1."""
    if H is None:
        return 0
    distance = np.linalg.norm(matches.target - project(H, matches.source), axis=1)
    return int((distance <= threshold_px).sum())


def evaluate(task: Task) -> dict[str, Any]:
    """A row of corner errors and inliers before and after each refit."""
    matches, truth = task.exported.matches(), task.exported.H_01
    size, limit = matches.source_size, task.settings.threshold_px
    start = estimate_homography(matches, task.estimator, task.settings)
    row: dict[str, Any] = {
        "pair": task.exported.name,
        "matcher": task.matcher,
        "base": corner_error(start.model, truth, size),
        "base inliers": inliers(start.model, matches, limit),
    }
    for method in task.methods:
        law = task.calibrations.ours if method == "core+" else task.calibrations.paper
        H = refit_homography(matches, law, start, method=method).model  # type: ignore[arg-type]
        row[method] = corner_error(H, truth, size)
        row[f"{method} inliers"] = inliers(H, matches, limit)
    return row


def binned(rows: Sequence[dict[str, Any]], method: str) -> list[list[float]]:
    """By bin: pairs, median reduction, % improved, median change in inliers, median %.

    Pairs without an initial model are in no bin: there is nothing to refit.
    """
    found = []
    for low, high in BINS_PX.values():
        mine = [r for r in rows if low <= r["base"] < high and np.isfinite(r["base"])]
        if not mine:
            found.append([0.0, *[float("nan")] * 4])
            continue
        base, after = (np.array([r[name] for r in mine]) for name in ("base", method))
        gained = [r[f"{method} inliers"] - r["base inliers"] for r in mine]
        relative = np.median((base - after) / base)
        found.append(
            [
                float(len(mine)),
                float(np.median(base - after)),
                float(100.0 * (after < base).mean()),
                float(np.median(gained)),
                float(100.0 * relative),
            ]
        )
    return found


def initial(study: Study) -> Outcome:
    """The table by bins of initial error, and its figure over matchers."""
    options = study.options
    rows, notes = rows_of(study, [options.estimator], function=evaluate)
    printed: list[list[Cell]] = [
        ["EfficientLoFTR, paper", "core", name, int(row[0]), *row[1:], None]
        for name, row in paper.BY_INITIAL.items()
    ]
    reduction, improved = {}, {}
    for matcher in options.matchers:
        mine = [row for row in rows if row["matcher"] == matcher]
        for method in CORE_ARMS:
            found = binned(mine, method)
            label = f"{matcher}, {method}"
            for name, numbers in zip(BINS_PX, found, strict=True):
                printed.append([matcher, method, name, int(numbers[0]), *numbers[1:]])
            reduction[label] = (list(BINS_PX), np.array([n[4] for n in found]))
            improved[label] = (list(BINS_PX), np.array([n[2] for n in found]))
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
    panels = [
        Panel(
            title="Median relative reduction",
            xlabel="initial corner error, px",
            ylabel="%",
            lines=reduction,
        ),
        Panel(
            title="Pairs improved",
            xlabel="initial corner error, px",
            ylabel="%",
            lines=improved,
        ),
    ]
    return Outcome(tables=[table], rows=rows, figures={"initial": panels}, notes=notes)
