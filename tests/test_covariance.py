"""How far a model may be off: exact cases, coverage of planted truths, the doors."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from semisure.error_laws import error_law
from semisure.errors import InputError
from semisure.estimators import estimate_homography
from semisure.geometry import homography as plane
from semisure.geometry import pose as se3
from semisure.io.files import load_calibration, save_calibration
from semisure.metrics import corner_error
from semisure.mixture import log_density
from semisure.refit import (
    covariance,
    expected_corner_error,
    pose_covariance,
    refit_homography,
    refit_pose,
)
from semisure.refit.core_plus import floored
from semisure.refit.corners import corner_jacobian
from semisure.refit.plane_covariance import of_homography
from semisure.refit.shared_field import bilinear_field
from semisure.selfcal.shared_error import fit_shared_error
from semisure.synthetic import (
    EXAMPLE_CALIBRATION,
    SyntheticMatcher,
    random_homography,
    random_pose,
)
from semisure.synthetic import EXAMPLE_CAMERA as CAMERA
from semisure.types import FloatArray, Matches, WorldMatches

MEDIAN = {6: 5.348, 8: 7.344}  # of χ², from tables
NINETY = {6: 10.645, 8: 13.362}


def scene(seed: int, count: int = 800) -> tuple[WorldMatches, FloatArray]:
    truth = random_pose(np.random.default_rng(seed))
    return SyntheticMatcher().match_world(truth, count=count, seed=seed)[0], truth


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
                corners = plane.project(H, frame).ravel()
                corners[k] += step
                moved = plane.weighted_dlt(frame, corners.reshape(4, 2), np.ones(4))
                assert moved is not None
                predicted.append(-plane.residual(moved, turned))
            slope = (predicted[0] - predicted[1]).T / (2 * h)
            assert np.abs(slope - J[:, k]).max() < 1e-4


def test_the_score_has_the_slope_it_claims() -> None:
    matches, residual = SyntheticMatcher().match(np.eye(3), count=200)
    law = error_law(matches, EXAMPLE_CALIBRATION)
    score, slope, weight = covariance.law_score(law, residual)
    assert np.allclose(score, weight * (residual - law.location))
    h = 1e-6
    for axis in (0, 1):
        step = h * np.eye(2)[axis]
        ahead, behind = (
            covariance.law_score(law, residual + s * step)[0] for s in (1, -1)
        )
        difference = (ahead - behind).T / (2 * h)
        assert np.allclose(difference, slope[:, axis], atol=1e-4)


def test_independent_errors_give_the_textbook_covariance() -> None:
    """Least squares, weight 1, unit noise: σ² (JᵀJ)⁻¹ up to a few percent."""
    H, rng = np.eye(3), np.random.default_rng(0)
    source = rng.uniform(0, [640, 480], (20_000, 2))
    matches = _plain(source, source + rng.normal(size=source.shape))
    C = of_homography(H, matches, weight=np.ones(20_000), field=False)
    J = corner_jacobian(H, matches)
    textbook = np.linalg.inv(np.einsum("akn,aln->kl", J, J))
    assert C is not None
    ratio = np.diag(C) / np.diag(textbook)
    assert ratio.min() > 0.9
    assert ratio.max() < 1.7  # some fifty blocks estimate the clustering


def test_doubled_matches_do_not_halve_the_variance() -> None:
    """Copies of a match tell nothing new, which independence would not see."""
    rng = np.random.default_rng(1)
    source = rng.uniform(0, [640, 480], (1500, 2))
    target = source + rng.laplace(0, 0.5, source.shape)
    once = _plain(source, target)
    often = _plain(np.tile(source, (4, 1)), np.tile(target, (4, 1)))
    sizes = [
        expected_corner_error(
            of_homography(np.eye(3), m, weight=np.ones(len(m)), field=False)
        )
        for m in (once, often)
    ]
    assert sizes[1] == pytest.approx(sizes[0], rel=0.15)


def _plain(source: FloatArray, target: FloatArray) -> Matches:
    n = len(source)
    return Matches(
        source=source, target=target, confidence=np.full(n, 0.9),
        fine_std=np.ones((n, 2)), coarse_std=np.full((n, 2), 30.0),
        source_size=(640, 480), target_size=(640, 480))  # fmt: skip


@pytest.mark.parametrize("method", ["core", "core+"])
def test_homographies_cover_independent_truths(method) -> None:
    distances, ratios = [], []
    for seed in range(60):
        truth = random_homography(np.random.default_rng(seed))
        matches, _ = SyntheticMatcher().match(truth, count=800, seed=seed)
        start = estimate_homography(matches)
        refit = refit_homography(matches, EXAMPLE_CALIBRATION, start, method=method)
        C = refit.covariance
        assert C is not None
        frame = plane.corners(matches.source_size)
        offset = plane.project(refit.model, frame) - plane.project(truth, frame)
        distances.append(covariance.mahalanobis2(C, offset.ravel()))
        error = corner_error(refit.model, truth, matches.source_size)
        ratios.append(error / expected_corner_error(C))
    _covers(np.array(distances), 8)
    assert 0.6 < np.median(ratios) < 1.4


@pytest.mark.parametrize("method", ["core", "core+"])
def test_poses_cover_independent_truths(method) -> None:
    distances = []
    for seed in range(60):
        matches, truth = scene(seed)
        start = se3.moved(truth, np.full(6, 1e-3))
        refit = refit_pose(matches, CAMERA, EXAMPLE_CALIBRATION, start, method=method)
        C = refit.covariance
        assert C is not None
        offset = se3.tangent(refit.model, truth)
        distances.append(covariance.mahalanobis2(C, offset))
    _covers(np.array(distances), 6)


def _covers(distances: FloatArray, parameters: int) -> None:
    """Independent errors are covered at least as often as promised, not wildly more."""
    assert 0.4 < (distances < MEDIAN[parameters]).mean() < 0.85
    assert (distances < NINETY[parameters]).mean() > 0.8


def planted_shares(share: float, count: int = 24):
    """Pairs whose matches all err by one smooth field beside their own errors."""
    pairs = []
    for seed in range(count):
        rng = np.random.default_rng([seed, 1])
        truth = random_homography(rng)
        matches, r = SyntheticMatcher().match(truth, count=800, seed=seed)
        field = bilinear_field(matches.target, matches.refined_size)
        common = (share * rng.normal(size=(2, 4)) @ field).T
        pairs.append((matches.shifted(common), r + common))
    return pairs


def test_a_shared_error_is_found_and_makes_the_covariance_honest() -> None:
    none = fit_shared_error(planted_shares(0.0), EXAMPLE_CALIBRATION)
    some = fit_shared_error(planted_shares(0.5), EXAMPLE_CALIBRATION)
    more = fit_shared_error(planted_shares(1.0), EXAMPLE_CALIBRATION)
    assert none is not None
    assert some is not None
    assert more is not None
    assert none < 0.2 < some < more
    calibration = replace(EXAMPLE_CALIBRATION, shared_error=some)
    distances: dict[bool, list[float]] = {True: [], False: []}
    for matches, r in planted_shares(0.5, 40)[24:]:
        exact = matches.shifted(-r)
        truth = plane.weighted_dlt(exact.source, exact.target, np.ones(len(exact)))
        frame = plane.corners(matches.source_size)
        for known in (True, False):
            asked = calibration if known else EXAMPLE_CALIBRATION
            refit = refit_homography(matches, asked, truth)
            offset = plane.project(refit.model, frame) - plane.project(truth, frame)
            d2 = covariance.mahalanobis2(refit.covariance, offset.ravel())
            distances[known].append(d2)
    assert np.mean(np.array(distances[True]) < NINETY[8]) > 0.7
    assert np.mean(np.array(distances[False]) < NINETY[8]) < 0.3


def test_too_few_pairs_say_nothing_of_shared_errors() -> None:
    assert fit_shared_error(planted_shares(0.5, 4), EXAMPLE_CALIBRATION) is None


def test_a_shared_error_is_stored(tmp_path) -> None:
    path = tmp_path / "theta.json"
    save_calibration(replace(EXAMPLE_CALIBRATION, shared_error=0.25), path)
    assert load_calibration(path).shared_error == 0.25
    assert load_calibration("daisy").shared_error is not None


def test_a_shared_error_is_not_negative() -> None:
    with pytest.raises(InputError, match="shared_error must not be negative"):
        replace(EXAMPLE_CALIBRATION, shared_error=-1.0)


def test_many_mapped_images_average_what_each_shares() -> None:
    matches, truth = scene(0)
    shared = replace(EXAMPLE_CALIBRATION, shared_error=20.0)
    parts = WorldMatches.joined(
        [matches.take(np.arange(800) % 8 == k) for k in range(8)]
    )
    sizes = []
    for asked in (matches, parts):
        C = refit_pose(asked, CAMERA, shared, truth).covariance
        assert C is not None
        sizes.append(np.sqrt(np.trace(C[3:, 3:])))
    # Eight independent fields instead of one: √8 smaller, or a little less, as they
    # do not weigh the same.
    assert sizes[1] == pytest.approx(sizes[0] / np.sqrt(8), rel=0.35)


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
    C = of_homography(truth, near, law=floored(law, near), least=0.0)
    assert C is not None
    assert np.allclose(refit.covariance, C, rtol=1e-4)  # a refit keeps single precision


def test_a_kept_pose_keeps_its_likelihood_and_covariance() -> None:
    truth = random_pose(np.random.default_rng(0))
    matches, residual = SyntheticMatcher().match_world(truth, count=200)
    near = matches.shifted(-0.999 * residual)
    refit = refit_pose(near, CAMERA, EXAMPLE_CALIBRATION, truth)
    assert refit.reason == "the refit was less likely than the initial model"
    law = error_law(near, EXAMPLE_CALIBRATION)
    at_truth = log_density(law, 0.001 * residual).sum()
    assert refit.log_likelihood == pytest.approx([at_truth, at_truth])
    C = pose_covariance.of_pose(truth, near, CAMERA, law=floored(law, near), least=0.0)
    assert C is not None
    assert np.allclose(refit.covariance, C, rtol=1e-6)


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


def test_no_matches_determine_nothing() -> None:
    matches, _ = SyntheticMatcher().match(np.eye(3), count=10)
    none = matches.take(slice(0))
    law = error_law(none, EXAMPLE_CALIBRATION)
    assert of_homography(np.eye(3), none, law=law) is None
