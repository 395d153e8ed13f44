"""Public functions with absurd numbers, shapes, types and choices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import semisure
from fuzz.hostile import chosen, odd_value, require
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
from semisure.types import LAW_NAMES

MATCHES, RESIDUAL = SyntheticMatcher().match(np.eye(3), count=60)
ARGUMENTS = {
    "source": MATCHES.source, "target": MATCHES.target, "side": MATCHES.side,
    "confidence": MATCHES.confidence, "fine_std": MATCHES.fine_std,
    "coarse_std": MATCHES.coarse_std, "source_size": (640, 480),
    "target_size": (640, 480),
}  # fmt: skip
NUMBERS = {
    "coarse_var_gain": (1.5, 1.2), "fine_var_gain": (0.8, 0.9), "spread_slope": 0.25,
    "doubt_slope": 1.2, "intercept": (-4.6, -4.4), "location": (0.1, 0.0),
    "model_error": 0.3,
}  # fmt: skip


def attack(rng: np.random.Generator, folder: Path) -> str:
    """One call of one public function."""
    return chosen(rng, (_refit, _refit, _calibration, _fit))(rng)


def _with_odd(rng: np.random.Generator, arguments: dict[str, Any]) -> dict[str, Any]:
    names = rng.choice(list(arguments), rng.integers(1, 3), replace=False)
    return arguments | {name: odd_value(rng, arguments[name]) for name in names}


def _refit(rng: np.random.Generator) -> str:
    """Matches and starts that are accepted lead to finite numbers everywhere."""
    matches, start = MATCHES, np.eye(3)
    if rng.random() < 0.5:
        matches = semisure.Matches(**_with_odd(rng, ARGUMENTS))
    else:
        start = odd_value(rng, start)
    if rng.random() < 0.5:
        inliers = np.ones(len(matches), bool)
        start = semisure.Estimate(model=start, inliers=inliers, estimator="mine")
    law, method = EXAMPLE_CALIBRATION, chosen(rng, ("core", "core+"))
    refit = semisure.refit_homography(matches, law, start, method=method)
    error = semisure.expected_abs_error(semisure.error_law(matches, law))
    for values in (error, refit.weight, refit.model, refit.covariance):
        require(values is None or np.isfinite(values).all(), "not finite")
    return "kept" if refit.reason else "refitted"


def _calibration(rng: np.random.Generator) -> str:
    calibration = semisure.Calibration(matcher="x", **_with_odd(rng, NUMBERS))
    error = semisure.expected_abs_error(semisure.error_law(MATCHES, calibration))
    require(not np.isnan(error).any(), "an expected error that is no number")
    return "evaluated"


def _fit(rng: np.random.Generator) -> str:
    residual = RESIDUAL * chosen(rng, (0.0, 1e-160, 1e-12, 1.0, 1e3, 1e8))
    residual = odd_value(rng, residual) if rng.random() < 0.6 else residual
    law = chosen(rng, (*LAW_NAMES, "nonsense"))
    calibration, _ = semisure.fit([(MATCHES, residual)], law=law)
    require(np.isfinite(calibration.fine_var_gain).all(), "gains that are not finite")
    return "fitted"
