"""One pair with cameras: the error of its relative pose before and after each refit.

All arms of a pair start from the same estimate on the same matches: the paper's with
its zero-mean law, ``core+`` with ours, which may have a location. ``base − shift`` is
the estimator on matches less that location: what of our gain is the location's alone.
The ``depth-`` arms, the paper's, are given each point's true depth and the baseline's
length, and have the pairs with depth only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from semisure.bench.arms import SHIFTED, Calibrations
from semisure.bench.exported import Exported
from semisure.datasets.posed import PosedPair, depth_at
from semisure.estimators.relative import RELATIVE_ESTIMATORS, estimate_relative
from semisure.estimators.settings import RansacSettings
from semisure.metrics import pose_error_deg
from semisure.refit.core import without_bias
from semisure.refit.relative import RelativeMethod, refit_relative
from semisure.types import Estimate, Matches, PerMatch, as_choice

METHODS: tuple[RelativeMethod, ...] = (
    "core",
    "core-lines",
    "core+",
    "depth-huber",
    "depth-core",
)
ARMS = ("base", SHIFTED, *METHODS)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Task:
    """One pair and one estimator."""

    exported: Exported
    calibrations: Calibrations
    matcher: str
    data: str
    estimator: str
    settings: RansacSettings

    @property
    def pair(self) -> PosedPair:
        """The cameras of the images as they were matched."""
        assert isinstance(self.exported.truth, PosedPair)
        return self.exported.truth

    def about(self, matches: Matches, start: Estimate) -> dict[str, Any]:
        """The columns that say what a row is about."""
        return {
            "pair": self.exported.name,
            "data": self.data,
            "matcher": self.matcher,
            "estimator": self.estimator,
            "threshold_px": self.settings.threshold_px,
            "matches": len(matches),
            "inliers": int(start.inliers.sum()),
        }


def check_estimator(name: str) -> None:
    """Raise unless it estimates relative poses."""
    as_choice("The estimator of a relative pose", name, RELATIVE_ESTIMATORS)


def evaluate(task: Task) -> dict[str, Any]:
    """A row of pose errors in degrees, inf where there is no pose."""
    matches, ours = task.exported.matches(), task.calibrations.ours
    start = _estimate(task, matches)
    row = {**task.about(matches, start), "base": _error(task, start)}
    if ours.location is not None:
        shifted, _ = without_bias(matches, ours)
        row[SHIFTED] = _error(task, _estimate(task, shifted))
    return row | _refits(task, matches, start)


def _estimate(task: Task, matches: Matches) -> Estimate:
    K = task.pair.camera0.K, task.pair.camera1.K
    return estimate_relative(matches, *K, task.estimator, task.settings)


def _error(task: Task, estimate: Estimate) -> float:
    return pose_error_deg(estimate.model, task.pair.P_01)


def _refits(task: Task, matches: Matches, start: Estimate) -> dict[str, float]:
    """The error after each refit."""
    pair = task.pair
    depth = anchor_depth(pair, matches)
    baseline = float(np.linalg.norm(pair.P_01[:, 3]))
    errors: dict[str, float] = {}
    for method in METHODS:
        if depth is None and method.startswith("depth"):
            continue
        refit = refit_relative(
            matches,
            task.calibrations.of_arm(method),
            start,
            pair.camera0.K,
            pair.camera1.K,
            method=method,
            depth=depth,
            baseline=baseline,
        )
        errors[method] = pose_error_deg(refit.model, pair.P_01)
    return errors


def anchor_depth(pair: PosedPair, matches: Matches) -> PerMatch | None:
    """Depth of each match's unrefined point; None where an image has none."""
    z0 = depth_at(pair.camera0, matches.source, matches.source_size)
    z1 = depth_at(pair.camera1, matches.target, matches.target_size)
    return None if z0 is None or z1 is None else np.where(matches.side == 1, z0, z1)
