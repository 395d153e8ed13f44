"""Supplement B.4: relative pose before and after each refit, by pose AUC.

The error of a pair is the larger of the angles of rotation and of translation
direction. Images are matched as they are unless a size is given. All arms of a pair
start from the same estimate on the same matches: the paper's with its zero-mean law,
``core+`` with ours, which may have a location. ``base − shift`` is the estimator on
matches less that location: what of our gain is the location's alone. The
``depth-`` arms, the paper's, are given each point's true depth and the baseline's
length, and have the pairs with depth only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from semisure.bench import paper
from semisure.bench.match_cache import Exported, images_of
from semisure.bench.outcome import Cell, Outcome, Panel, Table
from semisure.bench.poses import SHIFTED, images_told, labels
from semisure.bench.study import Calibrations, Study
from semisure.datasets.layouts import MIN_OVERLAP
from semisure.datasets.posed import PosedPair, depth_at
from semisure.errors import InputError
from semisure.estimators.relative import (
    RELATIVE_ESTIMATORS,
    RELATIVE_SETTINGS,
    estimate_relative,
)
from semisure.estimators.settings import RansacSettings
from semisure.metrics import auc, auc_gain, pose_error_deg
from semisure.refit import refit_relative, without_bias
from semisure.types import FloatArray, Matches, Pair

THRESHOLDS = (1, 3, 5, 10, 20)  # degrees; the paper's but the last
MIN_ANGLE_DEG = 5.0  # of triangulation, where the list of pairs states it
METHODS = ("core", "core-lines", "core+", "depth-huber", "depth-core")
ARMS = ("base", SHIFTED, *METHODS)
GAIN, ERROR = "core+ − base", "± standard error"
DRAWS = 500
ALL = "all"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Task:
    """One pair and one estimator."""

    exported: Exported
    calibrations: Calibrations
    matcher: str
    data: str
    estimator: str
    settings: RansacSettings


def evaluate(task: Task) -> dict[str, Any]:
    """A row of pose errors in degrees, inf where there is no pose."""
    pair, matches = task.exported.truth, task.exported.matches()
    assert isinstance(pair, PosedPair)
    K = pair.camera0.K, pair.camera1.K
    ours = task.calibrations.ours

    def error(P_01: FloatArray | None) -> float:
        return pose_error_deg(P_01, pair.P_01)

    start = estimate_relative(matches, *K, task.estimator, task.settings)
    row: dict[str, Any] = {
        "pair": task.exported.name,
        "data": task.data,
        "matcher": task.matcher,
        "estimator": task.estimator,
        "threshold_px": task.settings.threshold_px,
        "matches": len(matches),
        "inliers": int(start.inliers.sum()),
        "base": error(start.model),
    }
    if ours.location is not None:
        shifted, _ = without_bias(matches, ours)
        found = estimate_relative(shifted, *K, task.estimator, task.settings)
        row[SHIFTED] = error(found.model)
    depth = anchor_depth(pair, matches)
    baseline = float(np.linalg.norm(pair.P_01[:, 3]))
    for method in METHODS:
        if depth is None and method.startswith("depth"):
            continue
        law = ours if method == "core+" else task.calibrations.paper
        refit = refit_relative(
            matches,
            law,
            start,
            *K,
            method=method,  # type: ignore[arg-type]
            depth=depth,
            baseline=baseline,
        )
        row[method] = error(refit.model)
    return row


def anchor_depth(pair: PosedPair, matches: Matches) -> FloatArray | None:
    """Depth of each match's unrefined point, (n,); None where an image has none."""
    z0 = depth_at(pair.camera0, matches.source, matches.source_size)
    z1 = depth_at(pair.camera1, matches.target, matches.target_size)
    return None if z0 is None or z1 is None else np.where(matches.side == 1, z0, z1)


def relative(study: Study) -> Outcome:
    """The study by matcher and folder, and of all folders together."""
    options = study.options
    if options.estimator not in RELATIVE_ESTIMATORS:
        raise InputError(
            "The estimator of a relative pose must be one of "
            f"{', '.join(RELATIVE_ESTIMATORS)}, but is {options.estimator!r}."
        )
    names = labels(options.data)
    listed = [
        (name, pair)
        for name, root in zip(names, options.data, strict=True)
        for pair in _pairs(study, root)
    ]
    of = {images_of(pair): name for name, pair in listed}
    settings = options.ransac(RELATIVE_SETTINGS)
    tasks, notes = [], []
    for matcher in options.matchers:
        exported = study.matched(matcher, [(pair, options.size) for _, pair in listed])
        laws, said = study.calibrations(matcher, exported)
        notes.append(said)
        tasks += [
            Task(
                exported=e,
                calibrations=law,
                matcher=matcher,
                data=of[e.images],
                estimator=options.estimator,
                settings=settings,
            )
            for e, law in zip(exported, laws, strict=True)
        ]
    rows = study.rows(evaluate, tasks, "Relative poses")
    printed = paper_rows()
    for matcher in options.matchers:
        for name in (*names, ALL) if len(names) > 1 else names:
            mine = [r for r in rows if r["matcher"] == matcher]
            mine = [r for r in mine if name in (r["data"], ALL)]
            printed += block(f"{matcher}, {name}", mine, options.seed)
    notes.append(_note(settings, options.size))
    table = Table(
        name="relative",
        title=f"Relative-pose AUC (%) after {options.estimator}; the paper's: "
        "supplement B.4, MegaDepth-1500",
        head=["", "arm", *(f"@{t}°" for t in THRESHOLDS), "median °", "pairs"],
        rows=printed,
    )
    return Outcome(
        tables=[table], rows=rows, figures={"relative": _panels(printed)}, notes=notes
    )


def _pairs(study: Study, root: Path) -> Sequence[Pair | PosedPair]:
    pairs = study.pairs(root, min_angle_deg=MIN_ANGLE_DEG)
    if not pairs:
        raise InputError(f"{root} has no pair of enough overlap and angle.")
    return pairs


def _note(settings: RansacSettings, size: tuple[int, int] | None) -> str:
    return (
        f"Inliers within {settings.threshold_px:g} px of their line, at most "
        f"{settings.max_iterations} samples; images {images_told(size)}. Of lists, "
        f"pairs with overlap ≥ {MIN_OVERLAP:g} and triangulation angle ≥ "
        f"{MIN_ANGLE_DEG:g}°. Standard errors: {DRAWS} draws of the pairs, both arms "
        "alike."
    )


def paper_rows() -> list[list[Cell]]:
    """The paper's arms; it has no 20° and no median."""
    name, pairs = "MegaDepth-1500, paper", paper.RELATIVE_PAIRS
    return [
        [name, arm, *numbers, None, None, pairs]
        for arm, numbers in paper.RELATIVE.items()
    ]


def block(name: str, rows: Sequence[dict[str, Any]], seed: int) -> list[list[Cell]]:
    """A line for each arm that any pair has, then our gain and its standard error."""
    printed: list[list[Cell]] = []
    for arm in ARMS:
        errors = [row[arm] for row in rows if arm in row]
        if errors:
            areas = (100.0 * area for area in auc(errors, THRESHOLDS))
            middle = float(np.median(errors))
            printed.append([name, arm, *areas, middle, len(errors)])
    base, ours = (np.array([row[arm] for row in rows]) for arm in ("base", "core+"))
    mean, spread = auc_gain(base, ours, THRESHOLDS, seed, DRAWS)
    printed.append([name, GAIN, *(100.0 * mean).tolist(), None, len(rows)])
    printed.append([name, ERROR, *(100.0 * spread).tolist(), None, len(rows)])
    return printed


def _panels(printed: list[list[Cell]]) -> list[Panel]:
    """AUC over the thresholds, a panel for each name, a line for each arm.

    An arm that a panel lacks has an empty line there, so that colours agree.
    """
    x = np.array(THRESHOLDS, dtype=np.float64)
    panels = []
    for name in dict.fromkeys(str(row[0]) for row in printed):
        mine = {row[1]: row[2 : 2 + len(x)] for row in printed if row[0] == name}
        lines = {
            arm: (x, np.array(mine.get(arm, [None] * len(x)), dtype=np.float64))
            for arm in ARMS
        }
        panel = Panel(
            title=name,
            xlabel="threshold, degrees",
            ylabel="AUC, %",
            xscale="log",
            lines=lines,
        )
        panels.append(panel)
    return panels
