"""Chance models are told from true ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from semisure.estimators import estimate_homography
from semisure.geometry.significance import log_false_alarms, model_failure
from semisure.synthetic import SyntheticMatcher, random_homography
from semisure.types import FloatArray, Matches


def test_a_true_model_is_no_accident(matches: Matches, truth: FloatArray) -> None:
    assert log_false_alarms(truth, matches) < -100
    assert model_failure(truth, matches) < 1e-12


@pytest.mark.parametrize("seed", range(20))
def test_models_of_random_matches_are_called_chance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matches, _ = SyntheticMatcher().match(np.eye(3), count=300, seed=seed)
    noise = replace(matches, target=rng.uniform([0, 0], [640, 480], (300, 2)))
    estimate = estimate_homography(noise, "magsac++")
    if estimate.model is not None:
        assert model_failure(estimate.model, noise) >= 0.5


def test_a_tenth_of_true_matches_is_enough() -> None:
    rng = np.random.default_rng(0)
    truth = random_homography(rng)
    matches, _ = SyntheticMatcher().match(truth, count=600, seed=0)
    target = matches.target.copy()
    target[60:] = rng.uniform([0, 0], [640, 480], (540, 2))
    mixed = replace(matches, target=target)
    assert model_failure(truth, mixed) < 1e-3


def test_matches_crowded_into_one_corner_prove_nothing() -> None:
    matches, _ = SyntheticMatcher().match(np.eye(3), count=400, seed=0)
    corner = matches.source * 0.04
    crowded = replace(matches, source=corner, target=corner)
    assert model_failure(np.eye(3), crowded) >= 0.5


def test_hits_are_counted_by_hand() -> None:
    # Six matches in six blocks, all hits, in an image of 640 × 480.
    source = 100.0 * np.array([[1, 1], [2, 1], [3, 1], [1, 3], [2, 3], [3, 3]])
    matches = Matches(
        source=source, target=source, confidence=np.ones(6), fine_std=np.ones((6, 2)),
        coarse_std=np.ones((6, 2)), source_size=(640, 480), target_size=(640, 480),
    )  # fmt: skip
    chance = np.pi * 9 / (640 * 480)
    by_hand = np.log(2) + np.log(1) + np.log(15) + 2 * np.log(chance)
    assert log_false_alarms(np.eye(3), matches) == pytest.approx(by_hand)
