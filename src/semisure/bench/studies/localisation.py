"""Table 2: camera poses of queries in a map, before and after each refit.

Two kinds of data: a map with the true poses of its queries
(:mod:`semisure.datasets.query_maps`), judged here, and Aachen v1.1
(:mod:`semisure.datasets.aachen`), which only the server of visuallocalization.net can
judge: for it a file to submit is written for each arm. A query that finds no pose is
submitted with that of the first mapped image retrieved, as hloc does, and counted.

All arms of a query have the same matches to the same mapped images and the same start.
``base`` and ``core`` form 2D–3D matches as hloc does: a match takes the 3D point of the
keypoint within 2 px, and the query's point stays. ``core+`` moves that point too, and
has our law, whose location, if it has one, is taken off the matches before they are
lifted. ``base − shift`` is the estimator on matches less the location.

Images of Aachen are matched at the paper's 1180 × 896, turned for those taller than
wide, those of other maps as they are; the query's camera and the map's observations are
scaled. ``--map MATCHER=FOLDER`` names a COLMAP model triangulated from the matcher's
own matches, which hloc makes, to take the place of the SIFT model.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from semisure.bench import paper
from semisure.bench.calibrations import check_known
from semisure.bench.data import labels, matched_at
from semisure.bench.outcome import Cell, Outcome, Panel, Table, where
from semisure.bench.query_poses import ARMS, Task, evaluate
from semisure.bench.query_tasks import settings_for, size_for, tasks_of
from semisure.bench.study import Study
from semisure.datasets.localisation import retrieval_name
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
            notes += [remark, _formed(study, matcher, name, root, tasks)]
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


def _formed(
    study: Study, matcher: str, name: str, root: Path, tasks: Sequence[Task]
) -> str:
    """What 2D–3D matches and poses rest on, in a sentence."""
    pairs = sum(len(task.exported) for task in tasks)
    own = study.options.maps.get(matcher)
    by = "the map that comes with the images" if own is None else f"the map {own.name}"
    return (
        f"{matcher}, {name}: {pairs} image pairs of {len(tasks)} queries by "
        f"{retrieval_name(root)}, images {matched_at(size_for(study, root))}, {by}; "
        f"inliers within {settings_for(study, root).threshold_px:g} px."
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
                about = [len(mine), *_about(mine)]
                printed.append([name, condition, arm, *middle, *within, *about])
    limits = [f"@{100 * m:g} cm {deg:g}°" for m, deg in THRESHOLDS]
    return Table(
        name="localisation",
        title=f"Camera poses after {estimator}: median errors, recall (%); "
        "the paper's: Tab. 2, other data",
        head=["", "queries are", "arm", "cm", "deg", *limits, "queries", *_ABOUT],
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
            about = [count, count * paper.AACHEN_RETRIEVED, None, "NetVLAD, top 50"]
            for arm, recall in zip(("base", "core"), numbers, strict=True):
                printed.append([f"{name}, paper", when, arm, *recall, None, *about])
        for name, when, mine in _groups(where(rows, matcher=matcher)):
            for arm in ARMS:
                if f"{arm} pose" in mine[0]:
                    count = sum(row[f"{arm} pose"] is not None for row in mine)
                    ours = [len(mine), *_about(mine)]
                    printed.append([name, when, arm, *[None] * 3, count, *ours])
    limits = [f"@{m:g} m {deg:g}°" for m, deg in AACHEN_THRESHOLDS]
    return Table(
        name="localisation_aachen",
        title=f"Aachen v1.1, recall (%) after {estimator}; the paper's: Tab. 2",
        head=["", "when", "arm", *limits, "localised", "queries", *_ABOUT],
        rows=printed,
        digits=1,
    )


_ABOUT = ("pairs", "inlier px", "retrieval")


def _about(rows: Sequence[dict[str, Any]]) -> list[Cell]:
    """Image pairs, the inlier threshold and the retrieval of some queries."""
    first = rows[0]
    pairs = sum(row["mapped"] for row in rows)
    return [pairs, first["threshold_px"], first["retrieval"]]


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
