"""Levenberg and Marquardt's method on hills whose top is known."""

from __future__ import annotations

import numpy as np
import pytest

from semisure.law import climbing
from semisure.law.climbing import Ascent, climb
from semisure.types import FloatArray


def climbed(top: FloatArray, A: FloatArray) -> tuple[FloatArray, int]:
    """From 0 on −½ (x − top)ᵀ A (x − top)."""

    def ascent(x: FloatArray) -> Ascent:
        return Ascent(-0.5 * float((x - top) @ A @ (x - top)), A, A @ (top - x))

    return climb(
        np.zeros(len(top)), ascent, np.add, lambda step, _: np.abs(step).max() < 1e-9
    )


def test_the_top_of_a_hill_is_found_in_a_few_steps() -> None:
    top = np.array([3.0, -1.0])
    reached, steps = climbed(top, np.array([[4.0, 1.0], [1.0, 2.0]]))
    np.testing.assert_allclose(reached, top, atol=1e-6)
    assert steps < 10


@pytest.mark.parametrize("size", [0.0, np.nan])
def test_without_weight_the_start_stays(size: float) -> None:
    reached, steps = climbed(np.ones(2), np.full((2, 2), size))
    assert (reached.tolist(), steps) == ([0.0, 0.0], 1)


def test_weights_without_an_inverse_ask_for_more_damping(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 1e-315 a few bits are left: with next to no damping there is no inverse."""
    monkeypatch.setattr(climbing, "FIRST_DAMPING", 1e-9)
    roots = np.array([2.04e-156, 5.14e-154, -1.295e-154, 4.8e-158])
    reached, _ = climbed(np.ones(4), np.outer(roots, roots))
    assert np.isfinite(reached).all()
