"""Supplement B.4: relative pose before and after each refit, by pose AUC.

The error of a pair is the larger of the angles of rotation and of translation
direction. All arms of a pair start from the same estimate on the same matches. Only
``core+`` starts, as in :func:`semisure.match`, from ``base − shift``, the estimator on
matches less the location of our law, where it has one. The ``depth-`` arms, the
paper's, get each point's true depth and the baseline's length, and use the pairs with
depth only. Images are matched as they are unless a size is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from semisure.bench.calibrations import SHIFTED
from semisure.bench.data import labels, matched_at, pairs_of, parts_of
from semisure.bench.outcome import Lines, Outcome, Table, where
from semisure.bench.study import Study, Task
from semisure.datasets.layouts import MIN_OVERLAP
from semisure.datasets.posed import PosedPair, depth_at
from semisure.errors import InputError
from semisure.estimators.relative import (
    RELATIVE_ESTIMATORS,
    RELATIVE_SETTINGS,
    estimate_relative,
)
from semisure.estimators.settings import RansacSettings
from semisure.io.cache import Row
from semisure.metrics import auc, auc_gain, pose_error_deg
from semisure.refit.core import without_bias
from semisure.refit.relative import RelativeMethod, refit_relative
from semisure.types import Estimate, Matches, PerMatch, as_choice

METHODS: tuple[RelativeMethod, ...] = (
    "core",
    "core+",
    "depth-huber",
    "depth-core",
)
ARMS = ("base", SHIFTED, *METHODS)
MIN_ANGLE_DEG = 5.0  # of triangulation, where the list of pairs states it
PAIRS_TAKEN = (
    f"Of lists, pairs with overlap ≥ {MIN_OVERLAP:g} and triangulation angle ≥ "
    f"{MIN_ANGLE_DEG:g}°."
)
THRESHOLDS = (1, 3, 5, 10, 20)  # degrees; the paper's but the last
GAIN, ERROR = "core+ − base", "± standard error"
# Tab. of the supplement (tab:relative_pose): EfficientLoFTR, as all of the supplement
# unless it says otherwise, on MegaDepth-1500, pose AUC at 1, 3, 5, 10°; no estimator is
# named. The last two know depth and baseline.
PAPER_PAIRS = 1500
PAPER: dict[str, tuple[float, ...]] = {
    "base": (8.06, 28.52, 41.81, 60.42),
    "core": (8.91, 21.32, 28.51, 38.98),
    "depth-huber": (12.14, 28.87, 38.58, 52.48),
    "depth-core": (26.42, 45.94, 54.24, 64.75),
}


def tasks_of(
    study: Study, settings: RansacSettings, estimators: Iterable[str]
) -> list[Task]:
    """The pairs of all folders by matcher and estimator."""
    options = study.options
    named = [
        (name, pair)
        for name, root in zip(labels(options.data), options.data, strict=True)
        for pair in pairs_of(options, root, min_angle_deg=MIN_ANGLE_DEG)
    ]
    if not named:
        raise InputError(f"There is no pair to use. {PAIRS_TAKEN}")
    tasks = []
    for matcher in options.matchers:
        exported = study.matched(matcher, [(pair, options.size) for _, pair in named])
        parts = parts_of([name for name, _ in named], exported)
        tasks += study.tasks(matcher, exported, parts)
    return [
        replace(task, estimator=name, settings=settings)
        for name in estimators
        for task in tasks
    ]


def posed(task: Task) -> PosedPair:
    """The cameras of the images as they were matched."""
    assert isinstance(task.exported.truth, PosedPair)
    return task.exported.truth


def about(task: Task, matches: Matches, start: Estimate) -> Row:
    """The columns that identify a row."""
    return {
        "pair": task.exported.name,
        "data": task.data,
        "matcher": task.matcher,
        "estimator": task.estimator,
        "threshold_px": task.settings.threshold,
        "matches": len(matches),
        "inliers": int(start.inliers.sum()),
    }


def by_folder(rows: Sequence[Row]) -> dict[str, Sequence[Row]]:
    """The rows of each folder, and, of several, all of them together.

    >>> list(by_folder([{"data": "a"}, {"data": "b"}]))
    ['a', 'b', 'all']
    """
    names = list(dict.fromkeys(row["data"] for row in rows))
    folders: dict[str, Sequence[Row]] = {name: where(rows, data=name) for name in names}
    return {**folders, "all": rows} if len(names) > 1 else folders


def evaluate(task: Task) -> Row:
    """A row of pose errors in degrees, inf where there is no pose."""
    matches, ours, pair = task.exported.matches(), task.calibrations.ours, posed(task)
    K = pair.camera0.K, pair.camera1.K
    depth = anchor_depth(pair, matches)
    baseline = float(np.linalg.norm(pair.P_01[:, 3]))
    start = estimate_relative(matches, *K, task.estimator, task.settings)
    models, own_start = {"base": start.model}, start
    if ours.location is not None:
        shifted, _ = without_bias(matches, ours)
        own_start = estimate_relative(shifted, *K, task.estimator, task.settings)
        models[SHIFTED] = own_start.model
    for method in METHODS:
        if depth is not None or not method.startswith("depth"):
            models[method] = refit_relative(
                matches,
                task.calibrations.of_arm(method),
                own_start if method == "core+" else start,
                *K,
                method=method,
                depth=depth,
                baseline=baseline,
            ).model
    errors = {arm: pose_error_deg(P, pair.P_01) for arm, P in models.items()}
    return {**about(task, matches, start), **errors}


def anchor_depth(pair: PosedPair, matches: Matches) -> PerMatch | None:
    """Depth of each match's unrefined point; None where an image has none."""
    z0 = depth_at(pair.camera0, matches.source, matches.source_size)
    z1 = depth_at(pair.camera1, matches.target, matches.target_size)
    return None if z0 is None or z1 is None else np.where(matches.side == 1, z0, z1)


def relative(study: Study) -> Outcome:
    """By matcher and folder, and of all folders together."""
    options = study.options
    settings = options.ransac(RELATIVE_SETTINGS)
    as_choice(
        "The estimator of a relative pose", options.estimator, RELATIVE_ESTIMATORS
    )
    tasks = tasks_of(study, settings, [options.estimator])
    rows = study.map(evaluate, tasks, "Relative poses")
    name = "EfficientLoFTR, MegaDepth-1500, paper"
    printed: Lines = [  # the paper has no 20° and no median
        [name, arm, *numbers, None, None, PAPER_PAIRS] for arm, numbers in PAPER.items()
    ]
    for _, label, mine in study.by_matcher(rows):
        for name, part in by_folder(mine).items():
            printed += block(f"{label}, {name}", part, options.seed)
    study.note(
        f"Inliers within {settings.threshold:g} px of their line, at most "
        f"{settings.max_iterations} samples; images {matched_at(options.size)}. "
        f"{PAIRS_TAKEN} Standard errors: paired bootstrap over the pairs."
    )
    table = Table(
        name="relative",
        title=f"Relative-pose AUC (%) after {options.estimator}; the paper's: "
        "supplement B.4, MegaDepth-1500",
        head=["", "arm", *(f"@{t}°" for t in THRESHOLDS), "median °", "pairs"],
        rows=printed,
    )
    return Outcome(tables=[table], rows=rows)


def block(name: str, rows: Sequence[Row], seed: int) -> Lines:
    """A line for each arm that any pair has, then our gain and its standard error."""
    printed: Lines = []
    for arm in ARMS:
        errors = [row[arm] for row in rows if arm in row]
        if errors:
            areas = (100.0 * area for area in auc(errors, THRESHOLDS))
            middle = float(np.median(errors))
            printed.append([name, arm, *areas, middle, len(errors)])
    base, ours = (np.array([row[arm] for row in rows]) for arm in ("base", "core+"))
    mean, spread = auc_gain(base, ours, THRESHOLDS, seed)
    printed.append([name, GAIN, *(100.0 * mean).tolist(), None, len(rows)])
    printed.append([name, ERROR, *(100.0 * spread).tolist(), None, len(rows)])
    return printed
