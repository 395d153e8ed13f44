"""Estimators of the caller's own: whatever they return, as an estimate."""

from __future__ import annotations

from typing import Any

import numpy as np

from semisure.errors import InputError
from semisure.estimators.settings import failure
from semisure.types import Estimate, Matches
from semisure.types.checks import as_reals

SHAPES = {"homography": (3, 3), "fundamental": (3, 3), "essential": (3, 4)}


def own_estimate(estimator: Any, matches: Matches, kind: str) -> Estimate:
    """What a callable of (source, target, confidence) finds.

    It returns an :class:`Estimate`, a model, or a tuple of a model and a mask, such as
    ``cv2.findHomography``; no model is None.

    >>> from semisure.synthetic import SyntheticMatcher
    >>> matches, _ = SyntheticMatcher().match(np.eye(3), count=100)
    >>> own_estimate(lambda source, target, confidence: None, matches, "homography")
    Estimate(no model by <lambda>: it found none)
    """
    name = str(getattr(estimator, "__name__", type(estimator).__name__))
    answer = estimator(matches.source, matches.target, matches.confidence)
    if isinstance(answer, Estimate):
        return answer
    model, mask = (
        answer if isinstance(answer, tuple) and len(answer) == 2 else (answer, None)
    )
    if model is None:
        return failure(len(matches), name, "it found none")
    array, wanted = as_reals(f"the model of {name}", model), SHAPES[kind]
    if array.shape != wanted:
        raise InputError(
            f"The estimator {name} must return a model of shape {wanted}, or None, or "
            f"the model and a mask, but returned one of shape {array.shape}."
        )
    return Estimate(model=array, inliers=_flags(mask, len(matches)), estimator=name)


def _flags(mask: Any, count: int) -> Any:
    """The mask as one flag for each match; all where there is none."""
    flags = None if mask is None else np.asarray(mask).reshape(-1)
    if flags is None or flags.shape != (count,) or flags.dtype.kind not in "biu":
        return np.ones(count, dtype=np.bool_)
    return flags.astype(np.bool_)
