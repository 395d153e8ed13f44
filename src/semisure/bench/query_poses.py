"""One query in a map: its pose by every arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from semisure.bench.arms import SHIFTED, Calibrations
from semisure.bench.exported import Exported
from semisure.bench.lifted_matches import lifted, map_of
from semisure.datasets.query_maps import Query
from semisure.estimators.pose import estimate_pose
from semisure.estimators.settings import RansacSettings
from semisure.geometry import pose as se3
from semisure.refit.core import without_bias
from semisure.refit.poses import refit_pose
from semisure.types import Pose

ARMS = ("base", SHIFTED, "core", "core+")
Poses = dict[str, Pose | None]  # by arm


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Task:
    """One query with its matches to each mapped image."""

    root: Path  # of the map, which every worker reads once
    own_map: Path | None  # a COLMAP model to take instead of the map that is there
    files: tuple[Path, ...]  # that the map is made of
    retrieval: str  # by what the mapped images were proposed
    data: str
    query: Query  # its mapped images are all in the map
    exported: Sequence[Exported]  # in their order
    calibrations: Calibrations
    matcher: str
    estimator: str
    settings: RansacSettings


def evaluate(task: Task) -> dict[str, Any]:
    """A row with each arm's pose and, where the truth is known, its errors."""
    query, poses = task.query, Poses()
    row: dict[str, Any] = {
        "query": query.name,
        "data": task.data,
        "condition": query.condition,
        "matcher": task.matcher,
        "estimator": task.estimator,
        "threshold_px": task.settings.threshold_px,
        "retrieval": task.retrieval,
        "mapped": len(query.mapped),
        "reason": "no image of the map was retrieved",
    }
    if query.mapped:
        closest = map_of(task.root, task.own_map).images[query.mapped[0]]
        row["closest"] = _numbers(closest.pose)
        poses, details = poses_of(task)
        row |= details
    for arm in ARMS:
        if arm != SHIFTED or task.calibrations.ours.location is not None:
            row |= _of_arm(arm, poses.get(arm), poses.get("base"), query.truth)
    return row


def poses_of(task: Task) -> tuple[Poses, dict[str, Any]]:
    """The pose by each arm, and details of the start that all share.

    Points are lifted as hloc does it, but for ``core+``: there the query's point
    follows the keypoint.
    """
    ours, model = task.calibrations.ours, map_of(task.root, task.own_map)
    world = lifted(model, task.query, task.exported)
    camera = task.query.camera.resized(world.size)
    start = estimate_pose(world, camera, task.estimator, task.settings)
    details = {
        "lifted": len(world),
        "inliers": int(start.inliers.sum()),
        "reason": start.reason,
    }
    if start.model is None:
        return {}, details
    core = refit_pose(world, camera, task.calibrations.paper, start, method="core")
    poses: Poses = {"base": start.model, "core": core.model}
    if ours.location is not None:
        unbiased, _ = without_bias(world, ours)
        shifted = estimate_pose(unbiased, camera, task.estimator, task.settings)
        poses[SHIFTED] = shifted.model
    moved = lifted(model, task.query, task.exported, compensate=True)
    poses["core+"] = refit_pose(moved, camera, ours, start.model).model
    return poses, details


def _of_arm(
    arm: str, pose: Pose | None, base: Pose | None, truth: Pose | None
) -> dict[str, Any]:
    row: dict[str, Any] = {f"{arm} pose": None if pose is None else _numbers(pose)}
    if truth is not None:
        lost = float("inf"), float("inf")
        apart, angle = lost if pose is None else se3.errors(pose, truth)
        row |= {f"{arm} m": apart, f"{arm} deg": angle}
    elif pose is not None and base is not None:
        row[f"{arm} moved m"] = se3.errors(pose, base)[0]
    return row


def _numbers(pose: Pose) -> str:
    """A pose as it is submitted: qw qx qy qz tx ty tz, from world to camera."""
    numbers = se3.seven_numbers(pose)
    return " ".join(f"{v:.12g}" for v in numbers)
