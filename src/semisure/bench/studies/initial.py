"""Supplement B.1: the refit by quality of the initial homography."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from semisure.bench.calibrations import CORE_ARMS
from semisure.bench.outcome import Lines, Outcome, Panel, Table
from semisure.bench.studies.homography import refitted, rows_of, start_of
from semisure.bench.study import Study, Task
from semisure.geometry.homography import project
from semisure.io.cache import Row
from semisure.metrics import corner_error
from semisure.types import Matches, Matrix3

BINS_PX: dict[str, tuple[float, float]] = {
    "<1": (0, 1),
    "1-3": (1, 3),
    "3-10": (3, 10),
    "10-30": (10, 30),
    "30-100": (30, 100),
    "100-300": (100, 300),
    ">=300": (300, np.inf),
}
# Tab. of the supplement (tab:initial_geometry_quality): EfficientLoFTR, RANSAC,
# HPatches, by the corner error of the start; pairs, median reduction in px, share of
# pairs improved in percent, median change in inliers.
BY_INITIAL: dict[str, tuple[float, ...]] = {
    "<1": (261, -0.00, 47.9, 5),
    "1-3": (144, 0.42, 85.4, 78),
    "3-10": (96, 1.65, 87.5, 88.5),
    "10-30": (18, 4.26, 94.4, 39),
    "30-100": (6, 6.61, 66.7, 33),
    "100-300": (3, 57.7, 100.0, 28),
    ">=300": (12, 735.6, 58.3, 0),
}


def evaluate(task: Task) -> Row:
    """A row of corner errors and inliers before and after each refit."""
    matches = task.exported.matches()
    truth, size = task.exported.H_01, matches.source_size
    start = start_of(task, matches)
    row: Row = {"pair": task.exported.name, "matcher": task.matcher}
    models = {"base": start.model, **refitted(task, matches, start)}
    for arm, H in models.items():
        row[arm] = corner_error(H, truth, size)
        row[f"{arm} inliers"] = inliers(H, matches, task.settings.threshold)
    return row


def inliers(H: Matrix3 | None, matches: Matches, threshold_px: float) -> int:
    """Matches within `threshold_px` of the model in image 1."""
    if H is None:
        return 0
    distance = np.linalg.norm(matches.target - project(H, matches.source), axis=1)
    return int((distance <= threshold_px).sum())


def binned(rows: Sequence[Row], method: str) -> list[list[float]]:
    """By bin: pairs, median reduction, % improved, median change in inliers, median %.

    Pairs without an initial model are in no bin: there is nothing to refit.
    """
    finite = [row for row in rows if np.isfinite(row["base"])]
    return [
        _bin([row for row in finite if low <= row["base"] < high], method)
        for low, high in BINS_PX.values()
    ]


def _bin(rows: Sequence[Row], method: str) -> list[float]:
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
    rows = rows_of(study, [options.estimator], evaluate)
    printed: Lines = [
        ["EfficientLoFTR, paper", "core", name, int(row[0]), *row[1:], None]
        for name, row in BY_INITIAL.items()
    ]
    names = list(BINS_PX)
    reduction, improved, counts = {}, {}, {}
    for matcher, label, mine in study.by_matcher(rows):
        for method in CORE_ARMS:
            bins = binned(mine, method)
            for name, (pairs, *numbers) in zip(names, bins, strict=True):
                printed.append([label, method, name, int(pairs), *numbers])
            count, _, better, _, relative = np.array(bins).T
            line = f"{label}, {method}"
            reduction[line], improved[line] = (names, relative), (names, better)
            counts[line] = count
        lost = sum(not np.isfinite(row["base"]) for row in mine)
        study.note(f"{matcher}: {lost} of {len(mine)} pairs have no initial model.")
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
    return Outcome(tables=[table], rows=rows, figures={"initial": panels})
