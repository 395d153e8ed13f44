"""Beyond the paper: fundamental matrices of photos without intrinsics, by estimator.

:mod:`semisure.bench.fundamental_errors` describes the arms and how they are judged.
Images are matched as they are unless a size is given.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from semisure.bench.auc_tables import Lines, Rows, auc_panels, gain_rows, our_row
from semisure.bench.data import matched_at
from semisure.bench.fundamental_errors import ARMS, PX, evaluate
from semisure.bench.outcome import Cell, Outcome, Table, where
from semisure.bench.relative_tasks import PAIRS_TAKEN, by_folder, tasks_of
from semisure.bench.study import Study
from semisure.estimators.fundamental import (
    FUNDAMENTAL_ESTIMATORS,
    FUNDAMENTAL_SETTINGS,
)

THRESHOLDS = (1, 2, 5, 10, 20)  # degrees
DRAWS = 500
_PACKAGES = {"poselib": "poselib"}
_TITLE = "Fundamental matrices: pose AUC (%), median distance of true correspondences"


def fundamental(study: Study) -> Outcome:
    """By matcher, folder and estimator; of several folders, all together too."""
    options = study.options
    names, missing = installed()
    settings = options.ransac(FUNDAMENTAL_SETTINGS)
    tasks, notes = tasks_of(study, settings, names)
    rows = study.rows(evaluate, tasks, "Fundamental matrices")
    printed: Lines = []
    gained: Lines = []
    for matcher in options.matchers:
        for data, some in by_folder(where(rows, matcher=matcher)).items():
            for name in names:
                mine = where(some, estimator=name)
                label = f"{study.label(matcher)}, {data}, {name}"
                printed += arm_rows(label, mine)
                gained += gains(label, mine, options.seed)
    notes.append(
        f"Inliers within {settings.threshold_px:g} px of their line; images "
        f"{matched_at(options.size)}. {PAIRS_TAKEN}"
    )
    notes += [f"Left out, not installed: {', '.join(missing)}."] if missing else []
    heads = [f"@{t}°" for t in THRESHOLDS]
    tables = [
        Table(
            name="fundamental",
            title=f"{_TITLE} (px, then °, over pairs)",
            head=["", "arm", *heads, "px", "°", "pairs"],
            rows=printed,
        ),
        Table(
            name="fundamental_gain",
            title="fundamental: gain of AUC (%), change of the median px, ± standard "
            f"error of {DRAWS} draws of the pairs",
            head=["", "arm", *heads, "px", "pairs"],
            rows=gained,
        ),
    ]
    panels = auc_panels(_whole(printed), THRESHOLDS, "threshold, degrees", ARMS)
    figures = {"fundamental": panels}
    return Outcome(tables=tables, rows=rows, figures=figures, notes=notes)


def installed() -> tuple[list[str], list[str]]:
    """The estimators that can be run here, and those that cannot."""
    missing = [
        name for name, package in _PACKAGES.items() if find_spec(package) is None
    ]
    return [name for name in FUNDAMENTAL_ESTIMATORS if name not in missing], missing


def arm_rows(name: str, rows: Rows) -> Lines:
    """AUC of each arm that the pairs have, then both medians."""
    lines: Lines = []
    for arm in (arm for arm in ARMS if rows and arm in rows[0]):
        *areas, pairs = our_row(name, arm, rows, THRESHOLDS)
        far = [row[arm + PX] for row in rows if arm + PX in row]
        px: Cell = float(np.median(far)) if far else None
        degrees = float(np.median([row[arm] for row in rows]))
        lines.append([*areas, px, degrees, pairs])
    return lines


def gains(name: str, rows: Rows, seed: int) -> Lines:
    """What core and core+ gain over the base, with standard errors over the pairs."""
    lines: Lines = []
    for line in gain_rows(name, rows, THRESHOLDS, seed):
        *areas, pairs = line
        far = [row for row in rows if f"base{PX}" in row]
        lines.append([*areas, change_px(far, str(line[1]), seed), pairs])
    return lines


def change_px(rows: Rows, arm: str, seed: int) -> str | None:
    """Change of the median distance by an arm, ± its standard error."""
    if not rows:
        return None
    both = np.array([[row[f"base{PX}"], row[arm + PX]] for row in rows])
    rng = np.random.default_rng(seed)
    drawn = both[rng.integers(0, len(both), (DRAWS, len(both)))]
    with np.errstate(invalid="ignore"):  # where most pairs have no F
        change = np.subtract(*np.median(both, axis=0)[::-1])
        spread = np.diff(np.median(drawn, axis=1), axis=1).std()
    return f"{change:+.3f} ± {spread:.3f}"


def _whole(printed: Lines) -> Lines:
    """Of several folders, the lines of all together: panels for each are too many."""
    together = [line for line in printed if ", all, " in str(line[0])]
    return together or printed
