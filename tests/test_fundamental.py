"""The fundamental matrix: its seven parameters, estimators, refit, degenerate cases."""

from __future__ import annotations

from dataclasses import replace

import cv2
import numpy as np
import pytest

import semisure
from semisure.errors import InputError
from semisure.estimators import FUNDAMENTAL_ESTIMATORS
from semisure.geometry import epipolar
from semisure.geometry import fundamental as fm
from semisure.geometry import pose as se3
from semisure.refit.fundamental import FUNDAMENTAL_METHODS
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher, random_homography
from semisure.types import Matches, Matrix3

K = np.array([[520.0, 0, 319.5], [0, 500.0, 239.5], [0, 0, 1]])
SIZE = (640, 480)
P_01 = epipolar.checked_pose(se3.moved(np.eye(3, 4), [0.02, 0.1, 0.05, 1, 0.1, 0.3]))
TRUTH = fm.of_rank_2(epipolar.fundamental(P_01, K, K))


@pytest.fixture
def views() -> Matches:
    return SyntheticMatcher().match_views(P_01, K, count=1500, seed=3)[0]


def true_points() -> Matches:
    """Exact correspondences of the two views."""
    exact = replace(
        EXAMPLE_CALIBRATION,
        fine_var_gain=(1e-12, 1e-12),
        intercept=(-80.0, -80.0),
        spread_slope=0.0,
        doubt_slope=0.0,
    )
    return SyntheticMatcher(exact).match_views(P_01, K, count=500, seed=9)[0]


def line_error(F: Matrix3 | None) -> float:
    """Median distance of true correspondences from their lines, px."""
    assert F is not None
    return float(np.median(np.abs(epipolar.lines_of(F[None], true_points()).distance)))


def test_seven_numbers_hold_any_fundamental_matrix() -> None:
    seven = fm.Seven.of(TRUTH, SIZE, (800, 600))
    assert np.allclose(seven.model, TRUTH, atol=1e-12)
    moved = seven.moved(np.array([0.1, -0.2, 0.05, 0.02, 0.3, -0.1, 0.2]))
    assert np.linalg.matrix_rank(moved.model, tol=1e-10) == 2
    assert np.linalg.norm(moved.model) == pytest.approx(1.0)


def test_derivatives_are_those_of_differences(views: Matches) -> None:
    matches = replace(views.take(slice(8)), side=np.arange(8) % 2)
    seven, step = fm.Seven.of(TRUTH, SIZE, SIZE), 1e-6
    J = seven.lines(matches).jacobian
    for k in range(7):
        move = step * np.eye(7)[k]
        ahead = seven.moved(move).lines(matches).distance
        behind = seven.moved(-move).lines(matches).distance
        slope = (ahead - behind) / (2 * step)
        assert np.allclose(J[:, k], slope, rtol=1e-6, atol=1e-4 * np.abs(J).max())


def test_a_rectified_pair_has_seven_directions_too() -> None:
    """F = [e₁]ₓ has two equal singular values, cos 45°: there c₂ and c₃ still differ.

    In the frames of the images the tangents of the epipoles have norm cos 45°, those
    of the block have norm 1, and all are orthogonal.
    """
    T = fm.frame(SIZE)
    rectified = T.T @ np.array([[0.0, 0, 0], [0, 0, -1], [0, 1, 0]]) @ T
    seven = fm.Seven.of(rectified, SIZE, SIZE)
    back = np.linalg.inv(T)
    tangent = [back.T @ D @ back for D in seven.with_derivatives()[1:]]
    values = np.linalg.svd(np.reshape(tangent, (7, 9)), compute_uv=False)
    np.testing.assert_allclose(values, [1, 1, 1, *4 * [0.5**0.5]])


@pytest.mark.parametrize("name", FUNDAMENTAL_ESTIMATORS)
def test_every_estimator_finds_the_geometry(name: str, views: Matches) -> None:
    if name == "poselib":
        pytest.importorskip(name)
    estimate = semisure.estimate_fundamental(views, name)
    assert estimate.model is not None, estimate.reason
    assert np.linalg.norm(estimate.model) == pytest.approx(1.0)
    assert np.linalg.det(estimate.model) == pytest.approx(0.0, abs=1e-12)
    assert line_error(estimate.model) < 1.0


def test_core_plus_betters_ransac() -> None:
    """In 20 draws: the median error falls to a half, and below 0.1 px."""
    before, after = [], []
    for seed in range(20):
        views, _ = SyntheticMatcher().match_views(P_01, K, count=800, seed=seed)
        start = semisure.estimate_fundamental(views, "ransac")
        refit = semisure.refit_fundamental(views, EXAMPLE_CALIBRATION, start)
        assert refit.reason is None
        assert refit.log_likelihood is not None
        assert refit.log_likelihood[1] >= refit.log_likelihood[0]
        before.append(line_error(start.model))
        after.append(line_error(refit.model))
    assert np.median(after) < 0.5 * np.median(before)
    assert np.median(after) < 0.1


@pytest.mark.parametrize("method", FUNDAMENTAL_METHODS)
def test_plain_arrays_of_any_library_will_do(views: Matches, method) -> None:
    points = (np.ascontiguousarray(p) for p in (views.source, views.target))
    start, _ = cv2.findFundamentalMat(*points, cv2.USAC_MAGSAC, 1.0, 0.999, 10_000)
    refit = semisure.refit_fundamental(views, EXAMPLE_CALIBRATION, start, method=method)
    assert line_error(refit.model) < 0.5


def test_a_plane_is_reported(views: Matches) -> None:
    H = random_homography(np.random.default_rng(1))
    flat, _ = SyntheticMatcher().match(H, count=1500, seed=2)
    start = semisure.estimate_fundamental(flat, "ransac")
    refit = semisure.refit_fundamental(flat, EXAMPLE_CALIBRATION, start)
    assert refit.reason is not None
    assert "one plane or the camera only turned" in refit.reason
    assert refit.model is not None
    assert refit.covariance is None


@pytest.mark.parametrize("count", [0, 3, 7])
def test_too_few_matches_are_reported(views: Matches, count: int) -> None:
    few = views.take(slice(count))
    estimate = semisure.estimate_fundamental(few)
    assert estimate.model is None
    assert "a fundamental matrix needs 8" in str(estimate.reason)
    assert semisure.refit_fundamental(few, EXAMPLE_CALIBRATION, estimate).model is None
    kept = semisure.refit_fundamental(few, EXAMPLE_CALIBRATION, TRUTH)
    assert kept.reason is not None
    assert np.allclose(np.abs(kept.model), np.abs(TRUTH))


def test_a_start_that_is_none_gets_a_sentence(views: Matches) -> None:
    with pytest.raises(InputError, match="initial must be a finite 3 × 3 fundamental"):
        semisure.refit_fundamental(views, EXAMPLE_CALIBRATION, np.zeros((3, 3)))
    with pytest.raises(InputError, match=r"method must be one of core\+, core"):
        semisure.refit_fundamental(
            views,
            EXAMPLE_CALIBRATION,
            TRUTH,
            method="best",  # type: ignore[arg-type]
        )


@pytest.mark.parametrize("kind", ["fundamental", "relative"])
def test_the_covariance_covers_the_truth(kind: str) -> None:
    """Of 60 independent draws half or more lie in the half region; matches are free."""
    inside = []
    for seed in range(60):
        views, _ = SyntheticMatcher().match_views(P_01, K, count=600, seed=seed)
        if kind == "relative":
            refit = semisure.refit_relative(views, EXAMPLE_CALIBRATION, P_01, K, K)
            size, step = 5, _five(refit.model)
        else:
            refit = semisure.refit_fundamental(views, EXAMPLE_CALIBRATION, TRUTH)
            size, step = 7, _seven(refit.model)
        C, whole = refit.matching_covariance, refit.covariance
        assert C is not None
        assert whole is not None
        assert C.shape == whole.shape == (size, size)
        inside.append(step @ np.linalg.solve(C, step) < {5: 4.35, 7: 6.35}[size])
    assert 0.4 < np.mean(inside) < 0.9


def _seven(F: Matrix3 | None) -> np.ndarray:
    """The truth in the tangent at `F`, as far as lines tell: one step of seven."""
    assert F is not None
    lines = fm.Seven.of(F, SIZE, SIZE).lines(true_points())
    return -np.linalg.lstsq(lines.jacobian, lines.distance, rcond=None)[0]


def _five(model: np.ndarray | None) -> np.ndarray:
    assert model is not None
    lines = epipolar.CalibratedViews(model, K, K).lines(true_points())
    return -np.linalg.lstsq(lines.jacobian, lines.distance, rcond=None)[0]
