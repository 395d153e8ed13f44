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
from semisure.bench.match_cache import Exported
from semisure.bench.options import THRESHOLDS
from semisure.bench.outcome import Cell, Outcome, Panel, Table
from semisure.bench.study import Calibrations, Study
from semisure.estimators import PAPER_ESTIMATORS, estimate_homography
from semisure.estimators.settings import RansacSettings
from semisure.metrics import auc, auc_gain, corner_error
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
    *,
    kept: bool = True,
) -> tuple[list[dict[str, Any]], list[str]]:
    """A row for each matcher, estimator and pair, and where the laws are from.

    Rows that hold arrays or times are not `kept` for another run.
    """
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
    over = study.rows if kept else study.map
    return over(function, tasks, "Estimating"), notes


def homography(study: Study) -> Outcome:
    """Table 1, by matcher, for each protocol that the data ask for."""
    parts = {name: _homography(part) for name, part in study.by_protocol().items()}
    return Outcome(
        tables=[table for part in parts.values() for table in part.tables],
        rows=[
            {"protocol": name, **row}
            for name, part in parts.items()
            for row in part.rows
        ],
        figures={k: v for part in parts.values() for k, v in part.figures.items()},
        notes=list(dict.fromkeys(n for part in parts.values() for n in part.notes)),
    )


def _homography(study: Study) -> Outcome:
    options, protocol = study.options, study.protocol
    rows, notes = rows_of(study, [options.estimator])
    known = paper.HPATCHES if protocol == "hpatches" else paper.MTV
    printed: list[list[Cell]] = []
    gained: list[list[Cell]] = []
    for matcher in options.matchers:
        mine = [row for row in rows if row["matcher"] == matcher]
        if matcher in known:
            name = f"{paper.MATCHERS[matcher]}, paper"
            pairs = paper.HPATCHES_PAIRS if protocol == "hpatches" else None
            printed += _paper_rows(name, known[matcher], pairs)
        at = THRESHOLDS[protocol]
        printed += _our_rows(matcher, mine, at, CORE_ARMS)
        gained += gain_rows(matcher, mine, at, options.seed)
    title = (
        f"Homography AUC (%) after {options.estimator}; the paper's: Tab. 1, "
        f"{'HPatches' if protocol == 'hpatches' else 'MTV'}"
    )
    name = "homography" if protocol == "hpatches" else f"homography_{protocol}"
    return _outcome(study, name, title, printed, rows, notes, gained=gained)


def estimators(study: Study) -> Outcome:
    """Table 4, by robust estimator."""
    rows, notes = rows_of(study, PAPER_ESTIMATORS)
    thresholds = THRESHOLDS[study.protocol]
    printed: list[list[Cell]] = []
    gained: list[list[Cell]] = []
    for name in PAPER_ESTIMATORS:
        if study.protocol == "hpatches":
            label = f"{paper.ESTIMATORS[name]}, paper (EfficientLoFTR)"
            numbers = paper.BY_ESTIMATOR[name]
            printed += _paper_rows(label, numbers, paper.HPATCHES_PAIRS)
        for matcher in study.options.matchers:
            mine = [
                r for r in rows if r["estimator"] == name and r["matcher"] == matcher
            ]
            label = f"{name}, {matcher}"
            printed += _our_rows(label, mine, thresholds, CORE_ARMS)
            gained += gain_rows(label, mine, thresholds, study.options.seed)
    title = "Homography AUC (%) by robust estimator; the paper's: Tab. 4"
    return _outcome(study, "estimators", title, printed, rows, notes, gained=gained)


def weights(study: Study) -> Outcome:
    """Table 3, by refit weight; core+ is ours and not the paper's."""
    options = study.options
    methods = tuple(m for m in REFIT_METHODS if m != "core+")
    arms = (*methods, "core+")
    rows, notes = rows_of(study, [options.estimator], arms)
    largest = 30 if study.protocol == "hpatches" else 300
    thresholds = (*THRESHOLDS[study.protocol], largest)
    printed: list[list[Cell]] = []
    for arm in ("base", *(m for m in paper.BY_WEIGHT if m != "base"), "core+"):
        if arm in paper.BY_WEIGHT and study.protocol == "hpatches":
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


def gain_rows(
    name: str, rows: Sequence[dict[str, Any]], at: Sequence[int], seed: int
) -> list[list[Cell]]:
    """What the refits gain over the base, with standard errors over the pairs."""
    found: list[list[Cell]] = []
    for arm in CORE_ARMS:
        before, after = ([row[key] for row in rows] for key in ("base", arm))
        gain, spread = auc_gain(before, after, at, seed)
        shown = [
            f"{100 * g:+.1f} ± {100 * s:.1f}" for g, s in zip(gain, spread, strict=True)
        ]
        found.append([name, arm, *shown, len(rows)])
    return found


def _outcome(
    study: Study,
    name: str,
    title: str,
    printed: list[list[Cell]],
    rows: list[dict[str, Any]],
    notes: list[str],
    thresholds: Sequence[int] | None = None,
    gained: Sequence[Sequence[Cell]] = (),
) -> Outcome:
    at = thresholds or THRESHOLDS[study.protocol]
    head = ["", "arm", *(f"@{t}px" for t in at), "pairs"]
    tables = [Table(name=name, title=title, head=head, rows=printed)]
    if gained:
        said = (
            f"{name}: gain of AUC (%) over base ± its standard error, pairs resampled"
        )
        tables.append(Table(name=f"{name}_gain", title=said, head=head, rows=gained))
    return Outcome(
        tables=tables,
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
