"""The fit: its derivatives, what it recovers, and what it survives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from semisure.errors import FitError, InputError
from semisure.law.error_laws import error_law
from semisure.law.families import GAUSSIAN, LAPLACE, Family
from semisure.law.fit_law import fit, nll_per_match
from semisure.law.likelihood import Likelihood
from semisure.law.mixture import sample
from semisure.law.newton import minimise
from semisure.law.observations import BLOCK_ROWS, Observations, observe
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
from semisure.types import LAW_NAMES, Calibration, FloatArray


def eight(calibration: Calibration) -> FloatArray:
    """The eight numbers of a calibration, gains as logarithms."""
    gains = *calibration.fine_var_gain, *calibration.coarse_var_gain
    slopes = calibration.spread_slope, calibration.doubt_slope
    return np.array([*np.log(gains), *slopes, *calibration.intercept])


@pytest.fixture(scope="module")
def planted_set() -> Observations:
    """40 pairs of 1,000 matches from the example law."""
    return observe(
        SyntheticMatcher().match(np.eye(3), count=1000, seed=i) for i in range(40)
    )


@pytest.mark.parametrize("family", [LAPLACE, GAUSSIAN])
@pytest.mark.parametrize("seed", range(4))
def test_gradient_and_hessian_match_finite_differences(
    family: Family, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    observations = observe([SyntheticMatcher().match(np.eye(3), count=300, seed=seed)])
    likelihood = Likelihood(observations, (0.05, -0.1), family)
    x = eight(EXAMPLE_CALIBRATION) + rng.normal(0, 0.3, 8)
    value, gradient, hessian = likelihood(x)
    assert value == pytest.approx(likelihood.value(x))
    h = 1e-5
    for i in range(8):
        step = np.zeros(8)
        step[i] = h
        up, down = likelihood(x + step), likelihood(x - step)
        assert gradient[i] == pytest.approx((up[0] - down[0]) / (2 * h), abs=1e-7)
        assert hessian[i] == pytest.approx((up[1] - down[1]) / (2 * h), abs=1e-6)


def test_a_fit_ends_where_another_step_would_not_matter(
    planted_set: Observations,
) -> None:
    """The last step is taken on trust: what is left of the gradient must deserve it."""
    calibration, report = fit(planted_set)
    _, gradient, hessian = Likelihood(planted_set)(eight(calibration))
    assert report.converged
    assert 0.5 * gradient @ np.linalg.solve(hessian, gradient) < 1e-12


def test_blocks_do_not_change_the_value() -> None:
    n = 2 * BLOCK_ROWS + 123
    observations = observe([SyntheticMatcher().match(np.eye(3), count=n, seed=0)])
    whole = nll_per_match(observations, EXAMPLE_CALIBRATION).mean()
    blocked = Likelihood(observations).value(eight(EXAMPLE_CALIBRATION))
    assert blocked == pytest.approx(whole, rel=1e-12)


def test_newton_recovers_the_planted_law(planted_set: Observations) -> None:
    found, report = fit(planted_set)
    assert report.converged
    assert report.at_bounds == ()
    planted_nll = nll_per_match(planted_set, EXAMPLE_CALIBRATION).mean()
    assert planted_nll - 1e-3 < report.nll <= planted_nll
    values = [*np.exp(eight(found)[:4]), *eight(found)[4:]]
    truths = [0.8, 0.9, 1.5, 1.2, 0.25, 1.2, -4.6, -4.4]
    assert values == pytest.approx(truths, rel=0.1)


def test_powell_finds_the_same_optimum(planted_set: Observations) -> None:
    few = planted_set.take(slice(0, 6000))
    newton, by_newton = fit(few)
    powell, by_powell = fit(few, optimiser="powell")
    assert by_newton.nll <= by_powell.nll + 1e-6
    assert by_powell.nll == pytest.approx(by_newton.nll, abs=1e-4)
    assert eight(powell) == pytest.approx(eight(newton), abs=0.1)


def test_location_is_found_where_there_is_one() -> None:
    shifted = replace(EXAMPLE_CALIBRATION, location=(0.11, -0.07))
    pairs = [
        SyntheticMatcher(shifted).match(np.eye(3), count=2000, seed=i)
        for i in range(10)
    ]
    centred, without = fit(pairs)
    found, with_location = fit(pairs, location=True)
    assert centred.location is None
    assert found.location == pytest.approx((0.11, -0.07), abs=0.003)
    assert with_location.nll < without.nll - 0.05
    assert found.fine_var_gain == pytest.approx((0.8, 0.9), rel=0.1)


@pytest.mark.parametrize("law", LAW_NAMES)
def test_each_law_is_fitted_no_worse_than_its_start(
    law: str, planted_set: Observations
) -> None:
    few = planted_set.take(slice(0, 5000))
    calibration, report = fit(few, law=law)
    assert calibration.law == law
    assert np.isfinite(report.nll)
    assert set(report.nll_by_stratum) == {"<8", "8-64", ">64"}
    assert sum(report.matches_by_stratum.values()) == 5000
    _, mixture = fit(few)
    # The data is from the mixture, so that nothing else describes it better.
    assert report.nll >= mixture.nll - 1e-9
    if law == "no_confidence_gate":
        assert calibration.doubt_slope == 0.0


def test_hard_gate_cut_is_the_best_of_all_cuts() -> None:
    pairs = [SyntheticMatcher().match(np.eye(3), count=300, seed=2)]
    calibration, report = fit(pairs, law="hard_gate")
    observations = observe(pairs)
    for shift in (-1.0, -0.2, 0.2, 1.0):
        beta_x, beta_y = calibration.intercept
        moved = replace(calibration, intercept=(beta_x + shift, beta_y + shift))
        assert nll_per_match(observations, moved).mean() >= report.nll - 1e-12


def test_gaussian_mixture_is_recovered_from_gaussian_errors() -> None:
    matches, _ = SyntheticMatcher().match(np.eye(3), count=40_000, seed=0)
    planted = replace(EXAMPLE_CALIBRATION, law="gaussian")
    r = sample(error_law(matches, planted), np.random.default_rng(1))
    found, report = fit([(matches, r)], law="gaussian")
    assert found.fine_var_gain == pytest.approx((0.8, 0.9), rel=0.05)
    _, laplace = fit([(matches, r)])
    assert report.nll < laplace.nll


def test_unusable_data_gets_one_sentence() -> None:
    matches, r = SyntheticMatcher().match(np.eye(3), count=30, seed=0)
    with pytest.raises(InputError, match="at least one image pair"):
        fit([])
    with pytest.raises(FitError, match="at least 16 matches"):
        fit([(matches.take(slice(0, 5)), r[:5])])
    with pytest.raises(InputError, match="pair 0 must have shape"):
        fit([(matches, r[:3])])
    bad = r.copy()
    bad[4, 1] = np.inf
    with pytest.raises(InputError, match=r"1 of 30 rows are not; first: match 4"):
        fit([(matches, bad)])
    with pytest.raises(InputError, match="law must be one of"):
        fit([(matches, r)], law="students-t")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="optimiser must be one of newton, powell"):
        fit([(matches, r)], optimiser="adam")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="location is fitted with"):
        fit([(matches, r)], optimiser="powell", location=True)


def test_newton_minimises_rosenbrock_in_and_out_of_a_box() -> None:
    def rosenbrock(x):
        a, b = x
        value = (1 - a) ** 2 + 100 * (b - a * a) ** 2
        gradient = np.array([-2 * (1 - a) - 400 * a * (b - a * a), 200 * (b - a * a)])
        hessian = np.array([[2 - 400 * (b - 3 * a * a), -400 * a], [-400 * a, 200.0]])
        return value, gradient, hessian

    wide = np.array([-5.0, -5.0]), np.array([5.0, 5.0])
    free = minimise(rosenbrock, np.array([-1.2, 1.0]), *wide)
    assert free.converged
    assert free.x == pytest.approx([1, 1], abs=1e-5)
    # With a ≤ 0.5 the minimum is at a = 0.5, b = 0.25.
    held = minimise(rosenbrock, np.array([-1.2, 1.0]), wide[0], np.array([0.5, 5.0]))
    assert held.converged
    assert held.x == pytest.approx([0.5, 0.25], abs=1e-5)
