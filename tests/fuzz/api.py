"""Public functions with absurd numbers, shapes, types and choices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import semisure
from fuzz.hostile import ODD, chosen, require, with_odd
from semisure.refit.fundamental import refit_fundamental
from semisure.refit.relative import refit_relative
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
from semisure.types import LAW_NAMES

MATCHES, RESIDUAL = SyntheticMatcher().match(np.eye(3), count=60)
K = np.array([[500.0, 0, 320], [0, 500, 240], [0, 0, 1]])
NO_NUMBERS: tuple[Any, ...] = (
    None, "x", b"x", [], {}, [[1], [1, 2]], object(), 1j, np.array(["a"]), True,
    np.ma.masked_array([1.0]), [None], 10**400, np.datetime64("2020"),
)  # fmt: skip
FIELDS = ("source", "target", "confidence", "fine_std", "coarse_std", "side")


def attack(rng: np.random.Generator, folder: Path) -> str:
    """One call of one public function."""
    kind: Callable[[np.random.Generator], str] = chosen(
        rng,
        (_matches, _matches, _calibration, _fit, _refit, _start, _camera, _estimate),
    )
    return kind(rng)


def _odd_value(rng: np.random.Generator, value: Any) -> Any:
    """A value with something wrong about its numbers, shape or type."""
    kind = rng.integers(8)
    if kind == 0 or any(value is other for other in NO_NUMBERS):
        return chosen(rng, NO_NUMBERS)
    if kind == 1:
        return np.atleast_1d(np.asarray(value))[: int(rng.integers(5))]
    if kind == 2:
        return np.asarray(value).T
    if kind == 3:
        return np.asarray(value)[..., None]
    if kind == 4:
        return chosen(rng, ODD)
    return with_odd(rng, value)


def _arguments(rng: np.random.Generator) -> dict[str, Any]:
    arguments = {name: getattr(MATCHES, name) for name in FIELDS}
    arguments |= {"source_size": (640, 480), "target_size": (640, 480)}
    for _ in range(int(rng.integers(1, 3))):
        name = chosen(rng, arguments)
        arguments[name] = _odd_value(rng, arguments[name])
    return arguments


def _matches(rng: np.random.Generator) -> str:
    """Matches that are accepted must lead to finite numbers everywhere."""
    matches = semisure.Matches(**_arguments(rng))
    law = semisure.error_law(matches, EXAMPLE_CALIBRATION)
    for values in (
        semisure.expected_abs_error(law),
        semisure.coarse_failure(law),
        semisure.coarse_success(law, np.zeros((len(matches), 2))),
    ):
        require(np.isfinite(values).all(), "a law that is not finite")
    method = chosen(rng, ("core", "core+"))
    refit = semisure.refit_homography(
        matches, EXAMPLE_CALIBRATION, np.eye(3), method=method
    )
    require(np.isfinite(refit.weight).all(), "weights that are not finite")
    require(np.isfinite(refit.model).all(), "a model that is not finite")
    C = refit.covariance
    require(C is None or np.isfinite(C).all(), "a covariance that is not finite")
    return "refitted"


def _calibration(rng: np.random.Generator) -> str:
    names = ("coarse_var_gain", "fine_var_gain", "intercept", "location")
    arguments: dict[str, Any] = {
        "coarse_var_gain": (1.5, 1.2),
        "fine_var_gain": (0.8, 0.9),
        "spread_slope": 0.25,
        "doubt_slope": 1.2,
        "intercept": (-4.6, -4.4),
        "matcher": "x",
        "location": (0.1, 0.0),
    }
    name = chosen(rng, (*names, "spread_slope", "doubt_slope", "model_error", "law"))
    before = arguments.get(name, 0.3)
    arguments[name] = _odd_value(rng, before)
    calibration = semisure.Calibration(**arguments)
    law = semisure.error_law(MATCHES, calibration)
    expected = semisure.expected_abs_error(law)
    require(not np.isnan(expected).any(), "an expected error that is no number")
    return "evaluated"


def _fit(rng: np.random.Generator) -> str:
    residual = RESIDUAL * chosen(rng, (0.0, 1e-160, 1e-12, 1.0, 1e3, 1e8))
    if rng.random() < 0.6:
        residual = _odd_value(rng, residual)
    calibration, report = semisure.fit(
        [(MATCHES, residual)],
        law=chosen(rng, (*LAW_NAMES, "nonsense")),
        location=bool(rng.integers(2)),
    )
    require(np.isfinite(calibration.fine_var_gain).all(), "gains that are not finite")
    require(report.summary(), "no summary")
    return "fitted"


def _refit(rng: np.random.Generator) -> str:
    values = {name: getattr(MATCHES, name) for name in FIELDS[:-1]}
    name = chosen(rng, values)
    values[name] = _odd_value(rng, values[name])
    source, target = values.pop("source"), values.pop("target")
    H, weight = semisure.refit_points(
        source, target, np.eye(3), EXAMPLE_CALIBRATION, **values,
        source_size=(640, 480), target_size=(640, 480),
    )  # fmt: skip
    require(np.isfinite(H).all() and np.isfinite(weight).all(), "not finite")
    return "refitted"


def _start(rng: np.random.Generator) -> str:
    """Starts that are no models, as they are and from an estimator."""
    pose = np.column_stack([np.eye(3), [1.0, 0, 0]])
    kind = int(rng.integers(3))
    start = _odd_value(rng, (np.eye(3), np.eye(3)[::-1], pose)[kind])
    if rng.random() < 0.5:
        inliers: Any = np.ones(60, bool) if rng.random() < 0.8 else _odd_value(rng, [1])
        start = semisure.Estimate(model=start, inliers=inliers, estimator="mine")
    method = chosen(rng, ("core", "core+", "nonsense"))
    if kind == 0:
        refit = semisure.refit_homography(
            MATCHES, EXAMPLE_CALIBRATION, start, method=method
        )
    elif kind == 1:
        refit = refit_fundamental(MATCHES, EXAMPLE_CALIBRATION, start, method=method)
    else:
        cameras = K, _odd_value(rng, K) if rng.random() < 0.3 else K
        refit = refit_relative(
            MATCHES, EXAMPLE_CALIBRATION, start, *cameras, method=method
        )
    require(np.isfinite(refit.weight).all(), "weights that are not finite")
    return "kept" if refit.reason else "refitted"


def _camera(rng: np.random.Generator) -> str:
    params = _odd_value(rng, (500.0, 500.0, 320.0, 240.0))
    size = (640, 480) if rng.random() < 0.7 else (_odd_value(rng, 640), 480)
    camera = semisure.Camera("PINHOLE", *size, params)
    require(camera.focal > 0 and np.isfinite(camera.focal), "a focal length")
    return "made"


def _estimate(rng: np.random.Generator) -> str:
    settings = semisure.RansacSettings(
        threshold_px=_scalar(rng, 3.0),
        max_iterations=_not_for_hours(_scalar(rng, 500)),
        confidence=_scalar(rng, 0.99),
        seed=_scalar(rng, 0),
    )
    estimate = semisure.estimate_homography(
        MATCHES, chosen(rng, ("ransac", "magsac++", "nonsense")), settings
    )
    require(estimate.model is not None or estimate.reason, "neither model nor reason")
    return "estimated"


def _not_for_hours(iterations: Any) -> Any:
    """A billion iterations are no nonsense: they take as long as they take."""
    known = isinstance(iterations, (int, float)) and 1e5 < iterations < 2**31
    return 500 if known else iterations


def _scalar(rng: np.random.Generator, usual: float) -> Any:
    if rng.random() < 0.6:
        return usual
    return chosen(rng, (*ODD, *NO_NUMBERS, -1, 0, 2**31, 2**63))
