"""CoRe, the paper's refit of any model (Alg. weighted_refit): one weighted fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from semisure.errors import InputError
from semisure.geometry.homography import FAR_PX, far_not_undefined
from semisure.law import mixture
from semisure.refit.weights import one_step_weight
from semisure.types import (
    Calibration,
    Estimate,
    FloatArray,
    Mask,
    Matches,
    Matrix,
    PerAxis,
    PerMatch,
    Refit,
    WorldMatches,
)
from semisure.types.calibration import require_calibration
from semisure.types.matches import require_matches
from semisure.types.results import Uncertainty

AnyMatches = TypeVar("AnyMatches", Matches, WorldMatches)


def without_bias(
    matches: AnyMatches, calibration: Calibration
) -> tuple[AnyMatches, Calibration]:
    """The matches less their location, and the calibration without it.

    The location is a systematic shift of refined points. Every refit subtracts it
    from the raw matches that it gets; call this function before an estimator runs on
    raw matches.

    >>> from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
    >>> located = replace(EXAMPLE_CALIBRATION, location=(0.125, 0.0))
    >>> matches, _ = SyntheticMatcher().match(np.eye(3), count=3)
    >>> moved, calibration = without_bias(matches, located)
    >>> (matches.target - moved.target)[0].round(9).tolist()  # an eighth of 8 px
    [1.0, 0.0]
    >>> calibration.location is None
    True
    """
    require_calibration(calibration)
    if not isinstance(matches, WorldMatches):
        require_matches(matches)
    if calibration.location is None:
        return matches, calibration
    shift = mixture.location(matches, calibration)
    return matches.shifted(-shift), replace(calibration, location=None)


def start_of(
    initial: Estimate | ArrayLike,
    count: int,
    checked: Callable[..., FloatArray],
    estimated: Callable[..., FloatArray] | None = None,
) -> tuple[FloatArray | None, Mask | None]:
    """The initial model, and its inliers if an estimator gave them.

    An `Estimate` must come from `count` matches. `checked` raises unless it gets a
    model; for the model of an `Estimate`, `estimated` does so, if given.
    """
    if not isinstance(initial, Estimate):
        if initial is None:
            raise InputError(
                "initial is None: the estimator found no model. Check for that before "
                "the refit, or pass what semisure.estimate_homography returns."
            )
        parts = initial if isinstance(initial, tuple) else ()
        if len(parts) == 2 and np.ndim(parts[0]) == 2:
            raise InputError(
                "initial must be one matrix, but is a tuple of two: OpenCV and others "
                "return the model and a mask or report. Pass the first of them, [0]."
            )
        return checked(initial, "initial"), None
    shape = np.shape(initial.inliers)
    if shape != (count,):
        raise InputError(
            f"initial must come from these {count} matches, but its inliers have "
            f"shape {shape}."
        )
    if initial.model is None:
        return None, initial.inliers
    return (estimated or checked)(initial.model, "initial"), initial.inliers


def no_start(initial: Estimate | ArrayLike, count: int, method: str) -> Refit:
    """The refit of `count` matches without an initial model."""
    reason = initial.reason if isinstance(initial, Estimate) else None
    reason = reason or "there is no initial model"
    return outcome(method, None, None, np.zeros(count), reason=reason)


def outcome(
    method: str,
    start: FloatArray | None,
    model: FloatArray | None,
    weight: PerMatch,
    *,
    reason: str | None = None,
    iterations: int = 1,
    log_likelihood: tuple[float, float] | None = None,
    uncertainty: Uncertainty | None = None,
) -> Refit:
    """The refit that returns `model`, or `start` if there is a `reason` for that."""
    return Refit(
        model=model if reason is None else start,
        weight=weight,
        initial=start,
        method=method,
        reason=reason,
        iterations=iterations if reason is None else 0,
        log_likelihood=log_likelihood,
        uncertainty=uncertainty,
    )


def refit_once(
    method: str,
    matches: Matches | WorldMatches,
    calibration: Calibration,
    start: FloatArray,
    residual: PerAxis,
    fit: Callable[[PerMatch], tuple[FloatArray | None, int]],
    *,
    name: str,
    inliers: Mask | None = None,
    covariance: Callable[..., Matrix | None] | None = None,
) -> Refit:
    """Algorithm 2: weights by the residuals of the start, then one `fit`.

    `fit` returns a model, or None where the weighted matches do not determine one, and
    how many iterations it took.
    """
    residual = far_not_undefined(residual)
    weight = one_step_weight(method, matches, calibration, residual, inliers)
    # A point beyond the horizon or behind the camera has no residual to improve.
    weight = np.where(np.abs(residual).max(axis=1) < FAR_PX, weight, 0.0)
    model, iterations = fit(weight)
    if model is None:
        reason = f"the weighted matches do not determine {name}"
        return outcome(method, start, None, weight, reason=reason)
    spread = covariance and partial(covariance, model, weight=weight)
    return outcome(
        method, start, model, weight, iterations=iterations, uncertainty=spread
    )
