"""The fit: its derivatives, what it recovers, and what it survives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from semisure.errors import FitError, InputError
from semisure.law.error_laws import error_law
from semisure.law.families import GAUSSIAN, LAPLACE, Family
from semisure.law.fit_law import fit, nll_per_match
from semisure.law.likelihood import (
    Likelihood,
    pack,
    unpack,
)
from semisure.law.mixture import sample
from semisure.law.newton import minimise
from semisure.law.observations import BLOCK_ROWS, Observations, observe
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
from semisure.types import LAW_NAMES, Calibration


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
    x = pack(EXAMPLE_CALIBRATION) + rng.normal(0, 0.3, 8)
    value, gradient, hessian = likelihood(x)
    assert value == pytest.approx(likelihood.value(x))
    h = 1e-5
    for i in range(8):
        step = np.zeros(8)
        step[i] = h
        up, down = likelihood(x + step), likelihood(x - step)
        assert gradient[i] == pytest.approx((up[0] - down[0]) / (2 * h), abs=1e-7)
        assert hessian[i] == pytest.approx((up[1] - down[1]) / (2 * h), abs=1e-6)


def test_pair_scores_sum_to_the_gradient(planted_set: Observations) -> None:
    likelihood = Likelihood(planted_set)
    x = pack(EXAMPLE_CALIBRATION) + 0.1
    nll, scores, hessian = likelihood.details(x)
    assert scores.shape == (40, 8)
    value, gradient, same_hessian = likelihood(x)
    assert -scores.sum(axis=0) / (2 * len(planted_set)) == pytest.approx(gradient)
    assert nll.mean() == pytest.approx(value, abs=1e-12)
    assert hessian == pytest.approx(same_hessian, abs=1e-12)
    # The order of pairs, and whether they are in one piece, does not matter.
    one = [slice(0, 2000, 2), slice(1, 2000, 2)]
    turned = planted_set.take(np.r_[tuple(one)])
    assert Likelihood(turned).details(x)[1][0] == pytest.approx(scores[0])


def test_a_fit_ends_where_another_step_would_not_matter(
    planted_set: Observations,
) -> None:
    """The last step is taken on trust: what is left of the gradient must deserve it."""
    calibration, report = fit(planted_set)
    _, gradient, hessian = Likelihood(planted_set)(pack(calibration))
    assert report.converged
    assert 0.5 * gradient @ np.linalg.solve(hessian, gradient) < 1e-12


def test_blocks_do_not_change_the_value() -> None:
    n = 2 * BLOCK_ROWS + 123
    observations = observe([SyntheticMatcher().match(np.eye(3), count=n, seed=0)])
    whole = nll_per_match(observations, EXAMPLE_CALIBRATION).mean()
    blocked = Likelihood(observations).value(pack(EXAMPLE_CALIBRATION))
    assert blocked == pytest.approx(whole, rel=1e-12)


def test_newton_recovers_the_planted_law(planted_set: Observations) -> None:
    found, report = fit(planted_set)
    assert report.converged
    assert report.at_bounds == ()
    planted_nll = nll_per_match(planted_set, EXAMPLE_CALIBRATION).mean()
    assert planted_nll - 1e-3 < report.nll <= planted_nll
    # Within four standard errors of the truth, in every identifiable direction.
    names = ("b_x", "b_y", "a_x", "a_y", "k_s", "k_m", "beta_x", "beta_y")
    values = [*np.exp(pack(found)[:4]), *pack(found)[4:]]
    truths = [0.8, 0.9, 1.5, 1.2, 0.25, 1.2, -4.6, -4.4]
    for name, value, truth in zip(names, values, truths, strict=True):
        assert abs(value - truth) < 4 * report.standard_errors[name], name
    assert report.standard_error_kind == "clustered by 40 pairs"
    _, few = fit([SyntheticMatcher().match(np.eye(3), count=500, seed=0)])
    assert few.standard_error_kind == "Hessian; matches taken as independent"


def test_standard_errors_are_the_spread_over_repeated_fits() -> None:
    fits = []
    for i in range(30):
        pairs = [
            SyntheticMatcher().match(np.eye(3), count=500, seed=100 * i + j)
            for j in range(20)
        ]
        calibration, report = fit(pairs)
        fits.append((calibration.doubt_slope, report.standard_errors["k_m"]))
    slopes, errors = np.array(fits).T
    assert errors.mean() == pytest.approx(slopes.std(ddof=1), rel=0.35)


def test_powell_finds_the_same_optimum(planted_set: Observations) -> None:
    few = planted_set.take(slice(0, 6000))
    newton, by_newton = fit(few)
    powell, by_powell = fit(few, optimiser="powell")
    assert by_newton.nll <= by_powell.nll + 1e-6
    assert by_powell.nll == pytest.approx(by_newton.nll, abs=1e-4)
    assert pack(powell) == pytest.approx(pack(newton), abs=0.1)


SWAPPED = Calibration(  # coarse tiny, fine huge: Powell stays here
    coarse_var_gain=(1e-3, 1e-3),
    fine_var_gain=(300.0, 300.0),
    spread_slope=-0.1,
    doubt_slope=-0.5,
    intercept=(3.0, 3.0),
)


def test_newton_survives_any_start(planted_set: Observations) -> None:
    few = planted_set.take(slice(0, 4000))
    _, good = fit(few)
    rng = np.random.default_rng(0)
    for start in (SWAPPED, *(unpack(rng.normal(0, 3, 8)) for _ in range(4))):
        calibration, report = fit(few, start=start)
        assert report.nll == pytest.approx(good.nll, abs=1e-5)
        law = error_law(few, calibration)
        assert np.median(law.coarse_scale) > 3 * np.median(law.fine_scale)


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


def test_few_pairs_say_that_their_standard_errors_are_naive() -> None:
    _, report = fit([SyntheticMatcher().match(np.eye(3), count=500, seed=0)])
    assert report.standard_error_kind == "Hessian; matches taken as independent"


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
