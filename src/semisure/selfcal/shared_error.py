"""The error that all matches of a pair share, from pairs whose truth is known.

The sandwich of :mod:`semisure.refit.covariance` is estimated from residuals, but an
error that all matches share leaves none: the model follows it. How large it is,
relative to the pair's residuals and its change of view, is a property of the matcher,
as its scales are, and is fitted on the same pairs: the factor at which half of the true
models lie in the half region. (Its square gives the variance, in proportion to the
change of view: on random views of photos, by quartiles of that change, this factor is
the same.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from semisure.estimators import estimate_homography
from semisure.geometry import homography as plane
from semisure.refit import refit_homography
from semisure.refit.covariance import mahalanobis2
from semisure.types import Calibration, Matches, Matrix, PerAxis, Vector

MIN_PAIRS = 10  # a median of fewer is too uncertain
RANGE = 1e-3, 10.0
MEDIAN_CHI2_8 = 7.344121497701792  # median of χ² with 8 degrees of freedom
_BISECTIONS = 30

# A corner offset (8,), its covariance without a shared error, and with one of 1.
Trial = tuple[Vector, Matrix, Matrix]


def fit_shared_error(
    pairs: Iterable[tuple[Matches, PerAxis]],
    calibration: Calibration,
    estimator: str = "magsac++",
) -> float | None:
    """The shared error of a matcher, or None from too few pairs.

    `pairs` are matches of homography pairs with their exact residuals, as for
    :func:`semisure.fit`: the homography is recovered from them.
    """
    trials = [
        trial
        for matches, residual in pairs
        if (trial := _trial(matches, residual, calibration, estimator)) is not None
    ]
    if len(trials) < MIN_PAIRS:
        return None
    if _median_distance(trials, 0.0) <= MEDIAN_CHI2_8:
        return 0.0
    low, high = RANGE
    for _ in range(_BISECTIONS):
        middle = float(np.sqrt(low * high))
        if _median_distance(trials, middle) > MEDIAN_CHI2_8:
            low = middle
        else:
            high = middle
    return float(f"{high:.3g}")


def _trial(
    matches: Matches, residual: PerAxis, calibration: Calibration, estimator: str
) -> Trial | None:
    """One refit and its offset from the truth, or None if the refit failed."""
    diagonal = np.linalg.norm(matches.refined_size, axis=1)
    # A residual as long as the diagonal was cut there.
    whole = np.asarray(np.linalg.norm(residual, axis=1) < (1.0 - 1e-9) * diagonal)
    exact = matches.shifted(-residual).take(whole)
    truth = plane.weighted_dlt(exact.source, exact.target, np.ones(len(exact)))
    if truth is None:
        return None
    start = estimate_homography(matches, estimator)
    # Views that were made have no lens.
    exact_law = replace(calibration, model_error=0.0)
    alone, shared = (
        refit_homography(matches, replace(exact_law, shared_error=share), start)
        for share in (0.0, 1.0)
    )
    C_0, C_1 = alone.covariance, shared.covariance
    if alone.model is None or C_0 is None or C_1 is None:
        return None
    frame = plane.corners(matches.source_size)
    offset = plane.project(alone.model, frame) - plane.project(truth, frame)
    return offset.ravel(), C_0, C_1


def _median_distance(trials: list[Trial], share: float) -> float:
    """Median squared Mahalanobis distance of the truths; linear in share²."""
    distances = [
        mahalanobis2(alone + share**2 * (shared - alone), offset)
        for offset, alone, shared in trials
    ]
    return float(np.median(distances))
