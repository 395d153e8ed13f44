"""What every refit shares: where it begins, the location, and how it ends.

Refits take raw matches. The location, a systematic shift of refined points that a
calibration knows, is taken off by :func:`without_bias` where a refit begins, and not
after that. Estimators know none, so whoever runs one on raw matches calls it too. What
is said of matches is said of the raw ones: their law is centred on the location.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from semisure.errors import InputError
from semisure.law import mixture
from semisure.law.mixture import STD_FLOOR_PX
from semisure.types import (
    Calibration,
    Estimate,
    FloatArray,
    Mask,
    Matches,
    Matrix,
    PerMatch,
    Refit,
    WorldMatches,
)
from semisure.types.calibration import require_calibration
from semisure.types.checks import as_reals
from semisure.types.matches import require_matches
from semisure.types.results import Uncertainty

FAR_PX = 1e15  # stands for infinity where ∞ − ∞ would follow; its square is a float32

AnyMatches = TypeVar("AnyMatches", Matches, WorldMatches)


def without_bias(
    matches: AnyMatches, calibration: Calibration
) -> tuple[AnyMatches, Calibration]:
    """The matches less their location, and the calibration without it.

    For estimators, which know none. Refits do this themselves, so that they
    are given the raw matches and the calibration as it is.

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
    checked: Callable[[ArrayLike], FloatArray],
    estimated: Callable[[ArrayLike], FloatArray] | None = None,
) -> tuple[FloatArray | None, Mask | None]:
    """The initial model and its inliers where the estimator gave them.

    `count` matches must have made it; `checked` raises unless it is a model, and
    `estimated`, if given, unless what an estimator found is one.
    """
    if not isinstance(initial, Estimate):
        return checked(_one_model(initial)), None
    flags = as_reals("inliers", initial.inliers).shape
    if flags != (count,):
        raise InputError(
            f"initial must come from these {count} matches, but has "
            f"{flags[0] if len(flags) == 1 else flags} inlier flags."
        )
    if initial.model is None:
        return None, initial.inliers
    return (estimated or checked)(initial.model), initial.inliers


def _one_model(initial: ArrayLike | None) -> ArrayLike:
    """What was passed as a start, unless it is a library's answer as a whole."""
    if initial is None:
        raise InputError(
            "initial is None: the estimator found no model. Check for that before the "
            "refit, or pass what semisure.estimate_homography returns."
        )
    if isinstance(initial, tuple) and len(initial) == 2 and np.ndim(initial[0]) == 2:
        raise InputError(
            "initial must be one matrix, but is a tuple of two: OpenCV and others "
            "return the model and a mask or report. Pass the first of them, [0]."
        )
    return initial


def no_start(initial: Estimate | ArrayLike, count: int, method: str) -> Refit:
    """The refit of `count` matches that had nothing to begin with."""
    reason = initial.reason if isinstance(initial, Estimate) else None
    return kept(count, None, method, reason or "there is no initial model")


def kept(
    count: int,
    initial: FloatArray | None,
    method: str,
    reason: str,
    weight: PerMatch | None = None,
    log_likelihood: tuple[float, float] | None = None,
    uncertainty: Uncertainty | None = None,
) -> Refit:
    """The refit of `count` matches that returns its start, and why."""
    return Refit(
        model=initial,
        weight=np.zeros(count) if weight is None else weight,
        initial=initial,
        method=method,
        reason=reason,
        iterations=0,
        log_likelihood=log_likelihood,
        std_floor_px=STD_FLOOR_PX,
        uncertainty=uncertainty,
    )


def made(
    model: FloatArray,
    initial: FloatArray,
    method: str,
    weight: PerMatch,
    iterations: int = 1,
    log_likelihood: tuple[float, float] | None = None,
    uncertainty: Uncertainty | None = None,
) -> Refit:
    """The refit that found a model to replace its start."""
    return Refit(
        model=model,
        weight=weight,
        initial=initial,
        method=method,
        iterations=iterations,
        log_likelihood=log_likelihood,
        std_floor_px=STD_FLOOR_PX,
        uncertainty=uncertainty,
    )


def more_likely(
    candidate: FloatArray | None,
    initial: FloatArray,
    *,
    method: str,
    judged: Callable[[FloatArray], tuple[PerMatch, float]],
    covariance: Callable[..., Matrix | None],
    iterations: int,
    objection: str | None = None,
) -> Refit:
    """The candidate, unless there is an objection or the start is more likely.

    `judged` gives the weights of all matches under a model, and its log likelihood.
    Weights, likelihood and covariance are those of whichever model is returned.
    """
    at_start, before = judged(initial)
    if candidate is not None and objection is None:
        at_end, after = judged(candidate)
        if after >= before:
            return made(
                candidate,
                initial,
                method,
                at_end,
                iterations,
                (before, after),
                partial(covariance, candidate),
            )
        objection = "the refit was less likely than the initial model"
    return kept(
        len(at_start),
        initial,
        method,
        objection or "the weighted matches do not determine a model",
        at_start,
        (before, before),
        partial(covariance, initial),
    )


def far_not_undefined(residual: FloatArray) -> FloatArray:
    """The residuals with undefined ones (horizon, behind the camera) very far off."""
    # One finite sum means that every term is finite: a cheaper look than n of them.
    with np.errstate(invalid="ignore"):  # +∞ and −∞
        total = residual.sum()
    if np.isfinite(total):
        return residual
    return np.nan_to_num(residual, nan=FAR_PX, posinf=FAR_PX, neginf=-FAR_PX)
