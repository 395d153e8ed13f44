"""The law adapted to a pair by the geometry that is estimated from its matches."""

from __future__ import annotations

from semisure.estimators import estimate_fundamental, estimate_homography
from semisure.geometry.epipolar import lines_of
from semisure.geometry.homography import residual
from semisure.refit import refit_fundamental, refit_homography, without_bias
from semisure.refit.pair_law import (
    PairLaw,
    pair_law_by_lines,
    pair_law_by_residuals,
)
from semisure.types import Calibration, Matches

ESTIMATOR = "magsac++"


def adapted_law(
    matches: Matches, calibration: Calibration, *, planar: bool
) -> PairLaw | None:
    """The law adapted to raw `matches`; None if no geometry is found.

    A homography is estimated if the scene is `planar`, else a fundamental matrix.
    """
    unbiased, _ = without_bias(matches, calibration)
    if planar:
        start = estimate_homography(unbiased, ESTIMATOR)
        H = refit_homography(matches, calibration, start, method="core+").model
        if H is None:
            return None
        return pair_law_by_residuals(matches, calibration, residual(H, unbiased))
    start = estimate_fundamental(unbiased, ESTIMATOR)
    F = refit_fundamental(matches, calibration, start, method="core+").model
    if F is None:
        return None
    return pair_law_by_lines(matches, calibration, lines_of(F[None], unbiased))
