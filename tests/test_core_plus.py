"""``core+``: its weights by hand, its steps by differences, its end by SciPy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import least_squares

from plain import plain_matches
from semisure.estimators import estimate_homography
from semisure.geometry import homography as plane
from semisure.geometry import pose as se3
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.law.families import GAUSSIAN
from semisure.law.mixture import ErrorLaw
from semisure.metrics import corner_error
from semisure.refit.core_plus import (
    Weighting,
    converged,
    floored,
)
from semisure.refit.planes import refit_homography
from semisure.refit.poses import refit_pose
from semisure.synthetic import (
    EXAMPLE_CALIBRATION,
    EXAMPLE_CAMERA,
    SyntheticMatcher,
    random_homography,
    random_pose,
)
from semisure.types import LAW_NAMES, Calibration, FloatArray, Matches

FAILING = replace(EXAMPLE_CALIBRATION, intercept=(-3.2, -3.0))  # a third of all
SIDES = {"target": 1, "source": 0, "mixed": None}
NEAR_PX = 1e-3


def pair(count: int, seed: int, side: str, calibration: Calibration) -> Matches:
    """Matches of a random homography whose refined points lie on the given side."""
    H = random_homography(np.random.default_rng(seed))
    matches, residual = SyntheticMatcher(calibration).match(H, count=count, seed=seed)
    if side == "target":
        return matches
    # The same errors, made in image 0: its points are exact before, not after.
    sides = np.arange(count) % 2 if side == "mixed" else np.zeros(count, int)
    exact = matches.target - residual
    on_source = (sides == 0)[:, None]
    return replace(
        matches,
        side=sides,
        source=np.where(on_source, matches.source + residual, matches.source),
        target=np.where(on_source, exact, matches.target),
    )


def refitted(matches: Matches, calibration: Calibration) -> FloatArray:
    start = estimate_homography(matches, "ransac").model
    refit = refit_homography(matches, calibration, start)
    assert refit.reason is None
    assert refit.model is not None
    return refit.model


# -- weights


def test_weights_by_hand() -> None:
    """Scales 1 and 4, tail 0.2: the odds are e^{r (1 − 1/4)} / 16, ω is 16/17 at 0."""
    one = np.ones((2, 2))
    law = ErrorLaw(one, 4 * one, np.log(0.25) * one, 0 * one)
    residual = np.array([[0.0, 3.0], [0.0, 0.0]])  # columns are matches
    success = 16 / 17 / (1 + np.exp(2.25) / 16)
    expected = [[256 / 289, success / np.sqrt(10)], [256 / 289, success]]
    assert np.allclose(Weighting.of(law).at(residual), expected)
    gaussian = replace(law, family=GAUSSIAN)  # e^{r² (1 − 1/16) / 2} / 16
    success = 16 / 17 / (1 + np.exp(9 * 15 / 32) / 16)
    expected = [[256 / 289, success / np.sqrt(10)], [256 / 289, success]]
    assert np.allclose(Weighting.of(gaussian).at(residual), expected)


@pytest.mark.parametrize("law_name", LAW_NAMES)
def test_weights_are_the_posterior_whitened(law_name: str) -> None:
    """Far out and where gates are wholly shut or open too, in any unit of length."""
    calibration = replace(FAILING, law=law_name)
    matches, residual = SyntheticMatcher(FAILING).match(np.eye(3), count=300)
    residual[:2] = [[0.0, 0.0], [1e4, -3e3]]
    law = floored(error_law(matches, calibration), matches)
    success = mixture.coarse_success(law, residual).prod(axis=1, keepdims=True)
    fine = law.fine_scale
    expected = (success / (fine * np.hypot(residual, fine))).T
    with np.errstate(over="ignore"):
        assert Weighting.of(law).at(residual.T) == pytest.approx(expected, rel=1e-9)
        in_tens = Weighting.of(law, unit_px=10.0).at(residual.T / 10)
    assert in_tens == pytest.approx(100 * expected, rel=1e-9)


# -- steps


def test_steps_end_where_the_rest_is_below_the_tolerance() -> None:
    """Each step leaves a tenth: after n, 2 · 10⁻ⁿ is left, 2e-5 px at n = 5."""

    def apart(x: FloatArray, y: FloatArray) -> float:
        return float(np.abs(y - x).max())

    x, count = converged(np.zeros(1), lambda x: 0.1 * x + 1.8, apart)
    assert count == 5
    assert x == pytest.approx(2.0 - 2e-5)
    assert converged(np.full(1, 2.0), lambda x: x, apart) == (2.0, 1)
    assert converged(np.zeros(1), lambda x: None, apart) == (None, 1)


# -- where they end


@pytest.mark.parametrize("side", SIDES)
def test_without_a_tail_a_homography_minimises_pseudo_huber(side: str) -> None:
    """Where ω is 1 the weights are those of Σ √(1 + (r / sᶠ)²), SciPy's soft_l1."""
    calibration = replace(EXAMPLE_CALIBRATION, law="fine_only")
    matches = pair(80, 1, side, calibration)
    law = floored(error_law(matches, calibration), matches)
    H = refitted(matches, calibration)

    def whitened(entries: FloatArray) -> FloatArray:
        trial = np.append(entries, 1.0).reshape(3, 3)
        return (plane.residual(trial, matches) / law.fine_scale).ravel()

    start = H.ravel()[:8] * 1.001
    best = least_squares(
        whitened, start, loss="soft_l1", x_scale=np.abs(start), xtol=1e-15, ftol=1e-15
    )
    theirs = np.append(best.x, 1.0).reshape(3, 3)
    assert corner_error(H, theirs, matches.source_size) < NEAR_PX


def test_without_a_tail_a_pose_minimises_pseudo_huber() -> None:
    calibration = replace(EXAMPLE_CALIBRATION, law="fine_only")
    truth = random_pose(np.random.default_rng(2))
    matches, _ = SyntheticMatcher(calibration).match_world(truth, count=200, seed=2)
    law = floored(error_law(matches, calibration), matches)
    start = se3.moved(truth, np.array([2, -1, 1, 10, -5, 8]) * 1e-3)
    refit = refit_pose(matches, EXAMPLE_CAMERA, calibration, start)

    def pixels(tangent: FloatArray) -> FloatArray:
        return se3.project(se3.moved(start, tangent), EXAMPLE_CAMERA, matches.world)

    def whitened(tangent: FloatArray) -> FloatArray:
        return ((matches.points - pixels(tangent)) / law.fine_scale).ravel()

    best = least_squares(whitened, np.zeros(6), loss="soft_l1", xtol=1e-15, ftol=1e-15)
    ours = se3.project(refit.model, EXAMPLE_CAMERA, matches.world)
    assert np.abs(ours - pixels(best.x)).max() < NEAR_PX


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("calibration", [EXAMPLE_CALIBRATION, FAILING])
def test_weighted_least_squares_moves_the_answer_no_more(
    side: str, calibration: Calibration
) -> None:
    """Its step, of the equations as they read, with derivatives by differences."""
    matches = pair(700, 2, side, calibration)
    H = refitted(matches, calibration)
    law = floored(error_law(matches, calibration), matches)
    r = plane.residual(H, matches)
    success = mixture.coarse_success(law, r).prod(axis=1, keepdims=True)
    root = np.sqrt(success / (law.fine_scale * np.hypot(r, law.fine_scale)))
    size = np.diag(1e-6 * np.abs(H).ravel())[:8].reshape(8, 3, 3)
    J = [plane.residual(H - e, matches) - plane.residual(H + e, matches) for e in size]
    A = np.array([root * column / 2 for column in J]).reshape(8, -1).T
    step, *_ = np.linalg.lstsq(A, (root * r).ravel())
    after = H + np.tensordot(step, size, axes=1)
    assert corner_error(after, H, matches.source_size) < NEAR_PX


# -- bad geometry


@pytest.mark.parametrize("law_name", ["mixture", "fine_only"])
def test_matches_on_the_horizon_have_no_say(law_name: str) -> None:
    """x = 320 goes to infinity; the other matches are exact, and the start is kept."""
    H = np.array([[1.0, 0, 0], [0, 1, 0], [-1 / 320, 0, 1]])
    rng = np.random.default_rng(0)
    source = rng.uniform([0, 0], [250, 470], (60, 2))
    target = plane.project(H, source)
    source[:5, 0], target[:5] = 320.0, 100.0
    matches = plain_matches(source, target)
    calibration = replace(EXAMPLE_CALIBRATION, law=law_name)
    result = refit_homography(matches, calibration, H)
    assert np.allclose(result.model, H, atol=1e-6)
    if law_name == "mixture":
        assert result.weight[:5].max() == 0
    assert result.weight[5:].min() > 0.9


def test_a_start_without_inverse_is_kept_where_the_inverse_is_needed() -> None:
    matches = pair(60, 1, "source", EXAMPLE_CALIBRATION)
    singular = replace(
        estimate_homography(matches, "ransac"), model=np.diag([1.0, 0.0, 1.0])
    )
    result = refit_homography(matches, EXAMPLE_CALIBRATION, singular)
    assert np.allclose(result.model, singular.model)
    assert result.reason is not None
