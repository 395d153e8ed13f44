"""Where every refit begins, and what it returns when it keeps the start."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from semisure.errors import InputError
from semisure.mixture import STD_FLOOR_PX
from semisure.types import BoolArray, Estimate, FloatArray, Refit

FAR_PX = 1e100  # stands for infinity where ∞ − ∞ would follow


def start_of(
    initial: Estimate | ArrayLike,
    count: int,
    checked: Callable[[ArrayLike], FloatArray],
    *,
    trusted: bool = False,
) -> tuple[FloatArray | None, BoolArray | None]:
    """The initial model and its inliers where the estimator gave them.

    `count` matches must have made it; `checked` raises unless it is a model. With
    `trusted`, that of an estimator is taken as it is.
    """
    if not isinstance(initial, Estimate):
        return checked(initial), None
    if len(initial.inliers) != count:
        raise InputError(
            f"initial must come from these {count} matches, but has "
            f"{len(initial.inliers)} inlier flags."
        )
    if initial.model is None or trusted:
        return initial.model, initial.inliers
    return checked(initial.model), initial.inliers


def kept(
    count: int,
    initial: FloatArray | None,
    method: str,
    reason: str,
    weight: FloatArray | None = None,
) -> Refit:
    """The refit of `count` matches that returns its start, and why."""
    return Refit(
        model=initial,
        weight=np.zeros(count) if weight is None else weight,
        initial=initial,
        method=method,
        reason=reason,
        iterations=0,
        std_floor_px=STD_FLOOR_PX,
    )
