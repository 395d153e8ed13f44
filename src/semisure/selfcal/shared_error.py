"""The error that all matches of a pair share, from pairs whose truth is known.

The sandwich of :mod:`semisure.refit.covariance` is estimated from residuals, but an
error that all matches share leaves none: the model follows it. How large it is,
relative to the pair's residuals and its change of view, is a property of the matcher,
as its scales are, and is fitted on the same pairs: of some factors the one by which the
true models are likeliest, the model error that is found beside it included. (Its square
gives the variance, in proportion to the change of view: on random views of photos, by
quartiles of that change, this factor is the same.)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from semisure.estimators import estimate_homography
from semisure.geometry import homography as plane
from semisure.refit import refit_homography
from semisure.refit.covariance import mahalanobis2
from semisure.types import Calibration, Matches, Matrix, Matrix3, PerAxis, Vector

MIN_PAIRS = 10  # a median of fewer is too uncertain
FACTORS = (0.0, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0)
FREEDOM = 8.0  # of Student's law: a pair that is far off does not decide

# A corner offset (8,), and its covariance by each of the factors.
Trial = tuple[Vector, list[Matrix]]


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
    loss = [
        sum(_loss(C[i], offset) for offset, C in trials) for i in range(len(FACTORS))
    ]
    return FACTORS[int(np.argmin(loss))]


def _trial(
    matches: Matches, residual: PerAxis, calibration: Calibration, estimator: str
) -> Trial | None:
    """One refit and its offset from the truth, or None if the refit failed."""
    truth = true_homography(matches, residual)
    if truth is None:
        return None
    start = estimate_homography(matches, estimator)
    # Views that were made have no lens.
    law = replace(calibration, model_error=0.0)
    refit = refit_homography(matches, law, start)
    if refit.model is None:
        return None
    covariances = [
        refit_homography(
            matches, replace(law, shared_error=factor), refit.model
        ).covariance
        for factor in FACTORS
    ]
    if any(C is None for C in covariances):
        return None
    frame = plane.corners(matches.source_size)
    offset = plane.project(refit.model, frame) - plane.project(truth, frame)
    return offset.ravel(), [C for C in covariances if C is not None]


def true_homography(matches: Matches, residual: PerAxis) -> Matrix3 | None:
    """The homography under which the matches have these residuals."""
    diagonal = np.linalg.norm(matches.refined_size, axis=1)
    # A residual as long as the diagonal was cut there.
    whole = np.asarray(np.linalg.norm(residual, axis=1) < (1.0 - 1e-9) * diagonal)
    exact = matches.shifted(-residual).take(whole)
    return plane.weighted_dlt(exact.source, exact.target, np.ones(len(exact)))


def _loss(C: Matrix, offset: Vector) -> float:
    """−2 log density of an offset by Student's law, but for a constant."""
    far = np.log1p(mahalanobis2(C, offset) / FREEDOM)
    return float(np.linalg.slogdet(C)[1] + (FREEDOM + len(offset)) * far)
