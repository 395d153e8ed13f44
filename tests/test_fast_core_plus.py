"""The fast ways of ``core+`` end where its plain equations end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import plain_core_plus as plain
from semisure import mixture
from semisure.error_laws import error_law
from semisure.estimators import estimate_homography
from semisure.geometry import homography as plane
from semisure.geometry import plane_steps
from semisure.geometry import pose as se3
from semisure.refit import refit_homography, refit_pose
from semisure.refit.core_plus import BLOCK_ROWS, equal_parts, floored
from semisure.refit.fixed_point import fixed_point
from semisure.refit.law_terms import LogLikelihood, Whitening
from semisure.refit.plane_fit import PlaneFit
from semisure.refit.shelf import Shelf
from semisure.synthetic import (
    EXAMPLE_CALIBRATION,
    EXAMPLE_CAMERA,
    SyntheticMatcher,
    random_homography,
    random_pose,
)
from semisure.types import LAW_NAMES, Calibration, Matches

FAILING = replace(EXAMPLE_CALIBRATION, intercept=(-3.2, -3.0))  # a third of all
SIDES = {"target": 1, "source": 0, "mixed": None}


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


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("count", [60, 700])
def test_homographies_end_where_the_plain_equations_end(side: str, count: int) -> None:
    """To a millionth of a pixel at the corners, whichever image was refined."""
    for seed, calibration in ((1, EXAMPLE_CALIBRATION), (2, FAILING)):
        matches = pair(count, seed, side, calibration)
        start = estimate_homography(matches, "ransac").model
        assert start is not None
        fast = refit_homography(matches, calibration, start)
        assert fast.reason is None
        slow = plain.homography(matches, calibration, start)
        frame = plane.corners(matches.source_size)
        gap = plane.project(fast.model, frame) - plane.project(slow, frame)
        assert np.abs(gap).max() < 1e-6


def test_blocks_do_not_change_the_homography() -> None:
    matches = pair(2 * BLOCK_ROWS + 77, 3, "target", EXAMPLE_CALIBRATION)
    start = estimate_homography(matches, "ransac").model
    assert start is not None
    fit = PlaneFit.of(matches, EXAMPLE_CALIBRATION)
    assert len(fit.forward) == 3
    fast, _ = fit.converged(start)
    slow = plain.homography(matches, EXAMPLE_CALIBRATION, start)
    frame = plane.corners(matches.source_size)
    assert fast is not None
    gap = plane.project(fast, frame) - plane.project(slow, frame)
    assert np.abs(gap).max() < 1e-6


def test_poses_end_where_the_plain_equations_end() -> None:
    for seed in range(4):
        truth = random_pose(np.random.default_rng(seed))
        matches, _ = SyntheticMatcher().match_world(truth, count=700, seed=seed)
        start = se3.moved(truth, np.array([2, -1, 1, 10, -5, 8]) * 1e-3)
        fast = refit_pose(matches, EXAMPLE_CAMERA, EXAMPLE_CALIBRATION, start)
        slow = plain.pose(matches, EXAMPLE_CAMERA, EXAMPLE_CALIBRATION, start)
        assert fast.reason is None
        seen = [
            se3.project(model, EXAMPLE_CAMERA, matches.world)
            for model in (fast.model, slow)
        ]
        assert np.abs(seen[0] - seen[1]).max() < 2e-6


@pytest.mark.parametrize("law_name", LAW_NAMES)
def test_kept_terms_say_what_the_mixture_says(law_name: str) -> None:
    """Posterior and likelihood, far out and where gates are wholly shut or open too."""
    matches, residual = SyntheticMatcher(FAILING).match(np.eye(3), count=300)
    residual[:3] = [[0.0, 0.0], [1e4, -3e3], [1e15, 1.0]]
    for location in (None, (0.1, -0.05)):
        calibration = replace(FAILING, law=law_name, location=location)
        law = error_law(matches, calibration)
        weight, total = LogLikelihood.of(law)(residual.T)
        success = mixture.coarse_success(law, residual)
        assert weight == pytest.approx(success[:, 0] * success[:, 1], abs=1e-13)
        plain_total = mixture.log_density(law, residual).sum()
        assert total == pytest.approx(plain_total, rel=1e-12)
        near = mixture.log_density(law.take(slice(3, None)), residual[3:]).sum()
        some = LogLikelihood.of(law.take(slice(3, None)))
        assert some(residual[3:].T)[1] == pytest.approx(near, rel=1e-11)


@pytest.mark.parametrize(("digits", "keep"), [(1e-13, False), (1e-5, True)])
def test_weights_are_those_of_the_equations(digits: float, keep: bool) -> None:
    matches, residual = SyntheticMatcher(FAILING).match(np.eye(3), count=300)
    law = floored(error_law(matches, FAILING), matches)
    shelf = Shelf(0, 8 * 300)
    whitening = Whitening.of(law, shelf.keep_single) if keep else Whitening.of(law)
    with np.errstate(over="ignore"):
        _, weight, _ = whitening(residual.T)
    expected = plain.whitened(law, residual).T
    assert weight.dtype == (np.float32 if keep else np.float64)
    # Against the largest: single precision has no numbers below 1e-38.
    assert np.abs(weight - expected).max() < digits * expected.max()


@pytest.mark.parametrize("side", SIDES)
def test_a_step_is_newtons_on_the_geometric_error(side: str) -> None:
    """Its direction is −(JᵀWJ)⁻¹JᵀWr with J by finite differences of the residual."""
    H = random_homography(np.random.default_rng(4))
    matches, _ = SyntheticMatcher().match(H, count=80, seed=4)
    rng = np.random.default_rng(0)
    # Small errors: parametrisations part at second order.
    noise = rng.normal(0, 0.01, (80, 2))
    sides = rng.integers(0, 2, 80) if SIDES[side] is None else SIDES[side]
    matches = replace(matches, target=plane.project(H, matches.source) + noise,
                      side=sides)  # fmt: skip
    start = plane.normalised(H + rng.normal(0, 1e-7, (3, 3)) * np.abs(H))
    weight = rng.random((80, 2))
    frames = plane_steps.Frames.of(matches)
    G = frames.enter(start)
    B = np.linalg.inv(G)
    total = np.zeros((9, 10))
    for of_side, model in ((1, G), (0, B)):
        rows = matches.side == of_side
        if not rows.any():
            continue
        part = plane_steps.Directed.of(matches.take(rows), frames)
        look = part.look(model)
        expected = plane.residual(start, matches)[rows].T
        assert look.residual == pytest.approx(expected, abs=1e-9)
        found = part.equations(look, look.residual, weight[rows].T)
        total += found if of_side else plane_steps.carried_over(found, G, B)
    fitted = plane_steps.stepped(G, total)
    assert fitted is not None
    frame = plane.corners((640, 480))
    after = plain.gauss_newton(start, matches, weight)
    moved = np.abs(plane.project(after, frame) - plane.project(start, frame)).max()
    gap = plane.project(frames.leave(fitted), frame) - plane.project(after, frame)
    assert np.abs(gap).max() < 1e-3 * moved


def test_steps_stand_still_at_the_truth() -> None:
    H = random_homography(np.random.default_rng(5))
    source = np.random.default_rng(0).uniform(0, 480, (50, 2))
    matches = Matches(
        source=source, target=plane.project(H, source), confidence=np.ones(50),
        fine_std=np.ones((50, 2)), coarse_std=np.ones((50, 2)),
        source_size=(640, 480), target_size=(640, 480))  # fmt: skip
    result = refit_homography(matches, EXAMPLE_CALIBRATION, H)
    assert np.allclose(result.model, H, atol=1e-9)


def test_matches_on_the_horizon_have_no_say() -> None:
    """x = 320 goes to infinity; the other matches are exact, and the start is kept."""
    H = np.array([[1.0, 0, 0], [0, 1, 0], [-1 / 320, 0, 1]])
    rng = np.random.default_rng(0)
    source = rng.uniform([0, 0], [250, 470], (60, 2))
    target = plane.project(H, source)
    source[:5, 0], target[:5] = 320.0, 100.0
    matches = Matches(
        source=source, target=target, confidence=np.full(60, 0.9),
        fine_std=np.ones((60, 2)), coarse_std=np.full((60, 2), 30.0),
        source_size=(640, 480), target_size=(640, 480))  # fmt: skip
    result = refit_homography(matches, EXAMPLE_CALIBRATION, H)
    assert np.allclose(result.model, H, atol=1e-6)
    assert result.weight[:5].max() == 0
    assert result.weight[5:].min() > 0.9


def test_a_slow_fixed_point_is_reached_in_few_steps() -> None:
    """Eight directions that each cover another share of the way that is left."""
    share = np.linspace(0.6, 0.8, 8)
    goal = np.arange(8.0)
    steps = []

    def image(x: np.ndarray) -> np.ndarray:
        steps.append(x)
        return x + share * (goal - x)

    def apart(x: np.ndarray, y: np.ndarray) -> float:
        return float(np.abs(y - x).max())

    x, count = fixed_point(np.zeros(8), image, apart, tolerance=1e-9, max_steps=30)
    assert x is not None
    assert np.abs(x - goal).max() < 1e-9
    assert count == len(steps) < 13  # 24 without the extrapolation


def test_a_fixed_point_beyond_a_place_without_image_is_none() -> None:
    def image(x: np.ndarray) -> np.ndarray | None:
        return x + 1.0 if x[0] < 3 else None

    answer = fixed_point(
        np.zeros(1), image, lambda x, y: 1.0, tolerance=1e-6, max_steps=30
    )
    assert answer[0] is None


def test_rows_are_cut_into_equal_parts() -> None:
    assert equal_parts(0) == []
    parts = equal_parts(10, most=4)
    assert [p.stop - p.start for p in parts] == [4, 4, 2]
    assert equal_parts(8, most=4) == [slice(0, 4), slice(4, 8)]
