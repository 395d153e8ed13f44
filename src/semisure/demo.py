"""The demo: a law planted, fitted back, and used to better a homography."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from semisure.calibrate import FitReport, fit
from semisure.estimators import PAPER_ESTIMATORS, estimate_homography
from semisure.metrics import corner_error
from semisure.mixture import expected_abs_error
from semisure.refit import refit_homography
from semisure.synthetic import SyntheticMatcher, random_homography
from semisure.types import Calibration
from semisure.variants import error_law

CALIBRATION_PAIRS = 20
TEST_PAIRS = 20


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demo found."""

    calibration: Calibration
    report: FitReport
    expected_px: float  # mean predicted error of the test matches
    observed_px: float
    errors: dict[str, tuple[float, float, float]]  # median px: base, core, core+


def run(seed: int = 0, tick: Callable[[], None] = lambda: None) -> DemoResult:
    """Calibrate on planted pairs, then compare the refits on others."""
    calibration, report = fit(
        (matches, residual) for matches, residual, _ in _pairs(seed, CALIBRATION_PAIRS)
    )
    errors: dict[str, list[tuple[float, ...]]] = {name: [] for name in PAPER_ESTIMATORS}
    expected, observed = [], []
    for matches, residual, truth in _pairs(seed + 1, TEST_PAIRS):
        expected.append(expected_abs_error(error_law(matches, calibration)))
        observed.append(np.abs(residual).mean(axis=1))
        for name in PAPER_ESTIMATORS:
            base = estimate_homography(matches, name)
            core = refit_homography(matches, calibration, base, method="core")
            plus = refit_homography(matches, calibration, base)
            models = (base.model, core.model, plus.model)
            size = matches.source_size
            errors[name].append(tuple(corner_error(H, truth, size) for H in models))
        tick()
    medians = {name: np.median(rows, axis=0) for name, rows in errors.items()}
    return DemoResult(
        calibration,
        report,
        float(np.concatenate(expected).mean()),
        float(np.concatenate(observed).mean()),
        {name: (float(b), float(c), float(p)) for name, (b, c, p) in medians.items()},
    )


def _pairs(seed: int, count: int) -> Iterator[tuple]:  # type: ignore[type-arg]
    rng = np.random.default_rng(seed)
    for _ in range(count):
        truth = random_homography(rng)
        drawn = int(rng.integers(2**31))
        yield *SyntheticMatcher().match(truth, count=1500, seed=drawn), truth
