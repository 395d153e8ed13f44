"""Tables 1, 3 and 4 and figure 1: homography AUC before and after the refit.

By matcher and protocol (``homography``), by robust estimator (``estimators``), by the
weight of the refit (``weights``), and the two former at one threshold as a radar plot.
All refits of a pair share its matches, its start and its seed. The corner error is
measured at the size the images were resized to; AUC is that of
:func:`semisure.metrics.auc`. Other benches of homographies use these functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from semisure.bench.calibrations import CORE_ARMS
from semisure.bench.options import THRESHOLDS
from semisure.bench.outcome import Lines, Outcome, Panel, Table, where
from semisure.bench.study import Study, Task
from semisure.estimators import PAPER_ESTIMATORS, estimate_homography
from semisure.io.cache import Row
from semisure.metrics import auc, auc_gain, corner_error
from semisure.refit.planes import refit_homography
from semisure.refit.weights import REFIT_METHODS, RefitMethod
from semisure.types import Estimate, Matches, Matrix3

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
# Tab. 4 (tab:homography_estimators): EfficientLoFTR on HPatches, 1, 3, 5, 10 px.
BY_ESTIMATOR: dict[str, tuple[Numbers, Numbers]] = {
    "ransac": ((29.14, 52.59, 64.17, 77.30), (32.68, 60.43, 71.24, 82.45)),
    "lo-ransac": ((33.89, 58.82, 69.85, 81.30), (32.73, 60.69, 71.56, 82.77)),
    "prosac": ((33.76, 57.82, 67.98, 79.41), (32.78, 60.46, 71.11, 82.09)),
    "gc-ransac": ((33.99, 59.08, 69.97, 81.45), (32.85, 60.86, 71.80, 82.89)),
    "magsac++": ((32.39, 60.24, 71.34, 82.46), (32.69, 61.03, 71.97, 82.86)),
}
# Tab. 3 (tab:ablation_refit): EfficientLoFTR, RANSAC, HPatches, 1, 3, 5, 10, 30 px.
BY_WEIGHT: dict[str, Numbers] = {
    "base": (29.14, 52.59, 64.17, 77.30, 89.27),
    "uniform": (19.36, 43.85, 54.46, 66.19, 78.86),
    "binary": (33.11, 56.87, 67.50, 79.55, 90.20),
    "huber": (32.80, 59.41, 69.93, 81.33, 90.72),
    "laplace-laplace": (34.66, 59.20, 69.56, 81.06, 90.89),
    "confidence": (25.07, 49.04, 59.22, 70.17, 81.35),
    "fine-std": (33.65, 59.47, 70.06, 81.60, 91.08),
    "core": (32.85, 60.50, 71.25, 82.44, 91.32),
}
NOTE = (
    "fine-std: the paper does not say how the raw fine std becomes a weight. Its row "
    "uses the Laplace density of the residual with that std."
)
ARMS = ("base", *CORE_ARMS)
MIN_SPOKES = 3  # fewer make no radar but bars
Spokes = dict[str, dict[str, float]]  # AUC by spoke and arm


def start_of(task: Task, matches: Matches) -> Estimate:
    """The robust estimate that all refits start from."""
    return estimate_homography(matches, task.estimator, task.settings)


def refitted(
    task: Task,
    matches: Matches,
    start: Estimate,
    methods: Iterable[RefitMethod] = CORE_ARMS,
) -> dict[str, Matrix3 | None]:
    """The homography after each refit."""
    return {
        method: refit_homography(
            matches, task.calibrations.of_arm(method), start, method=method
        ).model
        for method in methods
    }


def evaluate(task: Task, methods: Iterable[RefitMethod] = CORE_ARMS) -> Row:
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
    for method, H in refitted(task, matches, start, methods).items():
        row[method] = corner_error(H, truth, size)
    return row


def evaluate_weights(task: Task) -> Row:
    """The same for all weights of the ablation."""
    return evaluate(task, REFIT_METHODS)


def rows_of(
    study: Study, estimators: Iterable[str], function: Callable[[Task], Row] = evaluate
) -> list[Row]:
    """A row for each matcher, estimator and pair."""
    names, tasks = tuple(estimators), []
    for matcher in study.options.matchers:
        mine = study.tasks(matcher, study.exported(matcher))
        tasks += [replace(task, estimator=name) for name in names for task in mine]
    return study.map(function, tasks, "Estimating")


def homography(study: Study) -> Outcome:
    """A table for each protocol of the data."""
    tables: list[Table] = []
    rows: list[Row] = []
    for protocol, part in study.by_truth().items():
        part_rows = rows_of(part, [study.options.estimator])
        rows += [{"protocol": protocol, **row} for row in part_rows]
        tables += _tables(part, part_rows)
    return Outcome(tables=tables, rows=rows)


def _tables(study: Study, rows: Sequence[Row]) -> list[Table]:
    """AUC and gains under one protocol."""
    at, options = THRESHOLDS[study.protocol], study.options
    on_hpatches = study.protocol == "hpatches"
    published, pairs = (HPATCHES, HPATCHES_PAIRS) if on_hpatches else (MTV, None)
    printed: Lines = []
    gained: Lines = []
    for matcher, label, mine in study.by_matcher(rows):
        if matcher in published:
            name = f"{MATCHERS[matcher]}, paper"
            printed += paper_lines(name, published[matcher], pairs)
        printed += auc_lines(label, mine, at)
        gained += gain_lines(label, mine, at, options.seed)
    title = (
        f"Homography AUC (%) after {options.estimator}; the paper's: Tab. 1, "
        f"{'HPatches' if on_hpatches else 'MTV'}"
    )
    name = "homography" if on_hpatches else f"homography_{study.protocol}"
    return auc_tables(name, title, at, printed, gained)


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
    arms: Sequence[str] = ARMS,
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


def auc_tables(
    name: str,
    title: str,
    at: Sequence[int],
    printed: Lines,
    gained: Lines | None = None,
) -> list[Table]:
    """The table called `name`, and that of the gains if there are any."""
    head = ["", "arm", *(f"@{t}px" for t in at), "pairs"]
    tables = [Table(name=name, title=title, head=head, rows=printed)]
    if gained:
        title = (
            f"{name}: gain of AUC (%) over base ± its standard error, pairs resampled"
        )
        tables.append(Table(name=f"{name}_gain", title=title, head=head, rows=gained))
    return tables


def estimators(study: Study) -> Outcome:
    """The paper's five estimators, each on the matches of every matcher."""
    rows = rows_of(study, PAPER_ESTIMATORS)
    at = THRESHOLDS[study.protocol]
    printed: Lines = []
    gained: Lines = []
    for name in PAPER_ESTIMATORS:
        if study.protocol == "hpatches":
            label = f"{name.upper()}, paper (EfficientLoFTR)"
            printed += paper_lines(label, BY_ESTIMATOR[name], HPATCHES_PAIRS)
        for _, label, mine in study.by_matcher(where(rows, estimator=name)):
            printed += auc_lines(f"{name}, {label}", mine, at)
            gained += gain_lines(f"{name}, {label}", mine, at, study.options.seed)
    title = "Homography AUC (%) by robust estimator; the paper's: Tab. 4"
    return Outcome(
        tables=auc_tables("estimators", title, at, printed, gained), rows=rows
    )


def weights(study: Study) -> Outcome:
    """A line for each weight and matcher, the paper's beside ours, then ``core+``."""
    options = study.options
    rows = rows_of(study, [options.estimator], evaluate_weights)
    on_hpatches = study.protocol == "hpatches"
    at = (*THRESHOLDS[study.protocol], 30 if on_hpatches else 300)
    printed: Lines = []
    for arm in (*BY_WEIGHT, "core+"):
        if on_hpatches and arm in BY_WEIGHT:
            name = "EfficientLoFTR, paper"
            printed.append([name, arm, *BY_WEIGHT[arm], HPATCHES_PAIRS])
        for _, label, mine in study.by_matcher(rows):
            printed += auc_lines(label, mine, at, [arm])
    study.note(NOTE)
    title = f"Homography AUC (%) by refit weight, {options.estimator}; paper: Tab. 3"
    return Outcome(tables=auc_tables("weights", title, at, printed), rows=rows)


def radar(study: Study) -> Outcome:
    """Both panels of the figure, and the paper's two beside them."""
    options = study.options
    at = THRESHOLDS[study.protocol][1]
    names = dict.fromkeys([options.estimator, *PAPER_ESTIMATORS])
    rows = rows_of(study, names)
    by_matcher = list(study.by_matcher(rows))
    _, first, of_first = by_matcher[0]
    table_1 = HPATCHES if study.protocol == "hpatches" else MTV
    plots: dict[str, Spokes] = {
        f"ours, {options.estimator}": {
            label: _areas(where(mine, estimator=options.estimator), at)
            for _, label, mine in by_matcher
        },
        "paper, RANSAC": {MATCHERS[m]: _published(row) for m, row in table_1.items()},
        f"ours, {first}": {
            name: _areas(where(of_first, estimator=name), at)
            for name in PAPER_ESTIMATORS
        },
    }
    if study.protocol == "hpatches":
        plots["paper, EfficientLoFTR"] = {
            name.upper(): _published(row) for name, row in BY_ESTIMATOR.items()
        }
    table = Table(
        name="radar",
        title=f"AUC (%) at {at} px before and after; the paper's: Fig. 1",
        head=["", "spoke", *ARMS],
        rows=[
            [name, spoke, *(values.get(arm) for arm in ARMS)]
            for name, spokes in plots.items()
            for spoke, values in spokes.items()
        ],
    )
    return Outcome(
        tables=[table],
        rows=rows,
        figures={"radar": [_panel(*plot) for plot in plots.items()]},
        columns={"radar": 2},
    )


def _areas(rows: Sequence[Row], at: int) -> dict[str, float]:
    return {arm: 100.0 * auc([row[arm] for row in rows], [at])[0] for arm in ARMS}


def _published(numbers: tuple[Numbers, Numbers]) -> dict[str, float]:
    """The paper's AUC at its second threshold, 3 px on HPatches, 30 px on MTV."""
    return {"base": numbers[0][1], "core": numbers[1][1]}


def _panel(title: str, spokes: Spokes) -> Panel:
    names, arms = list(spokes), next(iter(spokes.values()))
    lines = {arm: (names, np.array([spokes[n][arm] for n in names])) for arm in arms}
    radar = len(names) >= MIN_SPOKES
    return Panel(title=title, ylabel="AUC, %", lines=lines, radar=radar)
