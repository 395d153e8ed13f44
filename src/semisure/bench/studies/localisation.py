"""Table 2: camera poses of queries in a map, before and after each refit.

Two kinds of data: a map with the true poses of its queries
(:mod:`semisure.datasets.query_maps`), judged here, and Aachen v1.1
(:mod:`semisure.datasets.aachen`), which only the server of visuallocalization.net can
judge: for it a file to submit is written for each arm. A query that finds no pose is
submitted with that of the first mapped image retrieved, as hloc does, and counted.

All arms of a query have the same matches to the same mapped images and the same start:
``base`` and ``core`` as the paper has them, ``core+`` with our law, whose location, if
it has one, is taken off the matches before they are lifted. ``base − shift`` is the
estimator on those. Images are matched as they are, since intrinsics and map belong to
that size; with another size, the query's camera and the map's observations are scaled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from semisure.bench import paper
from semisure.bench.calibrations import check_known
from semisure.bench.data import labels, matched_at
from semisure.bench.outcome import Cell, Outcome, Panel, Table, where
from semisure.bench.query_poses import ARMS, evaluate
from semisure.bench.query_tasks import settings_for, tasks_of
from semisure.bench.study import Study
from semisure.estimators.pose import POSE_ESTIMATOR_NAMES
from semisure.types import as_choice

THRESHOLDS = ((0.01, 0.2), (0.02, 0.5), (0.05, 1.0))  # m, degrees; of maps with truth
AACHEN_THRESHOLDS = ((0.25, 2.0), (0.5, 5.0), (5.0, 10.0))
_UNITS = ("m", "deg")
JUDGE = (
    "The true poses of Aachen's queries are not public: visuallocalization.net judges "
    "the files Aachen-v1.1_*.txt, so that our cells are empty."
)


def localisation(study: Study) -> Outcome:
    """Both kinds of data, by matcher, folder and condition."""
    options = study.options
    estimator, names = options.estimator, labels(options.data)
    as_choice("The estimator of a camera pose", estimator, POSE_ESTIMATOR_NAMES)
    for matcher in options.matchers:
        check_known(options, matcher)
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    for matcher in options.matchers:
        for name, root in zip(names, options.data, strict=True):
            settings = settings_for(study, root)
            tasks, remark = tasks_of(study, matcher, name, root, settings)
            rows += study.rows(evaluate, tasks, f"Localising, {matcher}")
            px, size = settings.threshold_px, matched_at(options.size)
            notes += [remark, f"{name}: inliers within {px:g} px; images {size}."]
    located = [row for row in rows if "base m" in row]
    sent = [row for row in rows if "base m" not in row]
    tables = [located_table(located, estimator)] if located else []
    figures = {"localisation": _curves(located, "m")} if located else {}
    beside = aachen_table(options.matchers, sent, estimator)
    if beside.rows:
        tables.append(beside)
    if sent:
        figures["localisation_aachen"] = _curves(sent, "moved m")
        notes += [JUDGE, *lost(sent)]
    return Outcome(
        tables=tables,
        rows=rows,
        figures=figures,
        notes=list(dict.fromkeys(notes)),
        files=submissions(sent),
    )


def located_table(rows: Sequence[dict[str, Any]], estimator: str) -> Table:
    """Medians, and recall in percent; a query without a pose errs infinitely."""
    printed: list[list[Cell]] = []
    for name, condition, mine in _groups(rows):
        for arm in ARMS:
            if f"{arm} m" in mine[0]:
                m, deg = (np.array([row[f"{arm} {u}"] for row in mine]) for u in _UNITS)
                middle = float(100.0 * np.median(m)), float(np.median(deg))
                within = [
                    100.0 * float(((m <= a) & (deg <= b)).mean()) for a, b in THRESHOLDS
                ]
                printed.append([name, condition, arm, *middle, *within, len(mine)])
    limits = [f"@{100 * m:g} cm {deg:g}°" for m, deg in THRESHOLDS]
    return Table(
        name="localisation",
        title=f"Camera poses after {estimator}: median errors, recall (%); "
        "the paper's: Tab. 2, other data",
        head=["", "retrieval", "arm", "cm", "deg", *limits, "queries"],
        rows=printed,
        digits=3,
    )


def aachen_table(
    matchers: Sequence[str], rows: Sequence[dict[str, Any]], estimator: str
) -> Table:
    """The paper's numbers, and how many queries have a pose of ours."""
    printed: list[list[Cell]] = []
    for matcher in matchers:
        for when, numbers in paper.AACHEN.get(matcher, {}).items():
            name, count = paper.MATCHERS[matcher], paper.AACHEN_QUERIES[when]
            for arm, recall in zip(("base", "core"), numbers, strict=True):
                printed.append([f"{name}, paper", when, arm, *recall, None, count])
        for name, when, mine in _groups(where(rows, matcher=matcher)):
            for arm in ARMS:
                if f"{arm} pose" in mine[0]:
                    count = sum(row[f"{arm} pose"] is not None for row in mine)
                    printed.append([name, when, arm, *[None] * 3, count, len(mine)])
    limits = [f"@{m:g} m {deg:g}°" for m, deg in AACHEN_THRESHOLDS]
    return Table(
        name="localisation_aachen",
        title=f"Aachen v1.1, recall (%) after {estimator}; the paper's: Tab. 2",
        head=["", "when", "arm", *limits, "localised", "queries"],
        rows=printed,
        digits=1,
    )


def _groups(
    rows: Sequence[dict[str, Any]],
) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """Rows of one matcher, folder and condition, with a name, in their order."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        key = f"{row['matcher']}, {row['data']}", row["condition"]
        groups.setdefault(key, []).append(row)
    return [(name, condition, mine) for (name, condition), mine in groups.items()]


def submissions(rows: Sequence[dict[str, Any]]) -> dict[str, bytes]:
    """A file for each folder, matcher and arm; without a pose, the closest image's."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        for arm in ARMS:
            pose = row.get(f"{arm} pose") or row.get("closest")
            if f"{arm} pose" in row and pose is not None:
                data = row["data"].replace("/", "-")
                plain = arm.replace(" − ", "-")
                file = f"Aachen-v1.1_{data}_{row['matcher']}_{plain}.txt"
                name = row["query"].rpartition("/")[2]
                lines.setdefault(file, []).append(f"{name} {pose}\n")
    return {file: "".join(poses).encode() for file, poses in lines.items()}


def lost(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A sentence for each matcher and condition on the queries without a pose."""
    notes = []
    for name, condition, mine in _groups(rows):
        without = [row for row in mine if row["base pose"] is None]
        missing = [row["query"] for row in without if "closest" not in row]
        if without:
            notes.append(
                f"{name}, {condition}: {len(without)} of {len(mine)} queries have no "
                f"pose, first {without[0]['query']} ({without[0]['reason']}); the file "
                "has the pose of the first mapped image retrieved for them, as hloc's, "
                f"and no line for the {len(missing)} without any."
            )
    return notes


def _curves(rows: Sequence[dict[str, Any]], unit: str) -> list[Panel]:
    """Share of queries within a distance of the truth, or of the base if unknown."""
    panels = []
    for name, condition, mine in _groups(rows):
        lines = {}
        for arm in ARMS:
            apart = np.sort([row.get(f"{arm} {unit}", np.inf) for row in mine])
            finite = apart[np.isfinite(apart) & (apart > 0)]
            zero = int((apart == 0).sum())
            share = 100.0 * (zero + np.arange(1, len(finite) + 1)) / len(mine)
            lines[arm] = (100.0 * finite, share)  # may be empty: colours agree
        what = "truth" if unit == "m" else "base"
        if any(len(x) for x, _ in lines.values()):
            panel = Panel(
                title=f"{name}, {condition}",
                xlabel=f"distance from the {what}, cm",
                ylabel="queries within it, %",
                lines=lines,
                xscale="log",
            )
            panels.append(panel)
    return panels
