"""Supplement B.4: relative pose before and after each refit, by pose AUC.

The error of a pair is the larger of the angles of rotation and of translation
direction; :mod:`semisure.bench.relative_poses` describes the arms. Images are matched
as they are unless a size is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from semisure.bench import paper
from semisure.bench.auc_tables import Lines, auc_panels
from semisure.bench.data import matched_at
from semisure.bench.outcome import Outcome, Table, where
from semisure.bench.relative_poses import ARMS, check_estimator, evaluate
from semisure.bench.relative_tasks import PAIRS_TAKEN, by_folder, tasks_of
from semisure.bench.study import Study
from semisure.estimators.relative import RELATIVE_SETTINGS
from semisure.metrics import auc, auc_gain

THRESHOLDS = (1, 3, 5, 10, 20)  # degrees; the paper's but the last
GAIN, ERROR = "core+ − base", "± standard error"
DRAWS = 500


def relative(study: Study) -> Outcome:
    """By matcher and folder, and of all folders together."""
    options = study.options
    settings = options.ransac(RELATIVE_SETTINGS)
    check_estimator(options.estimator)
    tasks, notes = tasks_of(study, settings, [options.estimator])
    rows = study.rows(evaluate, tasks, "Relative poses")
    printed = paper_rows()
    for matcher in options.matchers:
        for name, mine in by_folder(where(rows, matcher=matcher)).items():
            printed += block(f"{study.label(matcher)}, {name}", mine, options.seed)
    notes.append(
        f"Inliers within {settings.threshold_px:g} px of their line, at most "
        f"{settings.max_iterations} samples; images {matched_at(options.size)}. "
        f"{PAIRS_TAKEN} Standard errors: {DRAWS} draws of the pairs, both arms alike."
    )
    table = Table(
        name="relative",
        title=f"Relative-pose AUC (%) after {options.estimator}; the paper's: "
        "supplement B.4, MegaDepth-1500",
        head=["", "arm", *(f"@{t}°" for t in THRESHOLDS), "median °", "pairs"],
        rows=printed,
    )
    panels = auc_panels(printed, THRESHOLDS, "threshold, degrees", ARMS)
    return Outcome(tables=[table], rows=rows, figures={"relative": panels}, notes=notes)


def paper_rows() -> Lines:
    """The paper's arms; it has no 20° and no median."""
    name, pairs = "EfficientLoFTR, MegaDepth-1500, paper", paper.RELATIVE_PAIRS
    return [
        [name, arm, *numbers, None, None, pairs]
        for arm, numbers in paper.RELATIVE.items()
    ]


def block(name: str, rows: Sequence[dict[str, Any]], seed: int) -> Lines:
    """A line for each arm that any pair has, then our gain and its standard error."""
    printed: Lines = []
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
