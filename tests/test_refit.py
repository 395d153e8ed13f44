"""CoRe and core+: the story, the safety, the sides, the odd inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from plain import plain_matches
from semisure.errors import InputError
from semisure.estimators import estimate_homography
from semisure.geometry.homography import inverse, project
from semisure.law.error_laws import error_law
from semisure.law.mixture import ErrorLaw, log_density, ordered
from semisure.metrics import corner_error
from semisure.refit import weights
from semisure.refit.planes import refit_homography, refit_points
from semisure.refit.weights import REFIT_METHODS
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher, random_homography
from semisure.types import Calibration, Estimate, FloatArray, Matches

FAILING = replace(EXAMPLE_CALIBRATION, intercept=(-3.2, -3.0))  # some 30 % fail


def test_story_of_planted_coarse_failures() -> None:
    """Medians over 50 pairs: core+ is best, RANSAC worst, and all are small.

    CoRe and hard inliers are alike here (0.26 and 0.24 px), so neither must win.
    """
    errors: dict[str, list[float]] = {}
    failed = []
    for seed in range(50):
        truth = random_homography(np.random.default_rng(seed))
        matches, r = SyntheticMatcher(FAILING).match(truth, count=600, seed=seed)
        failed.append((np.abs(r).max(axis=1) > 8).mean())
        start = estimate_homography(matches, "ransac")
        models = {"ransac": start.model}
        for method in ("binary", "core", "core+"):
            models[method] = refit_homography(
                matches, FAILING, start, method=method
            ).model
        for name, H in models.items():
            error = corner_error(H, truth, matches.source_size)
            errors.setdefault(name, []).append(error)
    medians = {name: float(np.median(e)) for name, e in errors.items()}
    assert 0.25 < np.mean(failed) < 0.45
    assert medians["core+"] < medians["core"] < medians["ransac"]
    assert medians["core+"] < medians["binary"] < medians["ransac"]
    # Absolute bounds, lest all arms be wrong together.
    assert medians["ransac"] < 1.5
    assert max(medians["core"], medians["binary"]) < 0.5
    assert medians["core+"] < 0.2


def test_core_plus_never_lowers_the_likelihood() -> None:
    kept = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        truth = random_homography(rng)
        matches, _ = SyntheticMatcher(FAILING).match(truth, count=40, seed=seed)
        start = random_homography(rng)  # a start that has nothing to do with the truth
        result = refit_homography(matches, FAILING, start)
        assert result.model is not None
        law = error_law(matches, FAILING)

        def likelihood(H: FloatArray, matches: Matches = matches, law=law) -> float:
            r = matches.target - project(H, matches.source)
            return float(log_density(law, r).sum())

        assert likelihood(result.model) >= likelihood(start) - 1e-9
        if result.reason is None:
            assert result.log_likelihood is not None
            assert result.log_likelihood[1] >= result.log_likelihood[0]
        else:
            kept += 1
            assert np.allclose(result.model, start / start[2, 2])
    assert kept > 0  # the guard was needed at least once


def test_core_plus_refuses_to_turn_the_image_inside_out() -> None:
    # All the weight lies on a tiny far corner whose noise alone would bend the rest.
    rng = np.random.default_rng(1)
    source = rng.uniform([630, 470], [636, 476], (40, 2))
    kept = 0
    for seed in range(40):
        noise = np.random.default_rng(seed).laplace(0, 1.0, (40, 2))
        matches = plain_matches(source, source + noise)
        result = refit_homography(matches, FAILING, np.eye(3))
        assert result.model is not None
        depth = (
            result.model[2]
            @ np.array([[0, 0, 1], [639, 0, 1], [639, 479, 1], [0, 479, 1]]).T
        )
        assert (depth > 0).all() or (depth < 0).all()
        assert np.linalg.det(result.model) * result.model[2, 2] > 0
        kept += result.reason is not None
    assert kept > 0


@pytest.mark.parametrize("method", ["core", "core+"])
def test_swapping_the_images_inverts_the_answer(
    method, matches: Matches, calibration: Calibration, truth: FloatArray
) -> None:
    forward = refit_homography(matches, calibration, truth, method=method)
    backward = refit_homography(
        matches.swapped(), calibration, inverse(truth), method=method
    )
    assert forward.model is not None
    assert backward.model is not None
    back = inverse(backward.model)
    assert corner_error(back, forward.model, matches.source_size) < 2e-3
    assert np.allclose(forward.weight, backward.weight, atol=1e-4)


@pytest.mark.parametrize("method", REFIT_METHODS)
def test_every_method_refits_from_an_estimate_and_from_a_matrix(
    method, matches: Matches, calibration: Calibration, truth: FloatArray
) -> None:
    start = estimate_homography(matches, "magsac++")
    for initial in (start, start.model):
        result = refit_homography(matches, calibration, initial, method=method)
        assert result.model is not None
        assert result.weight.shape == (len(matches),)
        assert result.method == method
        bound = 100 if method in ("uniform", "confidence") else 1
        assert corner_error(result.model, truth, matches.source_size) < bound


def test_plain_arrays_in_homography_and_weights_out(
    matches: Matches, calibration: Calibration, truth: FloatArray
) -> None:
    H, weight = refit_points(
        matches.source.tolist(), matches.target, truth, calibration,
        confidence=matches.confidence, fine_std=matches.fine_std,
        coarse_std=matches.coarse_std, source_size=(640, 480), target_size=(640, 480),
    )  # fmt: skip
    same = refit_homography(matches, calibration, truth)
    assert np.array_equal(H, same.model)
    assert np.array_equal(weight, same.weight)


def test_no_initial_model_is_an_outcome_with_a_reason(
    matches: Matches, calibration: Calibration
) -> None:
    few = matches.take(slice(0, 3))
    start = estimate_homography(few, "ransac")
    result = refit_homography(few, calibration, start)
    assert result.model is None
    assert result.reason == "only 3 matches, a homography needs 4"
    assert (result.weight == 0).all()


@pytest.mark.parametrize("method", ["core", "core+"])
def test_all_weights_zero_keeps_the_initial_model(method, matches, calibration) -> None:
    far = np.array([[1.0, 0, 1e7], [0, 1, 1e7], [0, 0, 1]])
    result = refit_homography(matches, calibration, far, method=method)
    assert np.array_equal(result.model, far)
    assert result.reason == "the weighted matches do not determine a homography"
    assert result.weight.max() == 0


def test_unknown_method_and_foreign_estimate_get_one_sentence(
    matches, calibration
) -> None:
    with pytest.raises(InputError, match=r"method must be one of core\+, core"):
        refit_homography(matches, calibration, np.eye(3), method="lm")
    other = Estimate(model=np.eye(3), inliers=np.ones(5, bool), estimator="x")
    with pytest.raises(InputError, match=r"its inliers have shape \(5,\)"):
        refit_homography(matches, calibration, other)


# -- the weights of the ablation, by hand


def test_huber_at_two_pixels() -> None:
    r = np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 0.0]])
    assert weights.huber(r).tolist() == pytest.approx([1, 0.4, 1])


def test_laplace_laplace_from_residuals_alone() -> None:
    r = np.array([[1.0, 1], [-1, -1], [8, 8], [1, -1]])
    inliers = np.array([True, True, False, True])
    # scales 1 and 8, prior 3/4: per axis 24 e^{−7|r|/8} : 1 as odds.
    odds = 24 * np.exp(-7 / 8)
    expected = (odds / (1 + odds)) ** 2
    assert weights.laplace_laplace(r, inliers)[0] == pytest.approx(expected)
    assert weights.laplace_laplace(r, np.ones(4, bool)).tolist() == [1, 1, 1, 1]


def test_the_density_of_the_fine_std() -> None:
    residual = np.array([[0.0, 2.0], [6.0, 0.0]])
    std = np.array([[1.0, 2.0], [1.0, 0.5]])
    # 1/(2·1) · 1/(2·2) · e⁻¹, and 1/(2·1) · e⁻⁶ · 1/(2·0.5).
    expected = [np.exp(-1) / 8, np.exp(-6) / 2]
    assert weights.fine_density(residual, std) == pytest.approx(expected)


def test_with_inverted_scales_the_papers_weight_grows_with_the_error() -> None:
    """Fine 1 px, coarse 0.3 px, logit α = −3; `ordered` guards core+ against that."""
    one = np.ones((1, 2))
    law = ErrorLaw(one, 0.3 * one, -3.0 * one, 0.0 * one)
    # At 0: 1 / (1 + e⁻³ · 1/0.3) = 0.858; at 20 px the coarse density is gone.
    assert weights.core(law, 0.0 * one) == pytest.approx([0.7356], abs=1e-4)  # 0.858²
    assert weights.core(law, 20.0 * one) == pytest.approx([1.0])
    for residual in (0.0, 1.0, 20.0):  # both scales 1: whatever it is, 1 / (1 + e⁻³)
        expected = 1 / (1 + np.exp(-3)) ** 2
        guarded = weights.core(ordered(law), residual * one)
        assert guarded == pytest.approx([expected]), residual


def test_matches_far_off_on_either_side_are_no_warning() -> None:
    """Where a map divides by 0, one lies at +∞ and another at −∞: no sum is defined."""
    matches, _ = SyntheticMatcher().match(np.eye(3), count=50)
    source = matches.source.copy()
    source[:2] = [[200.0, 10.0], [200.0, 300.0]]
    # x = 200 is mapped to depth 0, where y − 100 is −90 and 200.
    H = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, -100.0], [-1.0 / 256, 0.0, 200.0 / 256]])
    far = replace(matches, source=source)
    refit = refit_homography(far, FAILING, H, method="core")
    assert not refit.weight[:2].any()
