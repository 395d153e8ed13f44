"""Tables 1, 3 and 4: the corner error of homographies before and after each refit.

All arms of a pair share its matches, its start and its seed. AUC as in
:func:`semisure.metrics.auc`, of the mean corner error at the size the images were
brought to, not rescaled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from semisure.bench import paper
from semisure.bench.export import Exported
from semisure.bench.study import Calibrations, Study
from semisure.bench.tables import Cell, Outcome, Panel, Table
from semisure.estimators import PAPER_ESTIMATORS, estimate_homography
from semisure.estimators.settings import RansacSettings
from semisure.metrics import auc, corner_error
from semisure.refit import REFIT_METHODS, refit_homography

CORE_ARMS = ("core", "core+")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Task:
    """One pair, one estimator, some refits."""

    exported: Exported
    calibrations: Calibrations
    matcher: str
    estimator: str
    settings: RansacSettings
    methods: tuple[str, ...] = CORE_ARMS


def evaluate(task: Task) -> dict[str, Any]:
    """A row of corner errors in px, inf where there is no model."""
    matches = task.exported.matches()
    truth, size = task.exported.H_01, matches.source_size
    start = estimate_homography(matches, task.estimator, task.settings)
    row: dict[str, Any] = {
        "pair": task.exported.name,
        "matcher": task.matcher,
        "estimator": task.estimator,
        "matches": len(matches),
        "inliers": int(start.inliers.sum()),
        "base": corner_error(start.model, truth, size),
    }
    for method in task.methods:
        law = task.calibrations.ours if method == "core+" else task.calibrations.paper
        refit = refit_homography(matches, law, start, method=method)  # type: ignore[arg-type]
        row[method] = corner_error(refit.model, truth, size)
    return row


def rows_of(
    study: Study,
    estimators: Iterable[str],
    methods: tuple[str, ...] = CORE_ARMS,
    function: Callable[[Task], dict[str, Any]] = evaluate,
) -> tuple[list[dict[str, Any]], list[str]]:
    """A row for each matcher, estimator and pair, and where the laws are from."""
    options = study.options
    settings = options.ransac()
    tasks, notes = [], []
    chosen = tuple(estimators)
    for matcher in options.matchers:
        exported = study.exported(matcher)
        laws, said = study.calibrations(matcher, exported)
        notes.append(said)
        for name in chosen:
            tasks += [
                Task(
                    exported=e,
                    calibrations=law,
                    matcher=matcher,
                    estimator=name,
                    settings=settings,
                    methods=methods,
                )
                for e, law in zip(exported, laws, strict=True)
            ]
    return study.map(function, tasks, "Estimating"), notes


def homography(study: Study) -> Outcome:
    """Table 1, by matcher."""
    options = study.options
    rows, notes = rows_of(study, [options.estimator])
    known = paper.HPATCHES if options.protocol == "hpatches" else paper.MTV
    printed: list[list[Cell]] = []
    for matcher in options.matchers:
        mine = [row for row in rows if row["matcher"] == matcher]
        if matcher in known:
            name = f"{paper.MATCHERS[matcher]}, paper"
            pairs = paper.HPATCHES_PAIRS if options.protocol == "hpatches" else None
            printed += _paper_rows(name, known[matcher], pairs)
        printed += _our_rows(matcher, mine, options.thresholds, CORE_ARMS)
    title = (
        f"Homography AUC (%) after {options.estimator}; the paper's: Tab. 1, "
        f"{'HPatches' if options.protocol == 'hpatches' else 'MTV'}"
    )
    return _outcome(study, "homography", title, printed, rows, notes)


def estimators(study: Study) -> Outcome:
    """Table 4, by robust estimator."""
    rows, notes = rows_of(study, PAPER_ESTIMATORS)
    thresholds = study.options.thresholds
    printed: list[list[Cell]] = []
    for name in PAPER_ESTIMATORS:
        if study.options.protocol == "hpatches":
            label = f"{paper.ESTIMATORS[name]}, paper (EfficientLoFTR)"
            numbers = paper.BY_ESTIMATOR[name]
            printed += _paper_rows(label, numbers, paper.HPATCHES_PAIRS)
        for matcher in study.options.matchers:
            mine = [
                r for r in rows if r["estimator"] == name and r["matcher"] == matcher
            ]
            printed += _our_rows(f"{name}, {matcher}", mine, thresholds, CORE_ARMS)
    title = "Homography AUC (%) by robust estimator; the paper's: Tab. 4"
    return _outcome(study, "estimators", title, printed, rows, notes)


def weights(study: Study) -> Outcome:
    """Table 3, by refit weight; core+ is ours and not the paper's."""
    options = study.options
    methods = tuple(m for m in REFIT_METHODS if m != "core+")
    arms = (*methods, "core+")
    rows, notes = rows_of(study, [options.estimator], arms)
    largest = 30 if options.protocol == "hpatches" else 300
    thresholds = (*options.thresholds, largest)
    printed: list[list[Cell]] = []
    for arm in ("base", *(m for m in paper.BY_WEIGHT if m != "base"), "core+"):
        if arm in paper.BY_WEIGHT and options.protocol == "hpatches":
            numbers = paper.BY_WEIGHT[arm]
            pairs = paper.HPATCHES_PAIRS
            printed.append(["EfficientLoFTR, paper", arm, *numbers, pairs])
        for matcher in options.matchers:
            mine = [row for row in rows if row["matcher"] == matcher]
            printed.append(_our_row(matcher, arm, mine, thresholds))
    title = f"Homography AUC (%) by refit weight, {options.estimator}; paper: Tab. 3"
    return _outcome(study, "weights", title, printed, rows, notes, thresholds)


def _paper_rows(
    name: str, numbers: tuple[paper.Row, paper.Row], pairs: int | None
) -> list[list[Cell]]:
    base, core = numbers
    return [[name, "base", *base, pairs], [name, "core", *core, pairs]]


def _our_rows(
    name: str, rows: Sequence[dict[str, Any]], at: Sequence[int], arms: Sequence[str]
) -> list[list[Cell]]:
    return [_our_row(name, arm, rows, at) for arm in ("base", *arms)]


def _our_row(
    name: str, arm: str, rows: Sequence[dict[str, Any]], at: Sequence[int]
) -> list[Cell]:
    areas = auc([row[arm] for row in rows], at)
    return [name, arm, *(100.0 * area for area in areas), len(rows)]


def _outcome(
    study: Study,
    name: str,
    title: str,
    printed: list[list[Cell]],
    rows: list[dict[str, Any]],
    notes: list[str],
    thresholds: Sequence[int] | None = None,
) -> Outcome:
    at = thresholds or study.options.thresholds
    head = ["", "arm", *(f"@{t}px" for t in at), "pairs"]
    table = Table(name=name, title=title, head=head, rows=printed)
    return Outcome(
        tables=[table],
        rows=rows,
        figures={name: _panels(printed, at)},
        notes=notes,
    )


def _panels(printed: list[list[Cell]], at: Sequence[int]) -> list[Panel]:
    """AUC over the thresholds, a panel for each name, a line for each arm."""
    names = list(dict.fromkeys(str(row[0]) for row in printed))
    x = np.array(at, dtype=np.float64)
    return [
        Panel(
            title=name,
            xlabel="threshold, px",
            ylabel="AUC, %",
            xscale="log",
            lines={
                str(row[1]): (x, np.array(row[2 : 2 + len(at)], dtype=np.float64))
                for row in printed
                if row[0] == name
            },
        )
        for name in names
    ]
