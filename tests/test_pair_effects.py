"""A pair's effects: what a match says of them, by hand and by differences."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from semisure.law.error_laws import error_law
from semisure.law.mixture import expit, log_density, tail_prob
from semisure.law.pair_effects import (
    across_log_density,
    axes_log_density,
    effects_by_residuals,
    size_of_sum,
    with_effects,
)
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
from semisure.types import FloatArray, PairSpread

SPREAD = PairSpread(
    fine=(0.0, 0.4), gate=(0.0, 1.0), coarse=(0.0, 0.5), background=(-4.0, 1.0)
)
EFFECTS = np.array([0.2, -0.4, 0.3, -3.5])
MATCHES, RESIDUAL = SyntheticMatcher().match(np.eye(3), count=300, seed=4)
LAW = error_law(MATCHES, EXAMPLE_CALIBRATION)
ANGLE = np.random.default_rng(0).uniform(0, np.pi, len(MATCHES))
NORMAL = np.stack([np.cos(ANGLE), np.sin(ANGLE)])


def density(kind: str) -> Callable[[FloatArray], tuple]:
    if kind == "residuals":
        return partial(axes_log_density, LAW, np.abs(RESIDUAL.T))
    distance = np.abs((NORMAL * RESIDUAL.T).sum(axis=0))
    return partial(across_log_density, LAW, distance, np.abs(NORMAL))


@pytest.mark.parametrize("kind", ["residuals", "lines"])
def test_slopes_are_those_of_differences(kind: str) -> None:
    of, step = density(kind), 1e-6 * np.eye(4)
    slopes = of(EFFECTS)[1]
    numeric = [(of(EFFECTS + s)[0] - of(EFFECTS - s)[0]) / 2e-6 for s in step]
    assert slopes == pytest.approx(np.array(numeric), abs=1e-7)


def test_residuals_have_the_density_of_the_law_they_adapt() -> None:
    expected = log_density(with_effects(LAW, EFFECTS), RESIDUAL).sum(axis=1)
    assert density("residuals")(EFFECTS)[0] == pytest.approx(expected, abs=1e-6)


def test_across_an_axis_the_density_is_that_of_the_axis() -> None:
    """Where the normal is (0, 1), the sum of two errors is that in y."""
    normal = np.array([[0.0], [1.0]]) * np.ones(len(LAW))
    found = across_log_density(LAW, np.abs(RESIDUAL[:, 1]), normal, EFFECTS)[0]
    expected = log_density(with_effects(LAW, EFFECTS), RESIDUAL)[:, 1]
    assert found == pytest.approx(expected, abs=1e-6)


def test_effects_move_scales_and_chances() -> None:
    """By hand: e^0.2, e^0.3, and 1 − (1 − α)(1 − β) at logits by −0.4 and of −3.5."""
    law = with_effects(LAW, EFFECTS)
    assert law.fine_scale == pytest.approx(np.exp(0.2) * LAW.fine_scale)
    coarse = np.maximum(np.exp(0.3) * LAW.coarse_scale, law.fine_scale)
    assert law.coarse_scale == pytest.approx(coarse)
    alpha, base = expit(LAW.tail_logit - 0.4), expit(np.array(-3.5))
    assert tail_prob(law) == pytest.approx(1 - (1 - alpha) * (1 - base))


def test_a_sum_of_two_has_the_mean_size_of_its_stand_in() -> None:
    """(4 + 2 + 1) / (2 + 1) = 7/3 for scales of 2 and 1, by hand."""
    assert size_of_sum(np.array(2.0), np.array(1.0)) == pytest.approx(7 / 3)
    drawn = np.random.default_rng(0).laplace(0.0, [2.0, 1.0], (1_000_000, 2))
    assert np.abs(drawn.sum(axis=1)).mean() == pytest.approx(7 / 3, rel=3e-3)


def test_without_matches_effects_are_their_means() -> None:
    none = LAW.take(slice(0))
    residual = np.zeros((0, 2))
    assert effects_by_residuals(none, residual, SPREAD) == pytest.approx(SPREAD.means)
    nan = np.full((300, 2), np.nan)
    assert effects_by_residuals(LAW, nan, SPREAD) == pytest.approx(SPREAD.means)
