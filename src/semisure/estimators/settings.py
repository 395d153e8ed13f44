"""What all robust estimators share: their settings and their bookkeeping."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure.errors import InputError
from semisure.geometry.homography import normalised, project
from semisure.types import Estimate, Matrix3, Points
from semisure.types.checks import as_integer, as_number
from semisure.types.display import counted

MINIMAL_SAMPLE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RansacSettings:
    """Settings that every estimator understands; the paper states none of them.

    >>> RansacSettings(threshold_px=2.0).max_iterations
    10000
    """

    threshold_px: float = 3.0
    max_iterations: int = 10_000
    confidence: float = 0.9999
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("threshold_px", "confidence"):
            object.__setattr__(self, name, as_number(name, getattr(self, name)))
        for name in ("max_iterations", "seed"):
            object.__setattr__(self, name, as_integer(name, getattr(self, name)))
        if not self.threshold_px > 0:
            raise InputError(
                f"threshold_px must be positive, but is {self.threshold_px}."
            )
        if not 1 <= self.max_iterations < 2**31:
            raise InputError(
                f"max_iterations must lie in [1, 2³¹), but is {self.max_iterations}."
            )
        if not 0 < self.confidence < 1:
            raise InputError(
                f"confidence must lie in (0, 1), but is {self.confidence}; it is the "
                "chance of having sampled one all-inlier set."
            )
        if not 0 <= self.seed < 2**31:
            raise InputError(f"seed must lie in [0, 2³¹), but is {self.seed}.")


def too_few(
    count: int, name: str, model: str = "homography", least: int = MINIMAL_SAMPLE
) -> Estimate | None:
    """The outcome for less than a minimal sample, or None if there are enough."""
    if count >= least:
        return None
    matches = counted(count, "match", "matches")
    available = f"only {matches}" if count else "no matches"
    return failure(count, name, f"{available}, a {model} needs {least}")


def failure(count: int, name: str, reason: str) -> Estimate:
    """An estimate without a model."""
    nothing = np.zeros(count, dtype=np.bool_)
    return Estimate(model=None, inliers=nothing, estimator=name, reason=reason)


def outcome(
    H: Matrix3 | None,
    source: Points,
    target: Points,
    threshold_px: float,
    name: str,
) -> Estimate:
    """The estimate for a library's answer, with the mask recomputed by us.

    Libraries disagree on the mask: some return that of the model before its last
    refinement, one returns none at all.
    """
    if H is None or not np.isfinite(H).all() or not np.abs(H).max() > 0:
        return failure(len(source), name, "no model was consistent with enough matches")
    model = normalised(np.asarray(H, dtype=np.float64))
    distance = np.linalg.norm(target - project(model, source), axis=1)
    inliers = distance <= threshold_px
    if inliers.sum() < MINIMAL_SAMPLE:
        return failure(len(source), name, "the model found has fewer than 4 inliers")
    return Estimate(model=model, inliers=inliers, estimator=name)
