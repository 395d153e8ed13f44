"""Levenberg and Marquardt's method, for models of a handful of parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import numpy as np

from semisure.types import FloatArray, Matrix, Vector

MAX_ITERATIONS = 50
FIRST_DAMPING, LEAST_DAMPING, MAX_DAMPING = 1e-4, 1e-9, 1e6

V = TypeVar("V", bound="View")
M = TypeVar("M")


class View(Protocol):
    """A model, how good it is, and which way is better."""

    @property
    def score(self) -> float:
        """The larger, the better; NaN where the model is impossible."""

    def equations(self) -> tuple[Matrix, Vector]:
        """JᵀWJ and the uphill JᵀWr of the next step, (k, k) and (k,)."""

    def moved(self: V, step: Vector) -> V:
        """The view after a step (k,)."""

    def settled(self, step: Vector) -> bool:
        """True where a step is too small to matter."""


def climb(view: V, max_iterations: int = MAX_ITERATIONS) -> tuple[V, int]:
    """The best view reached, never worse than the first, and how many steps it took."""
    damping, count = FIRST_DAMPING, 0
    for count in range(1, max_iterations + 1):
        normal, pull = view.equations()
        # A direction without any weight is left where it is.
        ridge = np.diag(normal) + 1e-12 * np.trace(normal)
        if not (np.isfinite(normal).all() and ridge.min() > 0):
            return view, count
        while damping < MAX_DAMPING:
            step = _solved(normal + damping * np.diag(ridge), pull)
            if step is not None:
                trial = view.moved(step)
                if trial.score >= view.score:
                    break
            damping *= 10.0
        else:
            return view, count
        view, damping = trial, max(damping / 10.0, LEAST_DAMPING)
        if view.settled(step):
            break
    return view, count


def _solved(matrix: Matrix, pull: Vector) -> Vector | None:
    """The step, None where weights are so small that they are none."""
    try:
        return np.linalg.solve(matrix, pull)
    except np.linalg.LinAlgError:
        return None


class WeightedSquares(Generic[M]):
    """Σ w r² of a model's residuals, the weights given."""

    def __init__(
        self,
        model: M,
        look: Callable[[M], tuple[FloatArray, FloatArray]],
        weight: FloatArray,
        moved: Callable[[M, Vector], M],
        settled: Callable[[Vector, FloatArray], bool],
    ) -> None:
        """`look` gives a model's residuals (m,) and their derivatives (m, k)."""
        self.model, self._after, self._enough = model, moved, settled
        self.look, self.weight = look, weight
        self.residual, self.J = look(model)
        self.score = -float(weight @ (self.residual * self.residual))

    def equations(self) -> tuple[Matrix, Vector]:
        weighted = self.weight[:, None] * self.J
        return self.J.T @ weighted, -weighted.T @ self.residual

    def moved(self, step: Vector) -> WeightedSquares[M]:
        there = self._after(self.model, step)
        return WeightedSquares(there, self.look, self.weight, self._after, self._enough)

    def settled(self, step: Vector) -> bool:
        return self._enough(step, self.J)
