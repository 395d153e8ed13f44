"""Table 1: homography AUC before and after the refit, by matcher and protocol.

All refits of a pair share its matches, its start and its seed. The corner error is
measured at the size the images were brought to, not rescaled; AUC is that of
:func:`semisure.metrics.auc`. Other benches of homographies have their rows from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from semisure.bench.calibrations import CORE_ARMS, Calibrations
from semisure.bench.exported import Exported
from semisure.bench.options import THRESHOLDS
from semisure.bench.outcome import Cell, Outcome, Panel, Table, where
from semisure.bench.study import Study
from semisure.estimators import estimate_homography
from semisure.estimators.settings import RansacSettings
from semisure.io.cache import Row
from semisure.metrics import auc, auc_gain, corner_error
from semisure.refit.planes import refit_homography
from semisure.refit.weights import RefitMethod
from semisure.types import Estimate, Matches, Matrix3

Lines = list[list[Cell]]
Numbers = tuple[float, ...]

# Our names of matchers, as the paper calls them.
MATCHERS = {
    "loftr": "LoFTR",
    "gim-loftr": "GIM-LoFTR",
    "eloftr": "EfficientLoFTR",
    "comatch": "CoMatch",
    "edm": "EDM",
    "xfeat-star-raw": "XFeat*",
}
HPATCHES_PAIRS = 540  # its 108 sequences

# Tab. 1 (tab:homography_hpatches_mtv): RANSAC, AUC (%), base and with CoRe.
HPATCHES: dict[str, tuple[Numbers, Numbers]] = {  # at 1, 3, 5, 10 px, 1280 × 960
    "loftr": ((21.37, 49.17, 61.40, 75.18), (28.80, 58.72, 70.19, 81.54)),
    "gim-loftr": ((24.82, 50.87, 62.23, 76.53), (29.87, 59.47, 71.11, 82.87)),
    "eloftr": ((29.14, 52.59, 64.17, 77.30), (32.68, 60.43, 71.24, 82.45)),
    "comatch": ((27.47, 52.35, 64.00, 77.22), (32.40, 60.26, 71.27, 82.67)),
    "edm": ((24.39, 50.25, 62.07, 76.01), (29.45, 58.15, 69.80, 81.56)),
    "xfeat-star-raw": ((0.23, 22.30, 40.19, 62.18), (0.33, 25.43, 47.38, 69.51)),
}
MTV: dict[str, tuple[Numbers, Numbers]] = {  # at 10, 30, 50, 100 px, 960 × 640
    "loftr": ((1.08, 4.77, 7.05, 10.01), (1.83, 6.40, 8.65, 11.65)),
    "gim-loftr": ((0.44, 3.63, 6.43, 11.41), (1.31, 6.27, 9.85, 15.24)),
    "eloftr": ((1.10, 4.67, 7.04, 10.43), (1.78, 6.11, 8.63, 11.93)),
    "comatch": ((0.96, 4.31, 6.54, 9.44), (1.65, 5.47, 7.63, 10.43)),
    "edm": ((1.32, 5.87, 8.82, 13.10), (2.23, 7.49, 10.80, 15.17)),
    "xfeat-star-raw": ((0.46, 2.39, 3.67, 5.83), (0.91, 3.77, 5.39, 7.86)),
}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PairTask:
    """One pair, one estimator, some refits."""

    exported: Exported
    calibrations: Calibrations
    matcher: str
    estimator: str
    settings: RansacSettings
    methods: tuple[RefitMethod, ...] = CORE_ARMS


def start_of(task: PairTask, matches: Matches) -> Estimate:
    """The robust estimate that all refits start from."""
    return estimate_homography(matches, task.estimator, task.settings)


def refitted(
    task: PairTask, matches: Matches, start: Estimate
) -> dict[str, Matrix3 | None]:
    """The homography after each refit."""
    return {
        method: refit_homography(
            matches, task.calibrations.of_arm(method), start, method=method
        ).model
        for method in task.methods
    }


def evaluate(task: PairTask) -> Row:
    """A row of corner errors in px, inf where there is no model."""
    matches = task.exported.matches()
    truth, size = task.exported.H_01, matches.source_size
    start = start_of(task, matches)
    row: Row = {
        "pair": task.exported.name,
        "matcher": task.matcher,
        "estimator": task.estimator,
        "matches": len(matches),
        "inliers": int(start.inliers.sum()),
        "base": corner_error(start.model, truth, size),
    }
    for method, H in refitted(task, matches, start).items():
        row[method] = corner_error(H, truth, size)
    return row


def rows_of(
    study: Study,
    estimators: Iterable[str],
    methods: tuple[RefitMethod, ...] = CORE_ARMS,
    function: Callable[[PairTask], Row] = evaluate,
    *,
    kept: bool = True,
) -> tuple[list[Row], list[str]]:
    """A row for each matcher, estimator and pair, and where calibrations are from.

    Rows that hold arrays or times are not `kept` for another run.
    """
    names, remarks = tuple(estimators), []
    tasks: list[PairTask] = []
    for matcher in study.options.matchers:
        exported = study.exported(matcher)
        calibrations, remark = study.calibrations(matcher, exported)
        remarks.append(remark)
        tasks += [
            PairTask(
                exported=pair,
                calibrations=both,
                matcher=matcher,
                estimator=name,
                settings=study.options.ransac(),
                methods=methods,
            )
            for name in names
            for pair, both in zip(exported, calibrations, strict=True)
        ]
    over = study.rows if kept else study.map
    return over(function, tasks, "Estimating"), remarks


def homography(study: Study) -> Outcome:
    """A table for each protocol that the data ask for."""
    parts = {name: _of_protocol(part) for name, part in study.by_protocol().items()}
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


def _of_protocol(study: Study) -> Outcome:
    options, at = study.options, THRESHOLDS[study.protocol]
    on_hpatches = study.protocol == "hpatches"
    rows, notes = rows_of(study, [options.estimator])
    published = HPATCHES if on_hpatches else MTV
    printed: Lines = []
    gained: Lines = []
    for matcher in options.matchers:
        mine = where(rows, matcher=matcher)
        if matcher in published:
            pairs = HPATCHES_PAIRS if on_hpatches else None
            name = f"{MATCHERS[matcher]}, paper"
            printed += paper_lines(name, published[matcher], pairs)
        label = study.label(matcher)
        printed += auc_lines(label, mine, at)
        gained += gain_lines(label, mine, at, options.seed)
    title = (
        f"Homography AUC (%) after {options.estimator}; the paper's: Tab. 1, "
        f"{'HPatches' if on_hpatches else 'MTV'}"
    )
    name = "homography" if on_hpatches else f"homography_{study.protocol}"
    return auc_outcome(name, title, at, printed, rows, notes, gained)


def paper_lines(
    name: str, numbers: tuple[Numbers, Numbers], pairs: int | None
) -> Lines:
    """The paper's AUC, base and core."""
    base, core = numbers
    return [[name, "base", *base, pairs], [name, "core", *core, pairs]]


def auc_lines(
    name: str,
    rows: Sequence[Row],
    at: Sequence[int],
    arms: Sequence[str] = ("base", *CORE_ARMS),
) -> Lines:
    """Our AUC (%) of each arm at each threshold."""
    lines: Lines = []
    for arm in arms:
        areas = auc([row[arm] for row in rows], at)
        lines.append([name, arm, *(100.0 * area for area in areas), len(rows)])
    return lines


def gain_lines(name: str, rows: Sequence[Row], at: Sequence[int], seed: int) -> Lines:
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
    rows: Sequence[Row],
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
