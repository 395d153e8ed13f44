"""Robust estimators: reproducible, honest about failure, names checked."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from semisure.errors import InputError, MissingExtraError
from semisure.estimators import ESTIMATOR_NAMES, estimate_homography, load_estimator
from semisure.estimators.settings import RansacSettings
from semisure.geometry.homography import residual
from semisure.metrics import corner_error
from semisure.types import FloatArray, Matches, RobustEstimator


@pytest.fixture(params=ESTIMATOR_NAMES)
def name(request: pytest.FixtureRequest) -> str:
    """Each estimator whose library is there."""
    if request.param == "poselib":
        pytest.importorskip("poselib")
    return request.param


def test_finds_the_planted_homography(
    name: str, matches: Matches, truth: FloatArray
) -> None:
    estimate = estimate_homography(matches, name)
    assert estimate.reason is None
    assert corner_error(estimate.model, truth, (640, 480)) < 1.5
    distance = np.linalg.norm(residual(estimate.model, matches), axis=1)
    assert np.array_equal(estimate.inliers, distance <= 3.0)
    assert 0.5 < estimate.inliers.mean() < 1
    assert isinstance(load_estimator(name), RobustEstimator)


def test_same_seed_same_answer_other_seed_other_samples(
    name: str, matches: Matches
) -> None:
    few = matches.take(slice(0, 60))
    settings = [RansacSettings(seed=seed, threshold_px=0.3) for seed in (0, 0, 1, 2, 3)]
    models = [estimate_homography(few, name, each).model for each in settings]
    assert all(H is not None for H in models)
    assert np.array_equal(models[0], models[1])
    assert any(not np.array_equal(models[0], H) for H in models[2:])


def test_prosac_gets_its_matches_sorted(matches: Matches, truth: FloatArray) -> None:
    shuffled = matches.take(np.random.default_rng(0).permutation(len(matches)))
    a = estimate_homography(matches, "prosac").model
    b = estimate_homography(shuffled, "prosac").model
    assert corner_error(a, b, (640, 480)) < 1e-6


def test_too_few_matches_is_an_outcome(matches: Matches) -> None:
    for count, reason in ((0, "no matches"), (3, "only 3 matches")):
        estimate = estimate_homography(matches.take(slice(0, count)))
        assert estimate.model is None
        assert estimate.reason == f"{reason}, a homography needs 4"
        assert estimate.inliers.shape == (count,)


def test_degenerate_points_never_crash(name: str) -> None:
    run = load_estimator(name, RansacSettings(max_iterations=200))
    confidence = np.ones(20)
    same = np.ones((20, 2))
    line = np.linspace(0, 100, 20)[:, None] * [1.0, 2.0]
    for points in (same, line):
        estimate = run(points, points, confidence)
        assert estimate.model is None or np.isfinite(estimate.model).all()
        assert (estimate.model is None) == (estimate.reason is not None)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"threshold_px": 0}, "threshold_px must be positive"),
        ({"max_iterations": 0}, r"max_iterations must lie in \[1, 2³¹\)"),
        ({"confidence": 1.0}, r"confidence must lie in \(0, 1\)"),
        ({"seed": -1}, "seed must lie in"),
    ],
)
def test_wrong_settings_get_one_sentence(wrong: dict, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        RansacSettings(**wrong)


def test_what_cannot_be_loaded_gets_one_sentence(monkeypatch, matches) -> None:
    with pytest.raises(InputError, match="estimator must be one of ransac, lo-ransac"):
        load_estimator("usac")
    monkeypatch.setitem(sys.modules, "poselib", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'semisure\[ransac\]'"):
        estimate_homography(matches, "poselib")
