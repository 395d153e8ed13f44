"""Properties of the law that hold for every calibration and cue."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad

from semisure.errors import InputError
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.law.families import GAUSSIAN, LAPLACE
from semisure.law.mixture import (
    STD_FLOOR_PX,
    ErrorLaw,
    abs_quantile,
    pooled_abs_quantile,
)
from semisure.synthetic import EXAMPLE_CALIBRATION
from semisure.types import LAW_NAMES, Calibration, Matches

scale = st.floats(1e-2, 1e3)
gate = st.floats(-30, 30)
family = st.sampled_from([LAPLACE, GAUSSIAN])


def law_of(fine, coarse, logit, location=0.0, shape=LAPLACE) -> ErrorLaw:
    rows = [np.full((1, 2), float(v)) for v in (fine, coarse, logit, location)]
    return ErrorLaw(*rows, shape)


@given(scale, scale, gate, st.floats(-5, 5), family)
def test_density_integrates_to_one(fine, coarse, logit, location, shape) -> None:
    law = law_of(fine, coarse, logit, location, shape)

    def density(r: float) -> float:
        return float(np.exp(mixture.log_density(law, np.full((1, 2), r)))[0, 0])

    # Both components have their mass within 40 scales; split where they peak.
    total = 0.0
    edges = np.unique(
        np.concatenate([[0], np.outer([fine, coarse], [1, 5, 40]).ravel()])
    )
    for low, high in itertools.pairwise(edges):
        total += quad(density, location + low, location + high, epsabs=1e-10)[0]
    assert 2 * total == pytest.approx(1.0, abs=1e-6)


@given(scale, st.floats(1, 100), gate, st.floats(0, 1e3), st.floats(1, 10), family)
def test_larger_residual_never_raises_the_weight(
    fine, ratio, logit, r, more, shape
) -> None:
    law = law_of(fine, fine * ratio, logit, 0.0, shape)
    near = mixture.coarse_success(law, np.full((1, 2), r))
    far = mixture.coarse_success(law, np.full((1, 2), r * more))
    assert ((far >= 0) & (far <= near + 1e-12) & (near <= 1)).all()


@given(arrays(float, (4, 2), elements=st.floats(-1e3, 1e3)))
def test_swapping_the_axes_swaps_the_answer(residual) -> None:
    rng = np.random.default_rng(0)
    rows = [np.exp(rng.normal(size=(4, 2))) for _ in range(2)]
    law = ErrorLaw(*rows, rng.normal(size=(4, 2)), np.zeros((4, 2)))
    swapped = ErrorLaw(*(getattr(law, n)[:, ::-1] for n in (
        "fine_scale", "coarse_scale", "tail_logit", "location")))  # fmt: skip
    for ask in (mixture.log_density, mixture.coarse_success, mixture.cdf):
        assert np.array_equal(
            ask(law, residual)[:, ::-1], ask(swapped, residual[:, ::-1])
        )


@given(scale, scale, gate, st.floats(-100, 100), st.floats(0.1, 10), family)
def test_scaling_pixels_shifts_the_log_density(
    fine, coarse, logit, r, c, shape
) -> None:
    at = np.full((1, 2), r)
    one = mixture.log_density(law_of(fine, coarse, logit, 0.0, shape), at)
    big = mixture.log_density(law_of(c * fine, c * coarse, logit, 0.0, shape), c * at)
    assert big == pytest.approx(one - np.log(c), abs=1e-9, rel=1e-9)


@given(scale, scale, gate, st.floats(-20, 20), st.floats(0.001, 0.999))
def test_that_share_of_errors_is_within_their_quantile(
    fine, coarse, logit, location, p
) -> None:
    law = law_of(fine, coarse, logit, location)
    x = abs_quantile(law, p)
    within = mixture.cdf(law, x) - mixture.cdf(law, -x)
    assert within == pytest.approx(p, abs=1e-8)


def test_quantiles_by_hand() -> None:
    # One Laplace of scale 2: P(|r| > x) = e^{−x/2}; a Gaussian's 68 % are σ.
    assert abs_quantile(law_of(2, 2, 0), 0.9)[0, 0] == pytest.approx(2 * np.log(10))
    gaussian = law_of(3, 3, 0, 0.0, GAUSSIAN)
    assert abs_quantile(gaussian, 0.6826894921)[0, 0] == pytest.approx(3)
    with pytest.raises(InputError, match="strictly between 0 and 1"):
        abs_quantile(gaussian, 1.0)


def test_pooled_quantiles_are_those_of_drawn_errors() -> None:
    law = ErrorLaw(*(np.full((20_000, 2), v) for v in (1.0, 6.0, -1.0, 0.4)))
    drawn = np.abs(mixture.sample(law, np.random.default_rng(0)))
    for share in (0.5, 0.9):
        wanted = np.quantile(drawn, share)
        found = pooled_abs_quantile(law, share)
        assert found == pytest.approx(wanted, rel=0.03)


def test_huge_residuals_neither_overflow_nor_lose_their_sign(recwarn) -> None:
    law = law_of(1e-2, 1e3, 5.0)
    far = np.full((1, 2), 1e150)
    assert mixture.coarse_success(law, far).tolist() == [[0.0, 0.0]]
    assert np.isfinite(mixture.log_density(law, np.full((1, 2), 1e6))).all()
    assert not recwarn.list


@pytest.mark.parametrize("shape", [LAPLACE, GAUSSIAN])
def test_samples_follow_the_law(shape) -> None:
    n = 200_000
    law = ErrorLaw(
        *(np.full((n, 2), v) for v in (1.0, 6.0, np.log(0.3 / 0.7), 0.8)), shape
    )
    r = mixture.sample(law, np.random.default_rng(0))
    uniform = mixture.cdf(law, r).ravel()
    grid = np.linspace(0.05, 0.95, 19)
    assert np.quantile(uniform, grid) == pytest.approx(grid, abs=0.005)
    observed = np.abs(r).mean()
    assert mixture.expected_abs_residual(law)[0, 0] == pytest.approx(observed, rel=0.01)
    beyond = (np.abs(r) > 4).mean()
    assert mixture.prob_beyond(law, 4.0)[0, 0] == pytest.approx(beyond, abs=0.003)


def test_location_moves_everything_by_itself(matches: Matches) -> None:
    plain = replace(EXAMPLE_CALIBRATION, law="mixture")
    shifted = replace(plain, location=(0.25, -0.5))
    offset = 8.0 * np.array([0.25, -0.5])  # in fine windows of 8 px
    a, b = error_law(matches, plain), error_law(matches, shifted)
    r = np.random.default_rng(0).normal(size=(len(matches), 2))
    for ask in (mixture.log_density, mixture.coarse_success, mixture.cdf):
        assert np.allclose(ask(a, r), ask(b, r + offset))


def test_zero_standard_deviation_is_raised_to_the_named_floor(matches: Matches) -> None:
    flat = replace(matches, coarse_std=np.zeros_like(matches.coarse_std))
    unit = replace(EXAMPLE_CALIBRATION, coarse_var_gain=(1, 1))
    law = error_law(flat, unit)
    assert (law.coarse_scale == STD_FLOOR_PX).all()
    assert np.isfinite(mixture.log_density(law, np.zeros((len(flat), 2)))).all()


@pytest.mark.parametrize("name", LAW_NAMES)
def test_every_variant_answers_every_question(name: str, matches: Matches) -> None:
    calibration = replace(EXAMPLE_CALIBRATION, law=name)
    law = error_law(matches, calibration)
    r = np.random.default_rng(0).normal(0, 5, (len(matches), 2))
    for answer in (
        mixture.log_density(law, r),
        mixture.coarse_success(law, r),
        mixture.cdf(law, r),
        mixture.expected_abs_error(law),
        mixture.prob_beyond(law, 8.0),
        abs_quantile(law, 0.9),
        mixture.sample(law, np.random.default_rng(0)),
        mixture.coarse_failure(law),
    ):
        assert np.isfinite(answer).all()
    success = mixture.coarse_success(law, r)
    if name == "fine_only":
        assert (success == 1).all()
    if name == "hard_gate":
        assert set(np.unique(success)) <= {0.0, 1.0}


def test_uncalibrated_tail_mass_is_one_minus_confidence(matches: Matches) -> None:
    calibration = Calibration(
        coarse_var_gain=(1, 1), fine_var_gain=(1, 1), spread_slope=0,
        doubt_slope=0, intercept=(0, 0), law="uncalibrated")  # fmt: skip
    law = error_law(matches, calibration)
    assert np.allclose(mixture.tail_prob(law)[:, 0], 1 - matches.confidence)
    assert np.allclose(law.fine_scale, matches.fine_std)
