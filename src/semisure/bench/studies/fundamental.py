"""Beyond the paper: fundamental matrices of photos without intrinsics, by estimator.

Nothing but the matches is given to estimator and refits. The true intrinsics then turn
each F into a pose, whose error is that of :mod:`semisure.bench.studies.relative`; where
depth is known, the matches moved to where they should be tell how far F's lines pass
from true correspondences. Images are matched as they are unless a size is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np

from semisure.bench.calibrations import SHIFTED
from semisure.bench.data import matched_at
from semisure.bench.exported import residual_of
from semisure.bench.outcome import Cell, Outcome, Table, where
from semisure.bench.studies.homography import (
    Lines,
    auc_lines,
    auc_panels,
    gain_lines,
)
from semisure.bench.studies.relative import PAIRS_TAKEN, PosedTask, by_folder, tasks_of
from semisure.bench.study import Study
from semisure.datasets.posed import PosedPair
from semisure.estimators import estimate_fundamental
from semisure.estimators.fundamental import (
    FUNDAMENTAL_ESTIMATORS,
    FUNDAMENTAL_SETTINGS,
)
from semisure.geometry import epipolar
from semisure.io.cache import Row
from semisure.metrics import pose_error_deg
from semisure.refit.core import without_bias
from semisure.refit.fundamental import FundamentalMethod, refit_fundamental
from semisure.types import Estimate, Matches, Matrix3, Pose

METHODS: tuple[FundamentalMethod, ...] = ("core", "core+")
ARMS = ("base", SHIFTED, *METHODS)
PX = " px"  # after an arm: the median distance of true correspondences from its lines
THRESHOLDS = (1, 2, 5, 10, 20)  # degrees
DRAWS = 500
_PACKAGES = {"poselib": "poselib"}


def evaluate(task: PosedTask) -> Row:
    """A row of pose errors in degrees and distances in px, inf where there is no F."""
    matches, ours = task.exported.matches(), task.calibrations.ours
    start = _estimate(task, matches)
    models = {"base": start.model}
    if ours.location is not None:
        models[SHIFTED] = _estimate(task, without_bias(matches, ours)[0]).model
    refits = {
        method: refit_fundamental(
            matches, task.calibrations.of_arm(method), start, method=method
        )
        for method in METHODS
    }
    models |= {method: refit.model for method, refit in refits.items()}
    return {
        **task.about(matches, start),
        "kept": refits["core+"].reason,  # why core+ kept the start, if it did
        **_errors(task, matches, models),
    }


def _estimate(task: PosedTask, matches: Matches) -> Estimate:
    return estimate_fundamental(matches, task.estimator, task.settings)


def _errors(
    task: PosedTask, matches: Matches, models: dict[str, Matrix3 | None]
) -> dict[str, float]:
    """Of each arm the pose error and, with depth, the distance."""
    pair, limit = task.pair, task.settings.threshold_px
    errors = {
        arm: pose_error_deg(_pose(F, pair, matches, limit), pair.P_01)
        for arm, F in models.items()
    }
    true = _true_correspondences(task, matches)
    if true is not None and len(true):
        errors |= {arm + PX: median_distance(F, true) for arm, F in models.items()}
    return errors


def _pose(
    F: Matrix3 | None, pair: PosedPair, matches: Matches, limit: float
) -> Pose | None:
    """The pose that F and the true intrinsics give, most inliers in front."""
    if F is None:
        return None
    K0, K1 = pair.camera0.K, pair.camera1.K
    rays0, rays1 = epipolar.rays(K0, matches.source), epipolar.rays(K1, matches.target)
    near = np.abs(epipolar.lines_of(F[None], matches).distance) <= limit
    return epipolar.pose_in_front(K1.T @ F @ K0, rays0, rays1, near.astype(np.float64))


def _true_correspondences(task: PosedTask, matches: Matches) -> Matches | None:
    """The matches moved to their truth, those that have one; None without depth."""
    if task.pair.camera0.depth is None or task.pair.camera1.depth is None:
        return None
    residual = residual_of(task.exported, matches)
    seen = np.asarray(np.isfinite(residual).all(axis=1))
    return matches.take(seen).shifted(-residual[seen])


def median_distance(F: Matrix3 | None, true: Matches) -> float:
    """Median distance in px of the refined points from their lines; inf without F."""
    if F is None:
        return float("inf")
    return float(np.median(np.abs(epipolar.lines_of(F[None], true).distance)))


def fundamental(study: Study) -> Outcome:
    """By matcher, folder and estimator; of several folders, all together too."""
    options = study.options
    missing = [name for name, package in _PACKAGES.items() if not find_spec(package)]
    names = [name for name in FUNDAMENTAL_ESTIMATORS if name not in missing]
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
                printed += arm_lines(label, mine)
                gained += _gains(label, mine, options.seed)
    notes.append(
        f"Inliers within {settings.threshold_px:g} px of their line; images "
        f"{matched_at(options.size)}. {PAIRS_TAKEN}"
    )
    notes += [f"Left out, not installed: {', '.join(missing)}."] if missing else []
    heads = [f"@{t}°" for t in THRESHOLDS]
    tables = [
        Table(
            name="fundamental",
            title="Fundamental matrices: pose AUC (%), median distance of true "
            "correspondences (px, then °, over pairs)",
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
    # Of several folders, all together: panels for each are too many.
    together = [line for line in printed if ", all, " in str(line[0])] or printed
    panels = auc_panels(together, THRESHOLDS, "threshold, degrees", ARMS)
    figures = {"fundamental": panels}
    return Outcome(tables=tables, rows=rows, figures=figures, notes=notes)


def arm_lines(name: str, rows: Sequence[Row]) -> Lines:
    """AUC of each arm that the pairs have, then both medians."""
    lines: Lines = []
    arms = [arm for arm in ARMS if rows and arm in rows[0]]
    for arm, line in zip(arms, auc_lines(name, rows, THRESHOLDS, arms), strict=True):
        *areas, pairs = line
        far = [row[arm + PX] for row in rows if arm + PX in row]
        px: Cell = float(np.median(far)) if far else None
        degrees = float(np.median([row[arm] for row in rows]))
        lines.append([*areas, px, degrees, pairs])
    return lines


def _gains(name: str, rows: Sequence[Row], seed: int) -> Lines:
    """What core and core+ gain over the base, with standard errors over the pairs."""
    lines: Lines = []
    for *areas, pairs in gain_lines(name, rows, THRESHOLDS, seed):
        far = [row for row in rows if f"base{PX}" in row]
        lines.append([*areas, change_px(far, str(areas[1]), seed), pairs])
    return lines


def change_px(rows: Sequence[Row], arm: str, seed: int) -> str | None:
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
