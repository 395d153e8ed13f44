"""What a user would pick instead: sparse matchers beside ours, in one run.

Planes are judged by the corner error, scenes with cameras by the relative pose. All use
the same robust estimator with the same settings, on images as they are unless a size is
given. Ours have two more rows, after either refit. Seconds are medians of matching a
pair by one thread, by the clock and by the processor, which a busy machine slows down
less; memory is the most that a fresh process had for the first pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from semisure.bench import matching, peer_tasks, relative_poses
from semisure.bench.arms import CORE_ARMS
from semisure.bench.auc_tables import Lines, Rows
from semisure.bench.corner_errors import PairTask
from semisure.bench.corner_errors import evaluate as corner_row
from semisure.bench.data import by_truth, matched_at, pairs_of
from semisure.bench.exported import Exported
from semisure.bench.match_cache import peak_memory
from semisure.bench.outcome import Outcome, Table
from semisure.bench.relative_tasks import MIN_ANGLE_DEG, PAIRS_TAKEN
from semisure.bench.study import Study
from semisure.datasets.posed import PosedPair
from semisure.engine import EngineSettings, in_order, open_engine
from semisure.estimators.relative import RELATIVE_SETTINGS
from semisure.estimators.settings import RansacSettings
from semisure.matchers.peers import PEER_NAMES
from semisure.metrics import auc

THRESHOLDS = (1, 3, 5, 10)  # px of corners, degrees of poses
USUAL = ("sift",)


def peers(study: Study) -> Outcome:
    """A table for planes, and one for scenes with cameras."""
    tables, rows = [], []
    for kind, roots in by_truth(study.options).items():
        table, found = _of_kind(study.on(roots), posed=kind == "depth", name=kind)
        tables.append(table)
        rows += [{**row, "data": kind} for row in found]
    size = matched_at(study.options.size)
    notes = [f"Images {size}; one thread. {PAIRS_TAKEN}"]
    return Outcome(tables=tables, rows=rows, figures={}, notes=notes)


def _of_kind(study: Study, *, posed: bool, name: str) -> tuple[Table, Rows]:
    options = study.options
    angle = MIN_ANGLE_DEG if posed else 0.0
    pairs = [
        (pair, options.size)
        for root in options.data
        for pair in pairs_of(options, root, min_angle_deg=angle)
    ]
    settings = options.ransac(RELATIVE_SETTINGS if posed else None)
    printed: Lines = []
    rows: list[dict[str, Any]] = []
    for contender in (*options.matchers, *(options.peers or USUAL)):
        exported = study.matched(contender, pairs)
        found = _rows(study, contender, exported, settings)
        rows += found
        first = matching.jobs(options, contender, pairs[:1])[0]
        with open_engine(EngineSettings(workers=1)) as fresh:
            (peak,) = in_order(fresh, peak_memory, [first])
        printed += _lines(study, contender, found, exported, peak)
    unit = "°" if posed else " px"
    what = "Relative-pose" if posed else "Homography"
    table = Table(
        name=f"peers_{name}",
        title=f"{what} AUC (%) after {options.estimator}: ours and others",
        head=[
            "",
            "arm",
            *(f"@{t}{unit}" for t in THRESHOLDS),
            "median",
            "matches",
            "s",
            "CPU s",
            "MB",
            "pairs",
        ],
        rows=printed,
    )
    return table, rows


def _rows(
    study: Study,
    contender: str,
    exported: Sequence[Exported],
    settings: RansacSettings,
) -> list[dict[str, Any]]:
    """A row for each pair: the base's error, and ours after either refit."""
    estimator = study.options.estimator
    if contender in PEER_NAMES:
        tasks = [
            peer_tasks.PeerTask(
                exported=pair, peer=contender, estimator=estimator, settings=settings
            )
            for pair in exported
        ]
        return study.rows(peer_tasks.evaluate, tasks, "Estimating")
    calibrations, remark = study.calibrations(contender, exported)
    study.note(remark)
    shared: dict[str, Any] = {
        "matcher": contender,
        "estimator": estimator,
        "settings": settings,
    }
    both = list(zip(exported, calibrations, strict=True))
    if isinstance(exported[0].truth, PosedPair):
        poses = [
            relative_poses.Task(exported=pair, calibrations=laws, data="", **shared)
            for pair, laws in both
        ]
        return study.rows(relative_poses.evaluate, poses, "Relative poses")
    planes = [
        PairTask(exported=pair, calibrations=laws, **shared) for pair, laws in both
    ]
    return study.rows(corner_row, planes, "Estimating")


def _lines(
    study: Study,
    contender: str,
    rows: Rows,
    exported: Sequence[Exported],
    peak: float | None,
) -> Lines:
    """A line for each arm; matches, seconds and memory are the same for all."""
    peer = contender in PEER_NAMES
    label = contender if peer else study.label(contender)
    matches = int(np.median([row["matches"] for row in rows]))
    seconds = float(np.median([pair.seconds for pair in exported]))
    computed = float(np.median([pair.processor_seconds for pair in exported]))
    memory = None if peak is None else round(peak / 2**20)
    lines: Lines = []
    for arm in ("base",) if peer else ("base", *CORE_ARMS):
        errors = [row[arm] for row in rows]
        areas = (100.0 * area for area in auc(errors, THRESHOLDS))
        middle = float(np.median(errors))
        cost = (matches, seconds, computed, memory)
        lines.append([label, arm, *areas, middle, *cost, len(errors)])
    return lines
