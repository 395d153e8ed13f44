"""Readings of the paper that have a choice: the guard of ω, and the fine-std weight."""

from __future__ import annotations

import numpy as np
import pytest

from semisure.law.mixture import ErrorLaw, coarse_success, ordered, tail_prob
from semisure.refit import weights
from semisure.types import FloatArray

ONE = np.ones((1, 2))


def law(fine: float, coarse: float, logit: float) -> ErrorLaw:
    return ErrorLaw(fine * ONE, coarse * ONE, logit * ONE, 0.0 * ONE)


def omega(of: ErrorLaw, residual: float) -> float:
    return float(coarse_success(of, residual * ONE)[0, 0])


def test_with_inverted_scales_the_papers_posterior_grows_with_the_error() -> None:
    """Fine 1 px, coarse 0.3 px, logit α = −3: faithful `core` does not guard."""
    inverted = law(1.0, 0.3, -3.0)
    # At 0: 1 / (1 + e⁻³ · 1/0.3) = 0.858; at 20 px the coarse density is gone.
    assert omega(inverted, 0.0) == pytest.approx(1 / (1 + np.exp(-3) / 0.3))
    assert omega(inverted, 20.0) == pytest.approx(1.0, abs=1e-12)
    two_axes = weights.core(inverted, 0.0 * ONE)
    assert two_axes == pytest.approx([0.7356], abs=1e-4)  # 0.858²
    assert weights.core(inverted, 20.0 * ONE) == pytest.approx([1.0])


def test_guarded_the_posterior_never_grows_with_the_error() -> None:
    guarded = ordered(law(1.0, 0.3, -3.0))
    # Both scales 1: whatever the residual, 1 − α = 1 / (1 + e⁻³).
    expected = 1 / (1 + np.exp(-3))
    for residual in (0.0, 1.0, 20.0):
        assert omega(guarded, residual) == pytest.approx(expected)
    np.testing.assert_allclose(tail_prob(guarded), 1 - expected)


def test_the_guard_leaves_scales_in_order_alone() -> None:
    plain = law(1.0, 4.0, np.log(0.25))
    np.testing.assert_array_equal(ordered(plain).coarse_scale, plain.coarse_scale)
    assert omega(ordered(plain), 0.0) == pytest.approx(16 / 17)


@pytest.fixture
def cues() -> tuple[FloatArray, FloatArray]:
    """Residuals and raw fine stds of two matches."""
    return np.array([[0.0, 2.0], [6.0, 0.0]]), np.array([[1.0, 2.0], [1.0, 0.5]])


def test_the_density_of_the_fine_std_by_hand(cues) -> None:
    residual, std = cues
    # 1/(2·1) · 1/(2·2) · e⁻¹, and 1/(2·1) · e⁻⁶ · 1/(2·0.5).
    expected = [np.exp(-1) / 8, np.exp(-6) / 2]
    np.testing.assert_allclose(weights.fine_density(residual, std), expected)


def test_a_sure_match_far_away_is_let_go_by_the_density_only(cues) -> None:
    residual, std = cues
    density = weights.fine_density(residual, std)
    blind = weights.inverse_fine_variance(std)
    # Means of the variances: 2.5 and 0.625.
    np.testing.assert_allclose(blind, [0.4, 1.6])
    assert density[1] < 0.1 * density[0]
    assert blind[1] > blind[0]
