"""Estimates and refits of matches in degenerate arrangements."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import semisure
from fuzz.hostile import chosen, require
from semisure.geometry import homography as plane
from semisure.refit.fundamental import refit_fundamental
from semisure.refit.relative import refit_relative
from semisure.synthetic import SyntheticMatcher
from semisure.types import Matches

K = np.array([[500.0, 0, 320], [0, 500, 240], [0, 0, 1]])
LAWS = ("daisy", "xfeat-star", "xfeat-star-raw")
WARP = np.array([[0.2, 0.2, 50], [0.2, 0.2, 50], [1e-3, 1e-3, 0]])
FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "homography": (semisure.estimate_homography, semisure.refit_homography),
    "lines": (semisure.estimate_fundamental, refit_fundamental),
    "relative": (semisure.estimate_relative, refit_relative),
}
COUNTS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 60, 300)


def attack(rng: np.random.Generator, folder: Path) -> str:
    """One refit, from an estimator or from a start that is more or less wrong."""
    law, matches = semisure.load_calibration(chosen(rng, LAWS)), _matches(rng)
    kind = chosen(rng, ("homography", "lines", "relative"))
    cameras = (K, K) if kind == "relative" else ()
    estimate, refine = FUNCTIONS[kind]
    start: Any = rng.normal(0, 1, (3, 3))
    if rng.random() < 0.5:
        start = estimate(matches, *cameras)
    elif kind == "homography":
        start = np.eye(3) + start * WARP
    elif kind == "relative":
        start = np.column_stack([np.eye(3), start[0]])
    refit = refine(matches, law, start, *cameras, method=chosen(rng, ("core", "core+")))
    _check(refit, len(matches))
    return "kept" if refit.reason else "refitted"


def _check(refit: Any, count: int) -> None:
    weight, covariance = refit.weight, refit.covariance
    require(weight.shape == (count,), "a weight for each match")
    require(((weight >= 0) & (weight <= 1 + 1e-12)).all(), "weights beyond [0, 1]")
    require(refit.model is not None or refit.reason, "no model and no reason")
    for values in (refit.model, covariance):
        require(values is None or np.isfinite(values).all(), "not finite")
    if covariance is not None:
        values = np.linalg.eigvalsh(covariance)
        require(values[0] >= -1e-6 * max(values[-1], 1e-300), "a negative variance")


def _matches(rng: np.random.Generator) -> Matches:
    """Matches of a homography, in a degenerate arrangement."""
    count, seed = chosen(rng, COUNTS), int(rng.integers(1 << 30))
    matches, _ = SyntheticMatcher().match(np.eye(3), count=max(count, 1), seed=seed)
    matches = matches.take(np.arange(count))
    source = _arranged(rng, matches.source.copy())
    with np.errstate(all="ignore"):
        target = plane.project(np.eye(3) + rng.normal(0, 1, (3, 3)) * WARP, source)
    target = target + rng.normal(0, chosen(rng, (0, 1e-9, 0.5, 30)), target.shape)
    confidence = chosen(rng, (5e-324, 1e-12, 1.0, matches.confidence))
    return replace(
        matches,
        source=source,
        target=np.clip(np.nan_to_num(target), -1e9, 1e9),
        side=chosen(rng, (0, 1, rng.integers(0, 2, count))),
        confidence=np.broadcast_to(confidence, (count,)),
        fine_std=matches.fine_std * chosen(rng, (0.0, 1e-12, 1, 1, 1, 1e6)),
        coarse_std=matches.coarse_std * chosen(rng, (0.0, 1e-12, 1, 1, 1, 1e6)),
    )


def _arranged(rng: np.random.Generator, points: Any) -> Any:
    kind, half = rng.integers(8), len(points) // 2
    if kind == 0:
        points[:, 1] = 0.3 * points[:, 0] + 7  # a line
    elif kind == 1:
        points[:] = points[:1]  # one point
    elif kind == 2:
        points[half:] = points[: len(points) - half]  # each twice
    elif kind == 3:
        points *= chosen(rng, (0.0, 1e-9, 1e-3, 1e5))
    elif kind == 4:
        points[: -min(4, len(points)) or None, 1] = 5.0  # a line, and four others
    elif kind == 5:
        points[:] = np.round(points / 200) * 200  # a few places
    return points
