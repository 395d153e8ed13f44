"""The refit weights of the paper's ablation.

Every function returns ω (n,), the factor of each match's squared error. A factor that
all weights share changes no fit, so none is normalised.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from semisure.law.error_laws import error_law
from semisure.law.families import LAPLACE
from semisure.law.mixture import STD_FLOOR_PX, ErrorLaw, coarse_success, expit
from semisure.types import (
    Calibration,
    Mask,
    Matches,
    PerAxis,
    PerMatch,
    WorldMatches,
)

RefitMethod = Literal[
    "core+",
    "core",
    "uniform",
    "binary",
    "huber",
    "laplace-laplace",
    "confidence",
    "fine-std",
]
REFIT_METHODS: tuple[RefitMethod, ...] = get_args(RefitMethod)

INLIER_THRESHOLD_PX = 3.0  # of a model that comes without inliers
HUBER_THRESHOLD_PX = 2.0  # the paper's
_MIN_SCALE_PX = 1e-3  # residuals of an exact fit have no scale


def huber(residual: PerAxis, threshold_px: float = HUBER_THRESHOLD_PX) -> PerMatch:
    """One step of Huber's M-estimator: min(1, δ / ‖r‖).

    >>> huber(np.array([[0.0, 1.0], [3.0, 4.0]]))
    array([1. , 0.4])
    """
    distance = np.linalg.norm(residual, axis=1)
    return threshold_px / np.maximum(distance, threshold_px)


def laplace_laplace(residual: PerAxis, inliers: Mask) -> PerMatch:
    """Posterior of a mixture fitted to the residuals alone.

    Its scales are the mean |r| of inliers and outliers per axis and its prior the
    inlier ratio, all of the initial model; no matcher cue enters.
    """
    if inliers.all() or not inliers.any():
        return inliers.astype(np.float64)
    x = np.abs(residual)
    finite = np.isfinite(x).all(axis=1)
    fine = np.maximum(x[inliers & finite].mean(axis=0), _MIN_SCALE_PX)
    outliers = x[~inliers & finite]
    coarse = outliers.mean(axis=0) if len(outliers) else fine
    coarse = np.maximum(coarse, _MIN_SCALE_PX)
    log_odds = LAPLACE.log_density(x, fine) - LAPLACE.log_density(x, coarse)
    share = inliers.mean()
    prior = np.log(share / (1.0 - share))
    return np.where(finite, expit(log_odds + prior).prod(axis=1), 0.0)


def fine_density(residual: PerAxis, fine_std: PerAxis) -> PerMatch:
    """Π_d Lap(r_d | 0, s̃ᶠ_d): the density of the residual by the raw fine std alone.

    The paper does not say how it turns that standard deviation into a weight. Its row
    is above the base at 30 px, where no weight can be that ignores residuals: then one
    confident outlier spoils the fit.

    >>> fine_density(np.array([[0.0, 2.0]]), np.array([[1.0, 2.0]])).round(4)  # e⁻¹ / 8
    array([0.046])
    """
    raw = np.maximum(fine_std, STD_FLOOR_PX)
    return np.exp(LAPLACE.log_density(np.abs(residual), raw).sum(axis=1))


def core(law: ErrorLaw, residual: PerAxis) -> PerMatch:
    """CoRe: product over axes of the coarse-success posterior (eq. weight_approx).

    Where a match's coarse scale is smaller than its fine one, this rises with the
    residual; :func:`semisure.law.mixture.ordered` guards against that.
    """
    success = coarse_success(law, residual)
    return success[:, 0] * success[:, 1]


def one_step_weight(
    method: str,
    matches: Matches | WorldMatches,
    calibration: Calibration,
    residual: PerAxis,
    inliers: Mask | None,
) -> PerMatch:
    """The weight of a method that takes one step, from the initial residuals.

    Where the start came without `inliers`, they are those within 3 px of it.
    """
    if inliers is None:
        inliers = np.linalg.norm(residual, axis=1) <= INLIER_THRESHOLD_PX
    if method == "core":
        return core(error_law(matches, calibration), residual)
    if method == "uniform":
        return np.ones(len(matches))
    if method == "binary":
        return inliers.astype(np.float64)
    if method == "huber":
        return huber(residual)
    if method == "laplace-laplace":
        return laplace_laplace(residual, inliers)
    if method == "confidence":
        return matches.confidence
    return fine_density(residual, matches.fine_std)
