"""One test per equation of the paper, in scalar Python written from its text."""

from __future__ import annotations

import math

import numpy as np
import pytest

from semisure.geometry.homography import project, residual, weighted_dlt
from semisure.law import mixture
from semisure.law.fit_law import fit, nll_per_match
from semisure.law.likelihood import Likelihood
from semisure.law.mixture import ErrorLaw
from semisure.law.observations import observe
from semisure.refit import planes as refit
from semisure.refit import weights
from semisure.synthetic import SyntheticMatcher
from semisure.types import Calibration, Matches
from test_calibrate import eight

NINE = {
    "a_x": 1.44, "a_y": 2.25, "b_x": 0.64, "b_y": 0.49,
    "k_s": 0.4, "k_m": 1.5, "t_x": 6.0, "t_y": 5.0, "t_m": 0.7,
}  # fmt: skip

ONE_MATCH = Matches(
    source=[[100.0, 50.0]],
    target=[[110.0, 47.0]],
    confidence=[0.3],
    fine_std=[[0.5, 0.8]],
    coarse_std=[[32.0, 12.0]],
    source_size=(640, 480),
    target_size=(320, 200),
)


def laplace(r: float, s: float) -> float:
    return math.exp(-abs(r) / s) / (2 * s)


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def one_law(fine: float, coarse: float, tail: float) -> ErrorLaw:
    """One match, both axes alike."""
    logit = math.log(tail / (1 - tail))
    rows = [np.full((1, 2), v) for v in (fine, coarse, logit, 0.0)]
    return ErrorLaw(*rows)


def test_eq_scale_calibration() -> None:
    fine, coarse = mixture.scales(ONE_MATCH, Calibration.from_paper(**NINE))
    assert fine[0] == pytest.approx([0.8 * 0.5, 0.7 * 0.8])  # √b · s̃ᶠ
    assert coarse[0] == pytest.approx([1.2 * 32, 1.5 * 12])  # √a · s̃ᶜ


def test_eq_gate_with_the_supplements_normalised_coarse_scale() -> None:
    law = mixture.mixture_law(ONE_MATCH, Calibration.from_paper(**NINE))
    # s̄ = 100 s̃ᶜ / D on the refined image, here 320 × 200: 10 % and 6 %.
    doubt = -math.log(0.3)
    for axis, (spread, knee) in enumerate([(10.0, 6.0), (6.0, 5.0)]):
        z = 0.4 * (spread - knee) + 1.5 * (doubt - 0.7)
        assert mixture.tail_prob(law)[0, axis] == pytest.approx(sigmoid(z))


def test_eq_laplace_mixture_density_per_axis() -> None:
    law = mixture.mixture_law(ONE_MATCH, Calibration.from_paper(**NINE))
    r = np.array([[1.7, -20.0]])
    for axis in (0, 1):
        s_f, s_c = law.fine_scale[0, axis], law.coarse_scale[0, axis]
        alpha = mixture.tail_prob(law)[0, axis]
        p = (1 - alpha) * laplace(r[0, axis], s_f) + alpha * laplace(r[0, axis], s_c)
        assert mixture.log_density(law, r)[0, axis] == pytest.approx(math.log(p))


def test_eq_two_component_error_golden_value() -> None:
    # scales 1 and 4, tail 0.2, r = 0: 0.8/2 + 0.2/8 = 0.425
    density = np.exp(mixture.log_density(one_law(1, 4, 0.2), np.zeros((1, 2))))
    assert density[0] == pytest.approx([0.425, 0.425])


def test_supplement_product_over_axes_is_the_2d_likelihood() -> None:
    law = one_law(1, 4, 0.2)
    r = np.array([[0.3, 6.0]])
    axes = [0.8 * laplace(x, 1) + 0.2 * laplace(x, 4) for x in (float(v) for v in r[0])]
    total = mixture.log_density(law, r).sum()
    assert total == pytest.approx(math.log(axes[0] * axes[1]))


def test_eq_nll_is_the_mean_of_minus_log_density(calibration: Calibration) -> None:
    matches, r = SyntheticMatcher().match(np.eye(3), count=50, seed=3)
    observations = observe([(matches, r)])
    by_hand = 0.0
    law = mixture.mixture_law(matches, calibration)
    for i in range(50):
        for axis in (0, 1):
            alpha = sigmoid(law.tail_logit[i, axis])
            p = (1 - alpha) * laplace(r[i, axis], law.fine_scale[i, axis])
            p += alpha * laplace(r[i, axis], law.coarse_scale[i, axis])
            by_hand -= math.log(p) / 100
    assert Likelihood(observations).value(eight(calibration)) == pytest.approx(by_hand)
    assert nll_per_match(observations, calibration).mean() == pytest.approx(by_hand)


def test_eq_geom_residual_is_predicted_minus_projected() -> None:
    H = np.array([[1.1, 0.02, 3.0], [-0.03, 0.95, -2.0], [1e-4, -2e-4, 1.0]])
    w = 1e-4 * 100 - 2e-4 * 50 + 1
    u = (1.1 * 100 + 0.02 * 50 + 3) / w
    v = (-0.03 * 100 + 0.95 * 50 - 2) / w
    assert residual(H, ONE_MATCH)[0] == pytest.approx([110 - u, 47 - v])


def test_eq_weight_exact_golden_values() -> None:
    law = one_law(1, 4, 0.2)
    # r = 0: (0.8 · 1/2) / (0.8 · 1/2 + 0.2 · 1/8) = 16/17
    at_zero = mixture.coarse_success(law, np.zeros((1, 2)))
    assert at_zero[0] == pytest.approx([16 / 17, 16 / 17])
    # It crosses one half where 16 e^{−3|r|/4} = 1, at |r| = (16/3) ln 2.
    crossing = np.full((1, 2), 16 / 3 * math.log(2))
    assert mixture.coarse_success(law, crossing)[0] == pytest.approx([0.5, 0.5])


def test_eq_weight_approx_is_bayes_with_the_calibrated_components() -> None:
    law = mixture.mixture_law(ONE_MATCH, Calibration.from_paper(**NINE))
    r = np.array([[2.0, -0.4]])
    expected = 1.0
    for axis in (0, 1):
        alpha = sigmoid(law.tail_logit[0, axis])
        good = (1 - alpha) * laplace(r[0, axis], law.fine_scale[0, axis])
        bad = alpha * laplace(r[0, axis], law.coarse_scale[0, axis])
        expected *= good / (good + bad)
    assert weights.core(law, r)[0] == pytest.approx(expected)


def test_weight_is_the_product_of_the_axis_posteriors() -> None:
    # At r = (0.3, 6) with scales 1 and 4 and tail 0.2: 16/(16 + e^{0.75|r|}) each.
    law = one_law(1, 4, 0.2)
    by_hand = 16 / (16 + math.exp(0.225)) * 16 / (16 + math.exp(4.5))
    assert weights.core(law, np.array([[0.3, 6.0]]))[0] == pytest.approx(by_hand)
    assert by_hand == pytest.approx(0.14, abs=0.005)


def test_eq_refit_minimises_the_weighted_algebraic_error(matches: Matches) -> None:
    weight = np.random.default_rng(0).random(len(matches))
    H = weighted_dlt(matches.source, matches.target, weight)
    assert H is not None
    assert np.allclose(H, dlt_by_svd(matches.source, matches.target, weight), atol=1e-9)


def dlt_by_svd(
    source: np.ndarray, target: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """The same by the text: 2n × 9, rows times √ω, smallest right singular vector."""
    T = []
    for points in (source, target):
        center = np.average(points, axis=0, weights=weight)
        square = np.average(((points - center) ** 2).sum(axis=1), weights=weight)
        s = math.sqrt(2 / square)
        T.append(np.array([[s, 0, -s * center[0]], [0, s, -s * center[1]], [0, 0, 1]]))
    rows = []
    for p, q, w in zip(
        project(T[0], source), project(T[1], target), weight, strict=True
    ):
        x = np.array([*p, 1.0])
        rows.append(math.sqrt(w) * np.concatenate([x, np.zeros(3), -q[0] * x]))
        rows.append(math.sqrt(w) * np.concatenate([np.zeros(3), x, -q[1] * x]))
    h = np.linalg.svd(np.array(rows))[2][-1]
    H = np.linalg.inv(T[1]) @ h.reshape(3, 3) @ T[0]
    return H / H[2, 2]


def test_algorithm_2_step_by_step(
    matches: Matches, calibration: Calibration, truth: np.ndarray
) -> None:
    start = truth + 1e-3 * np.eye(3)
    start /= start[2, 2]
    law = mixture.mixture_law(matches, calibration)
    weight = np.ones(len(matches))
    for axis in (0, 1):
        r = matches.target[:, axis] - project(start, matches.source)[:, axis]
        s_f, s_c = law.fine_scale[:, axis], law.coarse_scale[:, axis]
        alpha = 1 / (1 + np.exp(-law.tail_logit[:, axis]))
        good = (1 - alpha) * np.exp(-np.abs(r) / s_f) / (2 * s_f)
        bad = alpha * np.exp(-np.abs(r) / s_c) / (2 * s_c)
        weight *= good / (good + bad)
    result = refit.refit_homography(matches, calibration, start, method="core")
    assert np.allclose(result.weight, weight, atol=1e-12)
    assert result.model is not None
    expected = dlt_by_svd(matches.source, matches.target, weight)
    assert np.allclose(result.model, expected, atol=1e-8)


def test_supplement_residual_is_matching_error_plus_initial_error(
    planted: tuple[Matches, np.ndarray], truth: np.ndarray
) -> None:
    matches, matching_error = planted
    start = truth.copy()
    start[0, 2] += 1.5
    initial_error = project(truth, matches.source) - project(start, matches.source)
    assert np.allclose(residual(start, matches), matching_error + initial_error)


def test_expected_error_golden_values() -> None:
    law = one_law(1, 4, 0.2)
    # E|r| = 0.8 · 1 + 0.2 · 4, and E[e] is its mean over two equal axes.
    assert mixture.expected_abs_residual(law)[0] == pytest.approx([1.6, 1.6])
    assert mixture.expected_abs_error(law)[0] == pytest.approx(1.6)


def test_prob_beyond_golden_value() -> None:
    # P(|r| > 8) = 0.8 e^{−8} + 0.2 e^{−2}
    tail = mixture.prob_beyond(one_law(1, 4, 0.2), 8.0)
    by_hand = 0.8 * math.exp(-8) + 0.2 * math.exp(-2)
    assert tail[0] == pytest.approx([by_hand, by_hand], rel=1e-12)


def test_nine_parameters_have_eight_directions() -> None:
    # Shifting t_m by δ is absorbed by t_x, t_y −= k_m δ / k_s.
    shifted = {**NINE, "t_m": NINE["t_m"] + 0.3}
    for knee in ("t_x", "t_y"):
        shifted[knee] = NINE[knee] - NINE["k_m"] * 0.3 / NINE["k_s"]
    one, two = (Calibration.from_paper(**nine) for nine in (NINE, shifted))
    assert one.intercept == pytest.approx(two.intercept)
    gauge = one.paper_symbols()
    assert gauge["t_m"] == 0.0
    again = Calibration.from_paper(**gauge)  # type: ignore[arg-type]
    assert again.intercept == pytest.approx(one.intercept)


def test_fine_only_gain_is_the_squared_mean_ratio() -> None:
    # With the tail off the best b is (mean |r| / s̃)².
    matches, r = SyntheticMatcher().match(np.eye(3), count=200, seed=1)
    calibration, _ = fit([(matches, r)], law="fine_only")
    for axis in (0, 1):
        ratio = np.mean(np.abs(r[:, axis]) / matches.fine_std[:, axis])
        assert calibration.fine_var_gain[axis] == pytest.approx(ratio**2)
