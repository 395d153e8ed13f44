"""CoRe: one posterior-weighted refit after any robust estimator (Alg. weighted_refit).

``core`` is the paper's: ω from the initial model's residuals, one weighted DLT.

``core+`` is ours. The same ω, but (1) each axis whitened by its calibrated fine scale,
(2) errors in pixels, not algebraic, (3) the fine Laplace's own robustness, rounded at
zero so that it has curvature: weight ω / (sᶠ √(r² + sᶠ²)), (4) repeated until the
image's corners stand still, (5) the location taken off where the calibration has one,
(6) scales kept above what no plane and no lens hold to, and (7) safe: a result less
likely than the initial model, or no view of the image, is not returned.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from semisure import covariance, mixture, weighting
from semisure.errors import InputError
from semisure.geometry import homography as plane
from semisure.mixture import STD_FLOOR_PX, ErrorLaw
from semisure.starting import FAR_PX, kept, start_of
from semisure.types import (
    BoolArray,
    Calibration,
    Estimate,
    FloatArray,
    Matches,
    Refit,
)
from semisure.variants import error_law
from semisure.world import WorldMatches

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
REFIT_METHODS: tuple[str, ...] = get_args(RefitMethod)

INLIER_THRESHOLD_PX = 3.0  # of a model that comes without inliers
MAX_ITERATIONS = 30
CORNER_TOLERANCE_PX = 1e-3
# No scene is exactly a plane, no lens exactly a pinhole: below this share of the
# image's diagonal a match can be surer of itself than the model can follow. Chosen on
# real pairs; where the homography is exact it costs a little, which
# benchmarks/model_floor.py prints.
MODEL_FLOOR = 4e-4


def refit_homography(
    matches: Matches,
    calibration: Calibration,
    initial: Estimate | ArrayLike,
    *,
    method: RefitMethod = "core+",
) -> Refit:
    """θ* from θ₀: the homography refitted to all matches, weighted by their law.

    Parameters
    ----------
    initial
        What a robust estimator returned, or any 3 × 3 homography from image 0 to 1.
    method
        ``core+`` (ours), ``core`` (the paper's), or another weight of its ablation.
    """
    if method not in REFIT_METHODS:
        raise InputError(
            f"method must be one of {', '.join(REFIT_METHODS)}, but is {method!r}."
        )
    start, inliers = start_of(
        initial, len(matches), partial(plane.checked, name="initial"), trusted=True
    )
    if start is None:
        reason = initial.reason if isinstance(initial, Estimate) else None
        return kept(len(matches), None, method, reason or "there is no initial model")
    if method == "core+":
        return _core_plus(matches, calibration, start)
    residual = _residual(start, matches)
    weight = ablation_weight(method, matches, calibration, residual, inliers)
    model = _weighted_dlt(matches, weight)
    if model is None:
        reason = "the weighted matches do not determine a homography"
        return kept(len(matches), start, method, reason, weight)
    return Refit(
        model=model,
        weight=weight,
        initial=start,
        method=method,
        std_floor_px=STD_FLOOR_PX,
        uncertainty=partial(
            covariance.of_homography,
            model,
            matches,
            weight=weight,
            shared_error=calibration.shared_error,
        ),
    )


def refit_points(
    source: ArrayLike,
    target: ArrayLike,
    H_01: ArrayLike,
    calibration: Calibration,
    *,
    confidence: ArrayLike,
    fine_std: ArrayLike,
    coarse_std: ArrayLike,
    source_size: tuple[int, int],
    target_size: tuple[int, int],
    side: ArrayLike = 1,
    method: RefitMethod = "core+",
) -> tuple[FloatArray, FloatArray]:
    """Refitted H_01 and weights from plain arrays: for any matcher, any RANSAC.

    `source`, `target`, `fine_std`, `coarse_std` are (n, 2) px, `confidence` is (n,)
    in (0, 1], sizes are (width, height); `side` names the image whose point was
    refined, and so the image that the standard deviations describe.
    """
    matches = Matches(
        source=source,  # type: ignore[arg-type]
        target=target,  # type: ignore[arg-type]
        confidence=confidence,  # type: ignore[arg-type]
        fine_std=fine_std,  # type: ignore[arg-type]
        coarse_std=coarse_std,  # type: ignore[arg-type]
        source_size=source_size,
        target_size=target_size,
        side=side,  # type: ignore[arg-type]
    )
    refit = refit_homography(matches, calibration, H_01, method=method)
    assert refit.model is not None  # a 3 × 3 start is returned where nothing is better
    return refit.model, refit.weight


def without_bias(
    matches: Matches, calibration: Calibration
) -> tuple[Matches, Calibration]:
    """The matches less their systematic shift, and the calibration without it.

    For estimators that know no location: shift first, then estimate, then refit.
    """
    if calibration.location is None:
        return matches, calibration
    shift = mixture.location(matches, calibration)
    return matches.shifted(-shift), replace(calibration, location=None)


def _residual(H: FloatArray, matches: Matches) -> FloatArray:
    """Residuals with points on the horizon very far off, not undefined."""
    residual = plane.residual(H, matches)
    # One finite sum means that every term is finite: a cheaper look than n of them.
    if np.isfinite(residual.sum()):
        return residual
    return np.nan_to_num(residual, nan=FAR_PX, posinf=FAR_PX, neginf=-FAR_PX)


def ablation_weight(
    method: str,
    matches: Matches | WorldMatches,
    calibration: Calibration,
    residual: FloatArray,
    inliers: BoolArray | None,
) -> FloatArray:
    """The weight (n,) of one of the one-step methods, from the initial residuals."""
    if method == "core":
        return weighting.core(error_law(matches, calibration), residual)
    if method == "uniform":
        return weighting.uniform(len(matches))
    if method == "huber":
        return weighting.huber(residual)
    if method == "confidence":
        return weighting.coarse_confidence(matches.confidence)
    if method == "fine-std":
        return weighting.raw_fine_std(matches.fine_std)
    if inliers is None:
        inliers = np.linalg.norm(residual, axis=1) <= INLIER_THRESHOLD_PX
    if method == "binary":
        return weighting.binary(inliers)
    return weighting.laplace_laplace(residual, inliers)


def _weighted_dlt(matches: Matches, weight: FloatArray) -> FloatArray | None:
    """The DLT towards the refined side, where the error is."""
    if 2 * np.count_nonzero(matches.side) >= len(matches):
        return plane.weighted_dlt(matches.source, matches.target, weight)
    H_10 = plane.weighted_dlt(matches.target, matches.source, weight)
    return None if H_10 is None else plane.inverse(H_10)


def _core_plus(matches: Matches, calibration: Calibration, start: FloatArray) -> Refit:
    law = error_law(matches, calibration)
    H, iterations = _iterate(start, matches, floored(law, matches))
    first = _residual(start, matches)
    initial_likelihood = _log_likelihood(law, first)
    reason = _why_not(H, start, matches)
    if reason is None:
        assert H is not None
        last = _residual(H, matches)
        likelihood = _log_likelihood(law, last)
        if likelihood >= initial_likelihood:
            return Refit(
                model=H,
                weight=weighting.core(law, last),
                initial=start,
                method="core+",
                iterations=iterations,
                log_likelihood=(initial_likelihood, likelihood),
                std_floor_px=STD_FLOOR_PX,
                uncertainty=partial(_covariance, H, matches, calibration),
            )
        reason = "the refit was less likely than the initial model"
    return kept(len(matches), start, "core+", reason, weighting.core(law, first))


def _covariance(
    H: FloatArray, matches: Matches, calibration: Calibration
) -> FloatArray | None:
    law = floored(error_law(matches, calibration), matches)
    share = calibration.shared_error
    return covariance.of_homography(H, matches, law=law, shared_error=share)


def floored(law: ErrorLaw, matches: Matches | WorldMatches) -> ErrorLaw:
    """The law with the model's own error added to the fine scale, in quadrature."""
    diagonal = np.linalg.norm(matches.refined_size, axis=1, keepdims=True)
    fine = np.hypot(law.fine_scale, MODEL_FLOOR * diagonal)
    return replace(
        law, fine_scale=fine, coarse_scale=np.maximum(law.coarse_scale, fine)
    )


def _iterate(
    start: FloatArray, matches: Matches, law: ErrorLaw
) -> tuple[FloatArray | None, int]:
    """The model at which the corners stand still, or the last one, or None."""
    H, frame = start, plane.corners(matches.source_size)
    for count in range(1, MAX_ITERATIONS + 1):
        following = _core_plus_step(H, matches, law)
        if following is None:
            return None, count
        moved = np.abs(plane.project(following, frame) - plane.project(H, frame)).max()
        H = following
        if moved < CORNER_TOLERANCE_PX:
            break
    return H, count


def _core_plus_step(
    H: FloatArray, matches: Matches, law: ErrorLaw
) -> FloatArray | None:
    residual = _residual(H, matches)
    weight = weighting.core(law, residual)
    centred = residual - law.location
    # Matches of weight 0 may be at FAR_PX, whose square would be infinite.
    centred = np.where(weight[:, None] > 0, centred, 0.0)
    softened = law.fine_scale * np.hypot(centred, law.fine_scale)
    return plane.gauss_newton(H, matches, centred, weight[:, None] / softened)


def _log_likelihood(law: ErrorLaw, residual: FloatArray) -> float:
    return float(mixture.log_density(law, residual).sum())


def _why_not(H: FloatArray | None, start: FloatArray, matches: Matches) -> str | None:
    """Why `H` must not replace `start`, or None."""
    if H is None:
        return "the weighted matches do not determine a homography"
    flaw = plane.defect(H, matches.source_size)
    # A plane whose horizon is in the picture is a fault only if the refit put it there.
    if flaw is not None and plane.defect(start, matches.source_size) is None:
        return f"the refit was rejected: {flaw}"
    if flaw == "it is not finite":
        return f"the refit was rejected: {flaw}"
    if plane.mirrors(H) != plane.mirrors(start):
        return "the refit was rejected: it mirrors the image"
    return None
