"""A pair's effects: what a match says of them, by hand and by differences."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from semisure.law.error_laws import error_law
from semisure.law.mixture import log_density
from semisure.law.pair_effects import (
    across_log_density,
    axes_log_density,
    effects_by_residuals,
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


def test_without_matches_effects_are_their_means() -> None:
    none = LAW.take(slice(0))
    residual = np.zeros((0, 2))
    assert effects_by_residuals(none, residual, SPREAD) == pytest.approx(SPREAD.means)
    nan = np.full((300, 2), np.nan)
    assert effects_by_residuals(LAW, nan, SPREAD) == pytest.approx(SPREAD.means)
