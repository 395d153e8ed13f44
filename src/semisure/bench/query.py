"""One query in a map, for the bench ``localisation``: its pose by every arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from semisure.bench.match_cache import Exported, resizing
from semisure.bench.poses import SHIFTED
from semisure.bench.study import Calibrations
from semisure.datasets.aachen import MODEL, read_aachen_map
from semisure.datasets.query_maps import MAP_NAME, Query, is_located, read_located_map
from semisure.errors import InputError
from semisure.estimators.pose import estimate_pose
from semisure.estimators.settings import RansacSettings
from semisure.geometry import pose as se3
from semisure.maps.colmap import MapModel
from semisure.maps.lifting import lift
from semisure.refit import refit_pose, without_bias
from semisure.types import Calibration, FloatArray, WorldMatches

ARMS = ("base", SHIFTED, "core", "core+")
Poses = dict[str, FloatArray | None]  # by arm


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Task:
    """One query with its matches to each mapped image."""

    root: Path  # of the map, which every worker reads once
    files: tuple[Path, ...]  # that the map is made of
    data: str
    query: Query  # its mapped images are all in the map
    exported: Sequence[Exported]  # in their order
    calibrations: Calibrations
    matcher: str
    estimator: str
    settings: RansacSettings


@lru_cache(maxsize=1)
def map_of(root: Path) -> MapModel:
    """The map in a folder of either kind."""
    return read_located_map(root) if is_located(root) else read_aachen_map(root)


def map_files(root: Path) -> tuple[Path, ...]:
    """The files whose change makes another map."""
    if is_located(root):
        return (root / MAP_NAME,)
    return tuple(sorted((root / MODEL).glob("*")))


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
        "mapped": len(query.mapped),
        "reason": "no image of the map was retrieved",
    }
    if query.mapped:
        model = map_of(task.root)
        row["closest"] = _numbers(model.images[query.mapped[0]].pose)
        poses, details = poses_of(task, model)
        row |= details
    for arm in ARMS:
        if arm != SHIFTED or task.calibrations.ours.location is not None:
            row |= _of_arm(arm, poses.get(arm), poses.get("base"), query.truth)
    return row


def poses_of(task: Task, model: MapModel) -> tuple[Poses, dict[str, Any]]:
    """The pose by each arm, and how the start came about."""
    paper_law, law = task.calibrations.paper, task.calibrations.ours
    world = lifted(task, model, None)
    camera = task.query.camera.resized(world.size)
    start = estimate_pose(world, camera, task.estimator, task.settings)
    details = {
        "lifted": len(world),
        "inliers": int(start.inliers.sum()),
        "reason": start.reason,
    }
    if start.model is None:
        return {}, details
    core = refit_pose(world, camera, paper_law, start, method="core")
    poses: Poses = {"base": start.model, "core": core.model}
    if law.location is not None:
        world = lifted(task, model, law)
        unbiased, _ = without_bias(world, law)
        shifted = estimate_pose(unbiased, camera, task.estimator, task.settings)
        poses[SHIFTED] = shifted.model
    poses["core+"] = refit_pose(world, camera, law, start.model).model
    return poses, details


def lifted(task: Task, model: MapModel, law: Calibration | None) -> WorldMatches:
    """The 2D–3D matches of a query, lifted under `law` if one is given."""
    query, parts = task.query, []
    for name, exported in zip(query.mapped, task.exported, strict=True):
        if exported.sizes[0] != query.camera.size:
            (w, h), (cw, ch) = exported.sizes[0], query.camera.size
            raise InputError(
                f"The image of {query.name} is {w} × {h} px, but its camera {cw} × "
                f"{ch}; intrinsics must be those of the image as it is read."
            )
        matches = exported.matches()
        seen = observed(model, name, exported.sizes[1], matches.target_size)
        parts.append(lift(matches, *seen, calibration=law))
    return WorldMatches.joined(parts)


def observed(
    model: MapModel, name: str, before: tuple[int, int], after: tuple[int, int]
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """What a mapped image saw, in pixels of the image as it was matched."""
    points, world, error_px = model.observations(name)
    if before == after:
        return points, world, error_px
    H = resizing(np.array(before), np.array(after))
    scale = np.array([H[0, 0], H[1, 1]])
    return points * scale + H[:2, 2], world, error_px * np.sqrt(scale.prod())


def _of_arm(
    arm: str, pose: FloatArray | None, base: FloatArray | None, truth: FloatArray | None
) -> dict[str, Any]:
    row: dict[str, Any] = {f"{arm} pose": None if pose is None else _numbers(pose)}
    if truth is not None:
        lost = float("inf"), float("inf")
        apart, angle = lost if pose is None else se3.errors(pose, truth)
        row |= {f"{arm} m": apart, f"{arm} deg": angle}
    elif pose is not None and base is not None:
        row[f"{arm} moved m"] = se3.errors(pose, base)[0]
    return row


def _numbers(pose: FloatArray) -> str:
    """A pose as it is submitted: qw qx qy qz tx ty tz, from world to camera."""
    numbers = se3.seven_numbers(pose)
    return " ".join(f"{v:.12g}" for v in numbers)
