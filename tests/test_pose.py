"""Absolute pose: the group, the refit's story, bad geometry, the estimators."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semisure.errors import InputError
from semisure.estimators.pose import (
    POSE_ESTIMATOR_NAMES,
    estimate_pose,
)
from semisure.geometry import pose as se3
from semisure.geometry.camera import Camera
from semisure.geometry.rotations import checked_motion, quaternion
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.refit.poses import refit_pose, residuals
from semisure.synthetic import EXAMPLE_CALIBRATION as CALIBRATION
from semisure.synthetic import SyntheticMatcher, random_pose
from semisure.types import FloatArray, WorldMatches

CAMERA = Camera("OPENCV", 640, 480, (520.0, 515.0, 322.0, 241.0, -0.1, 0.02, 1e-3, 0.0))
tangents = st.lists(st.floats(-1.5, 1.5), min_size=6, max_size=6).map(np.array)


def scene(
    seed: int, count: int = 800, planar: bool = False, noise: float = 1.0
) -> tuple[WorldMatches, FloatArray]:
    """Matches that err by the calibrated law, times `noise`, and the true pose."""
    truth = random_pose(np.random.default_rng(seed))
    depth = (5.0, 5.0) if planar else (3.0, 9.0)
    matches, residual = SyntheticMatcher().match_world(
        truth, CAMERA, count=count, depth=depth, seed=seed
    )
    return matches.shifted((noise - 1.0) * residual), truth


# -- the group


@given(tangents, tangents)
def test_tangent_undoes_moved(first: FloatArray, second: FloatArray) -> None:
    pose = se3.moved(np.eye(3, 4), first)
    other = se3.moved(pose, second)
    assert np.allclose(se3.moved(pose, se3.tangent(pose, other)), other, atol=1e-9)


@given(tangents)
def test_quaternion_there_and_back(tangent: FloatArray) -> None:
    pose = se3.moved(np.eye(3, 4), tangent)
    q = quaternion(pose[:, :3])
    assert q[0] >= 0
    assert np.allclose(se3.from_quaternion(3.0 * q, pose[:, 3]), pose, atol=1e-12)


def test_the_centre_moves_by_minus_the_turned_step() -> None:
    pose = se3.moved(np.eye(3, 4), np.array([0.3, -0.2, 0.1, 1, 2, 3.0]))
    step = 1e-7 * np.array([1, 2, -1, 3, -2, 1.0])
    shift = se3.centre(se3.moved(pose, step)) - se3.centre(pose)
    assert np.allclose(shift, -pose[:, :3].T @ step[3:], atol=1e-12)


def test_derivative_is_the_difference() -> None:
    matches, truth = scene(0, 100)
    J, h = se3.look(truth, CAMERA, matches.world)[1], 1e-6
    for k, step in enumerate(h * np.eye(6)):
        ahead, behind = (
            se3.project(se3.moved(truth, s * step), CAMERA, matches.world)
            for s in (1, -1)
        )
        assert np.abs((ahead - behind).T / (2 * h) - J[:, k]).max() < 1e-5


def test_a_pose_is_finite_and_holds_a_rotation() -> None:
    pose = se3.moved(np.eye(3, 4), np.full(6, 0.1))
    assert np.array_equal(checked_motion(np.vstack([pose, [0, 0, 0, 1]]), "P"), pose)
    for bad in (np.eye(3), pose * np.nan, pose * [-1, 1, 1, 1], 2 * pose):
        with pytest.raises(InputError, match=r"P must be \[R | t\], 3 × 4"):
            checked_motion(bad, "P")


# -- the refit


def test_exact_matches_give_the_exact_pose() -> None:
    matches, truth = scene(1, noise=0.0)
    start = se3.moved(truth, np.array([0.01, -0.01, 0.02, 0.05, -0.03, 0.04]))
    for method in ("core", "core+", "uniform"):
        result = refit_pose(matches, CAMERA, CALIBRATION, start, method=method)
        assert result.reason is None
        apart, angle = se3.errors(result.model, truth)
        assert apart < 1e-5  # 1e-3 px at a distance of 5
        assert angle < 1e-4


def test_story_of_planted_coarse_failures() -> None:
    """Medians over 25 scenes: RANSAC > CoRe > core+, and all small."""
    errors: dict[str, list[float]] = {"base": [], "core": [], "core+": []}
    for seed in range(25):
        matches, truth = scene(seed)
        start = estimate_pose(matches, CAMERA, "ransac")
        assert start.model is not None
        errors["base"].append(se3.errors(start.model, truth)[0])
        for method in ("core", "core+"):
            result = refit_pose(matches, CAMERA, CALIBRATION, start, method=method)
            errors[method].append(se3.errors(result.model, truth)[0])
    medians = {name: float(np.median(e)) for name, e in errors.items()}
    assert medians["core+"] < medians["core"] < medians["base"]
    # Absolute bounds, lest all arms be wrong together; the scene is 3 to 9 away.
    assert medians["base"] < 0.03
    assert medians["core+"] < 0.004


def test_core_is_one_weighted_least_squares_fit() -> None:
    matches, truth = scene(3)
    start = se3.moved(truth, np.full(6, 1e-3))
    result = refit_pose(matches, CAMERA, CALIBRATION, start, method="core")
    law = error_law(matches, CALIBRATION)
    omega = mixture.coarse_success(law, residuals(start, CAMERA, matches))
    assert np.allclose(result.weight, omega.prod(axis=1))
    # At the minimum of Σ ω ‖r‖² its gradient vanishes.
    r = residuals(result.model, CAMERA, matches)
    _, J = se3.look(result.model, CAMERA, matches.world)
    both = np.repeat(result.weight[:, None], 2, axis=1)
    normal, gradient = se3.normal_equations(J, r, both)
    assert np.abs(np.linalg.solve(normal, gradient)).max() < 1e-6


def test_core_plus_never_lowers_the_likelihood() -> None:
    law_of = lambda matches: error_law(matches, CALIBRATION)  # noqa: E731
    for seed in range(30):
        matches, truth = scene(seed, 60)
        rng = np.random.default_rng(seed)
        start = se3.moved(truth, rng.normal(0, 0.2, 6))
        result = refit_pose(matches, CAMERA, CALIBRATION, start)
        likelihood = [
            mixture.log_density(
                law_of(matches), np.nan_to_num(residuals(p, CAMERA, matches), nan=1e100)
            ).sum()
            for p in (start, result.model)
        ]
        assert likelihood[1] >= likelihood[0]
        if result.reason is not None:
            assert np.array_equal(result.model, start)


def test_points_on_one_line_of_sight_do_not_determine_a_pose() -> None:
    matches, truth = scene(6, 20, noise=0.0)
    world = np.tile(matches.world[:1], (20, 1))
    points = np.tile(matches.points[:1], (20, 1))
    one = replace(matches, points=points, world=world)
    for method in ("core", "core+"):
        result = refit_pose(one, CAMERA, CALIBRATION, truth, method=method)
        assert result.reason == "the weighted matches do not determine a pose"
        assert np.array_equal(result.model, truth)


def test_a_camera_that_looks_away_is_left_alone() -> None:
    matches, truth = scene(7, 50)
    away = np.diag([-1.0, 1, -1]) @ truth  # half a turn about y
    result = refit_pose(matches, CAMERA, CALIBRATION, away)
    assert result.reason == "every world point lies behind the initial camera"
    assert result.covariance is None
    assert result.log_likelihood is not None
    assert result.log_likelihood[0] == result.log_likelihood[1]


def test_points_behind_the_camera_have_no_weight() -> None:
    matches, truth = scene(8)
    world = matches.world.copy()
    world[:50] = 2 * se3.centre(truth) - world[:50]  # through the centre
    some = replace(matches, world=world)
    for method in ("core", "core+", "uniform"):
        result = refit_pose(some, CAMERA, CALIBRATION, truth, method=method)
        assert result.reason is None
        assert not result.weight[:50].any()


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_too_few_matches_keep_the_start(count: int) -> None:
    matches, truth = scene(9, 10)
    few = matches.take(np.arange(count))
    result = refit_pose(few, CAMERA, CALIBRATION, truth)
    assert result.reason.startswith(f"{count} matches are too few to refit a pose")
    assert np.array_equal(result.model, truth)
    law = error_law(few, CALIBRATION)
    expected = mixture.log_density(
        law, few.points - se3.project(truth, CAMERA, few.world)
    )
    assert result.log_likelihood == pytest.approx([expected.sum(), expected.sum()])
    assert result.covariance is None


def test_a_doubtful_map_counts_less() -> None:
    """World points that are known to be off pull less than those that are not."""
    matches, truth = scene(14, 600, noise=0.3)
    shift = np.zeros((600, 2))
    shift[:300, 0] = 1.0  # half of the map is off by a pixel, and says so
    error = np.where(np.arange(600) < 300, 2.0, 0.0)
    undeclared = matches.shifted(shift)
    declared = replace(undeclared, map_error=error)
    off = [
        se3.errors(refit_pose(m, CAMERA, CALIBRATION, truth).model, truth)[1]
        for m in (declared, undeclared)
    ]
    assert off[0] < 0.7 * off[1]


# -- the estimators


@pytest.mark.parametrize("name", POSE_ESTIMATOR_NAMES)
def test_estimators_find_the_pose(name: str) -> None:
    if name in ("poselib", "pycolmap"):
        pytest.importorskip(name, reason="needs the extra pose")
    matches, truth = scene(20)
    estimate = estimate_pose(matches, CAMERA, name)
    assert estimate.model is not None
    apart, angle = se3.errors(estimate.model, truth)
    assert apart < 0.1
    assert angle < 1.0
    distance = np.linalg.norm(residuals(estimate.model, CAMERA, matches), axis=1)
    assert np.array_equal(estimate.inliers, distance <= 3.0)
    again = estimate_pose(matches, CAMERA, name)
    assert np.array_equal(estimate.model, again.model)


@pytest.mark.parametrize("name", POSE_ESTIMATOR_NAMES)
def test_nonsense_has_no_pose_or_few_inliers(name: str) -> None:
    if name in ("poselib", "pycolmap"):
        pytest.importorskip(name, reason="needs the extra pose")
    rng = np.random.default_rng(0)
    points, world = rng.uniform(0, 480, (40, 2)), rng.normal(size=(40, 3))
    nonsense = replace(scene(0, 40)[0], points=points, world=world)
    estimate = estimate_pose(nonsense, CAMERA, name)
    assert estimate.model is None or estimate.inliers.sum() < 15
    assert (estimate.model is None) == (estimate.reason is not None)


def test_an_unknown_estimator_is_named() -> None:
    with pytest.raises(InputError, match="estimator must be one of ransac"):
        estimate_pose(scene(0, 10)[0], CAMERA, "best")


def test_a_map_error_is_not_negative() -> None:
    matches, _ = scene(0, 3)
    with pytest.raises(InputError, match="map_error must not be negative"):
        replace(matches, map_error=-np.ones(3))
