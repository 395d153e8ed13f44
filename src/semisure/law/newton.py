"""Newton's method in a box, for a handful of parameters and a costly objective.

Saddle-free: the Hessian's eigenvalues enter by their absolute value, so every step
descends. Variables that sit on a bound and want to leave the box are held for that
step (Bertsekas's projected Newton).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from semisure.types import BoolArray, Matrix, Vector

Objective = Callable[[Vector], tuple[float, Vector, Matrix]]

DECREMENT = 1e-12  # a decrease that is not worth another step
_SUFFICIENT_DECREASE = 1e-4
_MAX_HALVINGS = 40
# Curvatures below this share of the largest count as flat.
_CURVATURE_FLOOR = 1e-10


@dataclass(frozen=True, slots=True, eq=False)
class Minimum:
    """Where the search ended, and why."""

    x: Vector
    value: float
    gradient: Vector
    hessian: Matrix
    iterations: int
    evaluations: int
    converged: bool
    message: str


def minimise(
    objective: Objective,
    start: Vector,
    lower: Vector,
    upper: Vector,
    *,
    decrement: float = DECREMENT,
    trusted: float = 0.0,
    max_iterations: int = 100,
) -> Minimum:
    """The minimum of `objective` (value, gradient, Hessian) in [lower, upper].

    Converged when half the squared Newton decrement, the decrease that the
    quadratic model still promises, falls below `decrement`. A step that promises no
    more than `trusted` is taken as the last without another look at the objective:
    what it leaves falls with the square.
    """
    x = np.clip(start, lower, upper)
    value, gradient, hessian = objective(x)
    evaluations = 1
    for iteration in range(max_iterations):
        held = _held(x, gradient, lower, upper)
        step = _saddle_free_step(gradient, hessian, ~held)
        promised = -0.5 * float(gradient @ step)
        if promised <= max(decrement, trusted):
            if promised > decrement:
                x, value = np.clip(x + step, lower, upper), value - promised
            return Minimum(
                x, value, gradient, hessian, iteration, evaluations, True, "converged"
            )
        length = 1.0
        for _ in range(_MAX_HALVINGS):
            trial = np.clip(x + length * step, lower, upper)
            answer = objective(trial)
            evaluations += 1
            gain = _SUFFICIENT_DECREASE * float(gradient @ (trial - x))
            if np.isfinite(answer[0]) and answer[0] <= value + gain:
                break
            length *= 0.5
        else:
            # Rounding noise hides any further decrease.
            message = "no step lowers the objective any further"
            return Minimum(
                x, value, gradient, hessian, iteration, evaluations, True, message
            )
        x = trial
        value, gradient, hessian = answer
    message = f"stopped at the limit of {max_iterations} iterations"
    return Minimum(
        x, value, gradient, hessian, max_iterations, evaluations, False, message
    )


def _held(x: Vector, gradient: Vector, lower: Vector, upper: Vector) -> BoolArray:
    """Variables on a bound whose descent direction points out of the box."""
    return ((x <= lower) & (gradient >= 0)) | ((x >= upper) & (gradient <= 0))


def _saddle_free_step(gradient: Vector, hessian: Matrix, free: BoolArray) -> Vector:
    """−|H|⁻¹ g on the free variables, in units that even out the diagonal."""
    step = np.zeros_like(gradient)
    if not free.any():
        return step
    H = hessian[np.ix_(free, free)]
    unit = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(H)), 1e-300))
    unit = np.minimum(unit, 1e12)
    values, vectors = np.linalg.eigh(H * unit[:, None] * unit)
    size = np.maximum(np.abs(values), _CURVATURE_FLOOR * np.abs(values).max() + 1e-300)
    scaled = vectors.T @ (gradient[free] * unit)
    step[free] = -unit * (vectors @ (scaled / size))
    return step
