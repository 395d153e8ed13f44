"""Levenberg and Marquardt's method on hills whose top is known."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from semisure.law import climbing
from semisure.types import FloatArray


@dataclass(frozen=True)
class Hill:
    """−½ (x − top)ᵀ A (x − top)."""

    x: FloatArray
    top: FloatArray
    A: FloatArray

    @property
    def score(self) -> float:
        off = self.x - self.top
        return -0.5 * float(off @ self.A @ off)

    def equations(self) -> tuple[FloatArray, FloatArray]:
        return self.A, self.A @ (self.top - self.x)

    def moved(self, step: FloatArray) -> Hill:
        return replace(self, x=self.x + step)

    def settled(self, step: FloatArray) -> bool:
        return bool(np.abs(step).max() < 1e-9)


def test_the_top_of_a_hill_is_found_in_a_few_steps() -> None:
    hill = Hill(np.zeros(2), np.array([3.0, -1.0]), np.array([[4.0, 1.0], [1.0, 2.0]]))
    reached, steps = climbing.climb(hill)
    np.testing.assert_allclose(reached.x, hill.top, atol=1e-6)
    assert steps < 10


@pytest.mark.parametrize("size", [0.0, np.nan])
def test_without_weight_the_start_stays(size: float) -> None:
    hill = Hill(np.zeros(2), np.ones(2), np.full((2, 2), size))
    assert climbing.climb(hill) == (hill, 1)


def test_weights_too_small_to_be_told_apart_ask_for_more_damping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 1e-315 a few bits are left: with next to no damping there is no inverse."""
    monkeypatch.setattr(climbing, "FIRST_DAMPING", 1e-9)
    roots = np.array([2.04e-156, 5.14e-154, -1.295e-154, 4.8e-158])
    hill = Hill(np.zeros(4), np.ones(4), np.outer(roots, roots))
    reached, _ = climbing.climb(hill)
    assert reached.score >= hill.score
