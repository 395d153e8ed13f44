"""How far refits say that they are off: scores, corners, coverage of planted truths."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from plain import plain_matches
from semisure.estimators import estimate_homography
from semisure.geometry import homography as plane
from semisure.geometry import pose as se3
from semisure.law.error_laws import error_law
from semisure.law.mixture import log_density
from semisure.metrics import corner_error
from semisure.refit import core_plus
from semisure.refit.corners import (
    corner_covariance,
    corner_jacobian,
    corner_variance,
    expected_corner_error,
)
from semisure.refit.planes import refit_homography
from semisure.refit.poses import refit_pose
from semisure.synthetic import (
    EXAMPLE_CALIBRATION,
    SyntheticMatcher,
    random_homography,
    random_pose,
)
from semisure.synthetic import EXAMPLE_CAMERA as CAMERA
from semisure.types import FloatArray, WorldMatches
from test_covariance import NINETY, SIZE, mahalanobis2, places, shared

MEDIAN = {6: 5.348, 8: 7.344}  # of χ², from tables


def scene(seed: int, count: int = 800) -> tuple[WorldMatches, FloatArray]:
    truth = random_pose(np.random.default_rng(seed))
    return SyntheticMatcher().match_world(truth, count=count, seed=seed)[0], truth


# -- the scores of matches


def test_scores_fall_in_the_mean_as_they_say() -> None:
    matches, residual = SyntheticMatcher().match(np.eye(3), count=2000)
    law = core_plus.floored(error_law(matches, EXAMPLE_CALIBRATION), matches)
    slope = core_plus.scores(law, residual).slope.sum(axis=1)
    h = 1e-5
    for axis in (0, 1):
        step = h * np.eye(2)[axis]
        ahead, behind = (
            core_plus.scores(law, residual + s * step).score[axis] for s in (1, -1)
        )
        assert (ahead - behind).sum() / (2 * h) == pytest.approx(slope[axis], rel=1e-3)


# -- corners of a homography


def test_the_corner_derivative_is_the_difference() -> None:
    H = random_homography(np.random.default_rng(3))
    matches, _ = SyntheticMatcher().match(H, count=40)
    frame = plane.corners(matches.source_size)
    for side in (0, 1):
        turned = replace(matches, side=side)
        J, h = corner_jacobian(H, turned), 1e-4
        for k in range(8):
            predicted = []
            for step in (h, -h):
                images = plane.project(H, frame).ravel()
                images[k] += step
                moved = plane.weighted_dlt(frame, images.reshape(4, 2), np.ones(4))
                assert moved is not None
                predicted.append(-plane.residual(moved, turned))
            slope = (predicted[0] - predicted[1]).T / (2 * h)
            assert np.abs(slope - J[:, k]).max() < 1e-4


def test_the_variance_of_a_match_at_a_corner_is_that_of_the_corner() -> None:
    H = random_homography(np.random.default_rng(1))
    frame = plane.corners(SIZE)
    C = np.diag(np.arange(1.0, 9.0))
    variance = corner_variance(C, H, plain_matches(frame, plane.project(H, frame)))
    assert np.allclose(variance, np.arange(1.0, 9.0).reshape(4, 2))


@pytest.mark.parametrize("reach_px", [0.0, 60.0])
def test_points_refined_in_either_image_tell_the_same(reach_px) -> None:
    H = np.array([[1.02, 0.05, 8.0], [-0.04, 0.98, -5.0], [2e-5, -1e-5, 1.0]])
    rng = np.random.default_rng(0)
    source = places(rng, 800)
    errors = shared(rng, source, reach_px) if reach_px else rng.normal(size=(800, 2))
    matches = plain_matches(source, plane.project(H, source) + errors)
    photograph, sizes = replace(EXAMPLE_CALIBRATION, model_error=None), []
    for side in (1, 0, np.arange(800) % 2):
        turned = replace(matches, side=np.broadcast_to(side, 800))
        C = corner_covariance(H, turned, photograph, np.ones(800))
        sizes.append(expected_corner_error(C))
    assert sizes[1:] == pytest.approx(sizes[:1] * 2, rel=0.05)


# -- refits


@pytest.mark.parametrize("method", ["core", "core+"])
def test_homographies_cover_independent_truths(method) -> None:
    distances, ratios = [], []
    for seed in range(40):
        truth = random_homography(np.random.default_rng(seed))
        matches, _ = SyntheticMatcher().match(truth, count=800, seed=seed)
        start = estimate_homography(matches)
        refit = refit_homography(matches, EXAMPLE_CALIBRATION, start, method=method)
        C = refit.covariance
        assert C is not None
        frame = plane.corners(matches.source_size)
        offset = plane.project(refit.model, frame) - plane.project(truth, frame)
        distances.append(mahalanobis2(C, offset.ravel()))
        error = corner_error(refit.model, truth, matches.source_size)
        ratios.append(error / expected_corner_error(C))
    covers(np.array(distances), 8)
    assert 0.4 < np.median(ratios) < 1.4


@pytest.mark.parametrize("method", ["core", "core+"])
def test_poses_cover_independent_truths(method) -> None:
    distances = []
    for seed in range(40):
        matches, truth = scene(seed)
        start = se3.moved(truth, np.full(6, 1e-3))
        refit = refit_pose(matches, CAMERA, EXAMPLE_CALIBRATION, start, method=method)
        offset = se3.tangent(refit.model, truth)
        distances.append(mahalanobis2(refit.covariance, offset))
    covers(np.array(distances), 6)


def covers(distances: FloatArray, parameters: int) -> None:
    """Independent errors are covered at least as often as promised."""
    assert (distances < MEDIAN[parameters]).mean() > 0.45
    assert (distances < NINETY[parameters]).mean() > 0.85
    assert np.median(distances) > 0.2 * MEDIAN[parameters]  # and not wildly more


def test_a_kept_homography_keeps_its_likelihood_and_covariance() -> None:
    """Points a thousandth of their errors away: the truth is the likeliest model."""
    truth = random_homography(np.random.default_rng(0))
    matches, residual = SyntheticMatcher().match(truth, count=200)
    near = matches.shifted(-0.999 * residual)
    refit = refit_homography(near, EXAMPLE_CALIBRATION, truth)
    assert refit.reason == "the refit was less likely than the initial model"
    law = error_law(near, EXAMPLE_CALIBRATION)
    at_truth = log_density(law, 0.001 * residual).sum()
    assert refit.log_likelihood == pytest.approx([at_truth, at_truth])
    C = corner_covariance(truth, near, EXAMPLE_CALIBRATION)
    assert np.allclose(refit.covariance, C)


def test_a_start_that_matches_do_not_determine_has_no_covariance() -> None:
    matches, _ = SyntheticMatcher().match(np.eye(3), count=3)
    refit = refit_homography(matches, EXAMPLE_CALIBRATION, np.eye(3))
    assert refit.reason == "the weighted matches do not determine a homography"
    assert refit.log_likelihood is not None
    assert refit.covariance is None


def test_refits_can_be_sent_to_other_processes() -> None:
    matches, truth = scene(1, 100)
    for method in ("core", "core+"):
        refit = refit_pose(matches, CAMERA, EXAMPLE_CALIBRATION, truth, method=method)
        sent = pickle.loads(pickle.dumps(refit))  # noqa: S301
        assert np.array_equal(sent.covariance, refit.covariance)
