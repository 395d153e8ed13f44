"""Refits, covariances and estimators on matches of degenerate geometry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import semisure
from fuzz.hostile import chosen, require
from semisure.geometry import homography as plane
from semisure.geometry.camera import Camera
from semisure.geometry.pose import project as project_world
from semisure.refit.corners import corner_covariance
from semisure.refit.fundamental import refit_fundamental
from semisure.refit.poses import refit_pose
from semisure.refit.relative import refit_relative
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
from semisure.types import Calibration, Matches, WorldMatches

SIZE = (640, 480)
K = np.array([[500.0, 0, 320], [0, 500, 240], [0, 0, 1]])
LAWS = ("daisy", "xfeat-star", "xfeat-star-raw")


def attack(rng: np.random.Generator, folder: Path) -> str:
    """One refit, from an estimator or from a start that is more or less wrong."""
    calibration = EXAMPLE_CALIBRATION
    if rng.random() < 0.5:
        calibration = semisure.load_calibration(chosen(rng, LAWS))
    kind: Callable[..., str] = chosen(rng, (_homography, _lines, _relative, _pose))
    return kind(rng, _matches(rng), calibration)


def _matches(rng: np.random.Generator) -> Matches:
    """Matches of a homography, in a degenerate arrangement."""
    H = np.eye(3) + rng.normal(0, 1, (3, 3)) * [
        [0.2, 0.2, 50],
        [0.2, 0.2, 50],
        [1e-3, 1e-3, 0],
    ]
    count = int(chosen(rng, (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 60, 300)))
    seed = int(rng.integers(1 << 30))
    matches, _ = SyntheticMatcher().match(np.eye(3), count=max(count, 1), seed=seed)
    matches = matches.take(np.arange(count))
    source = _arranged(rng, matches.source.copy())
    with np.errstate(all="ignore"):
        target = plane.project(H, source) if rng.random() < 0.7 else source[::-1]
    target = target + rng.normal(0, chosen(rng, (0, 1e-9, 0.5, 30)), target.shape)
    target = np.clip(np.nan_to_num(target), -1e9, 1e9)
    side = chosen(rng, (0, 1, rng.integers(0, 2, count)))
    confidence = chosen(rng, (5e-324, 1e-12, 1.0, matches.confidence))
    return replace(
        matches,
        source=source,
        target=target,
        side=side,
        confidence=np.broadcast_to(confidence, (count,)),
        fine_std=matches.fine_std * chosen(rng, (0.0, 1e-12, 1, 1, 1, 1e6)),
        coarse_std=matches.coarse_std * chosen(rng, (0.0, 1e-12, 1, 1, 1, 1e6)),
    )


def _arranged(rng: np.random.Generator, points: Any) -> Any:
    kind = rng.integers(9)
    if kind == 0:
        points[:, 1] = 0.3 * points[:, 0] + 7  # a line
    elif kind == 1 and len(points):
        points[:] = points[0]  # one point
    elif kind == 2:
        points[:, 0] = 100.0
    elif kind == 3:
        points[len(points) // 2 :] = points[: len(points) - len(points) // 2]  # twice
    elif kind == 4:
        points *= chosen(rng, (0.0, 1e-9, 1e-3, 1e5))
    elif kind == 5:
        points[: -min(4, len(points)) or None, 1] = 5.0  # a line, and four others
    elif kind == 6:
        points[:] = np.round(points / 200) * 200  # a few places
    return points


def _check(refit: Any, matches: Any) -> str:
    weight = refit.weight
    require(weight.shape == (len(matches),), "a weight for each match")
    require(np.isfinite(weight).all(), "weights that are not finite")
    require(((weight >= 0) & (weight <= 1 + 1e-12)).all(), "weights beyond [0, 1]")
    if refit.model is None:
        require(refit.reason, "no model and no reason")
        return "no model"
    require(np.isfinite(refit.model).all(), "a model that is not finite")
    C = refit.covariance
    if C is not None:
        require(np.isfinite(C).all(), "a covariance that is not finite")
        values = np.linalg.eigvalsh(C)
        require(values[0] >= -1e-6 * max(values[-1], 1e-300), "a negative variance")
    return "kept" if refit.reason else "refitted"


def _homography(rng: np.random.Generator, matches: Matches, law: Calibration) -> str:
    start: Any = np.eye(3) + rng.normal(0, 0.3, (3, 3)) * [
        [1, 1, 99],
        [1, 1, 99],
        [0] * 3,
    ]
    if rng.random() < 0.5:
        start = semisure.estimate_homography(
            matches, chosen(rng, ("ransac", "magsac++"))
        )
    elif rng.random() < 0.3:
        start[2] = 1.0 / np.array([-320.0, 1e9, 1.0])  # a horizon through the image
    method = chosen(rng, ("core", "core+"))
    word = _check(
        semisure.refit_homography(matches, law, start, method=method), matches
    )
    if isinstance(start, np.ndarray):
        H = plane.checked(start, "start")
        C = corner_covariance(H, matches, replace(law, location=None))
        require(C is None or np.isfinite(C).all(), "a covariance that is not finite")
    return word


def _lines(rng: np.random.Generator, matches: Matches, law: Calibration) -> str:
    start: Any = rng.normal(0, 1, (3, 3))
    if rng.random() < 0.5:
        start = semisure.estimate_fundamental(matches)
    method = chosen(rng, ("core", "core+"))
    return _check(refit_fundamental(matches, law, start, method=method), matches)


def _rotation(rng: np.random.Generator) -> Any:
    Q, R = np.linalg.qr(rng.normal(0, 1, (3, 3)))
    Q = Q * np.sign(np.diag(R))
    return Q * np.sign(np.linalg.det(Q))


def _relative(rng: np.random.Generator, matches: Matches, law: Calibration) -> str:
    start: Any = np.column_stack([np.eye(3), rng.normal(0, 1, 3)])
    if rng.random() < 0.3:
        start = np.column_stack([_rotation(rng), rng.normal(0, 1, 3)])
    elif rng.random() < 0.5:
        start = semisure.estimate_relative(matches, K, K)
    method = chosen(rng, ("core", "core+"))
    return _check(refit_relative(matches, law, start, K, K, method=method), matches)


def _pose(rng: np.random.Generator, matches: Matches, law: Calibration) -> str:
    camera = Camera("PINHOLE", *SIZE, (500.0, 500.0, 320.0, 240.0))
    world = np.column_stack([(matches.source - 320) / 100, np.full(len(matches), 5.0)])
    world[:, 2] += rng.normal(0, chosen(rng, (0.0, 1e-9, 1.0, 9.0)), len(matches))
    P = np.column_stack([np.eye(3), rng.normal(0, 0.2, 3)])
    with np.errstate(all="ignore"):
        points = np.clip(np.nan_to_num(project_world(P, camera, world)), -1e9, 1e9)
    lifted = WorldMatches(
        points=points + rng.normal(0, 1, points.shape),
        world=world,
        confidence=matches.confidence,
        fine_std=matches.fine_std,
        coarse_std=matches.coarse_std,
        size=SIZE,
    )
    start: Any = P if rng.random() < 0.5 else semisure.estimate_pose(lifted, camera)
    method = chosen(rng, ("core", "core+"))
    return _check(refit_pose(lifted, camera, law, start, method=method), lifted)
