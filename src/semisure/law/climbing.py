"""Levenberg and Marquardt's method, for models of a handful of parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from semisure.types import FloatArray, Matrix, Vector

MAX_ITERATIONS = 50
FIRST_DAMPING, LEAST_DAMPING, MAX_DAMPING = 1e-4, 1e-9, 1e6
TOLERANCE_PX = 1e-4  # of least squares: the root mean square by which points move

M = TypeVar("M")


class Ascent(NamedTuple):
    """The score of a model, and the equations of its next step, N step = pull."""

    score: float  # the larger, the better; NaN where the model is impossible
    normal: Matrix
    pull: Vector


def climb(
    model: M,
    ascent: Callable[[M], Ascent],
    moved: Callable[[M, Vector], M],
    settled: Callable[[Vector, float], bool],
    max_iterations: int = MAX_ITERATIONS,
) -> tuple[M, int]:
    """Climb: maximise a score from `model`. The best model, and the number of steps.

    `ascent` gives the score and the next step's equations, `moved` applies a step, and
    `settled` is true of a step and its gain of score after which none matters.
    """
    current, damping, count = ascent(model), FIRST_DAMPING, 0
    for count in range(1, max_iterations + 1):
        # A parameter that no match determines stays as it is.
        ridge = np.diag(current.normal) + 1e-12 * np.trace(current.normal)
        if not (np.isfinite(current.normal).all() and ridge.min() > 0):
            return model, count
        while damping < MAX_DAMPING:
            step = _solved(current.normal + damping * np.diag(ridge), current.pull)
            if step is not None:
                trial = moved(model, step)
                ahead = ascent(trial)
                if ahead.score >= current.score:
                    break
            damping *= 10.0
        else:
            return model, count
        gain = ahead.score - current.score
        model, current, damping = trial, ahead, max(damping / 10.0, LEAST_DAMPING)
        if settled(step, gain):
            break
    return model, count


def _solved(matrix: Matrix, pull: Vector) -> Vector | None:
    """The step; None where weights are so small that the matrix has no inverse."""
    try:
        return np.linalg.solve(matrix, pull)
    except np.linalg.LinAlgError:
        return None


def least_squares(
    model: M,
    look: Callable[[M], tuple[FloatArray, FloatArray]],
    weight: FloatArray,
    moved: Callable[[M, Vector], M],
) -> tuple[M, int]:
    """The model of the least Σ w r², and the number of steps.

    `look` gives the residuals of a model, (m,) px, and their derivatives, (m, k).
    """

    def ascent(model: M) -> Ascent:
        residual, J = look(model)
        weighted = weight[:, None] * J
        score = -float(weight @ (residual * residual))
        return Ascent(score, J.T @ weighted, -weighted.T @ residual)

    least = TOLERANCE_PX**2 * float(weight.sum())
    return climb(model, ascent, moved, lambda step, gain: gain <= least)
