"""Readings of the paper that have a choice: the guard of ω, and the fine-std weight."""

from __future__ import annotations

import numpy as np
import pytest

from semisure.law.mixture import ErrorLaw, coarse_success, ordered, tail_prob
from semisure.refit import weights

ONE = np.ones((1, 2))


def law(fine: float, coarse: float, logit: float) -> ErrorLaw:
    return ErrorLaw(fine * ONE, coarse * ONE, logit * ONE, 0.0 * ONE)


def omega(of: ErrorLaw, residual: float) -> float:
    return float(coarse_success(of, residual * ONE)[0, 0])


def test_with_inverted_scales_the_posterior_grows_unless_it_is_guarded() -> None:
    """Fine 1 px, coarse 0.3 px, logit α = −3: faithful `core` does not guard."""
    inverted = law(1.0, 0.3, -3.0)
    # At 0: 1 / (1 + e⁻³ · 1/0.3) = 0.858; at 20 px the coarse density is gone.
    assert omega(inverted, 0.0) == pytest.approx(1 / (1 + np.exp(-3) / 0.3))
    assert omega(inverted, 20.0) == pytest.approx(1.0, abs=1e-12)
    assert weights.core(inverted, 0.0 * ONE) == pytest.approx([0.7356], abs=1e-4)
    # Both scales 1: whatever the residual, 1 − α = 1 / (1 + e⁻³).
    guarded, expected = ordered(inverted), 1 / (1 + np.exp(-3))
    for residual in (0.0, 1.0, 20.0):
        assert omega(guarded, residual) == pytest.approx(expected)
    np.testing.assert_allclose(tail_prob(guarded), 1 - expected)
    plain = law(1.0, 4.0, np.log(0.25))  # in order: left alone
    assert omega(ordered(plain), 0.0) == pytest.approx(16 / 17)


def test_a_sure_match_far_away_is_let_go_by_the_density_only() -> None:
    residual, std = np.array([[0.0, 2.0], [6.0, 0.0]]), np.array([[1.0, 2], [1, 0.5]])
    # 1/(2·1) · 1/(2·2) · e⁻¹, and 1/(2·1) · e⁻⁶ · 1/(2·0.5).
    density = weights.fine_density(residual, std)
    np.testing.assert_allclose(density, [np.exp(-1) / 8, np.exp(-6) / 2])
    # Means of the variances: 2.5 and 0.625.
    np.testing.assert_allclose(weights.inverse_fine_variance(std), [0.4, 1.6])
