"""Chance models are told from true ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from plain import plain_matches
from semisure.estimators import estimate_fundamental, estimate_homography
from semisure.estimators.relative import estimate_relative
from semisure.geometry.epipolar import fundamental
from semisure.geometry.significance import (
    FIVE_POINTS,
    SEVEN_POINTS,
    Proposals,
    log_false_alarms,
    log_false_alarms_of_lines,
)
from semisure.synthetic import SyntheticMatcher, random_homography
from semisure.types import FloatArray, Matches


def test_a_true_model_is_no_accident(matches: Matches, truth: FloatArray) -> None:
    assert log_false_alarms(truth, matches) < -100


@pytest.mark.parametrize("seed", range(20))
def test_models_of_random_matches_are_called_chance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matches, _ = SyntheticMatcher().match(np.eye(3), count=300, seed=seed)
    noise = replace(matches, target=rng.uniform([0, 0], [640, 480], (300, 2)))
    estimate = estimate_homography(noise, "magsac++")
    if estimate.model is not None:
        assert log_false_alarms(estimate.model, noise) >= 0.0


def test_a_tenth_of_true_matches_is_enough() -> None:
    rng = np.random.default_rng(0)
    truth = random_homography(rng)
    matches, _ = SyntheticMatcher().match(truth, count=600, seed=0)
    target = matches.target.copy()
    target[60:] = rng.uniform([0, 0], [640, 480], (540, 2))
    mixed = replace(matches, target=target)
    assert log_false_alarms(truth, mixed) < np.log(1e-3)


def test_matches_crowded_into_one_corner_prove_nothing() -> None:
    matches, _ = SyntheticMatcher().match(np.eye(3), count=400, seed=0)
    corner = matches.source * 0.04
    crowded = replace(matches, source=corner, target=corner)
    assert log_false_alarms(np.eye(3), crowded) >= 0.0


def test_hits_are_counted_by_hand() -> None:
    # Six matches in six blocks, all hits, in an image of 640 × 480.
    source = 100.0 * np.array([[1, 1], [2, 1], [3, 1], [1, 3], [2, 3], [3, 3]])
    matches = plain_matches(source, source)
    chance = np.pi * 9 / (640 * 480)
    by_hand = np.log(2) + np.log(1) + np.log(15) + 2 * np.log(chance)
    by_hand += np.log(2)  # two thresholds tried
    assert log_false_alarms(np.eye(3), matches) == pytest.approx(by_hand)


K = np.array([[520.0, 0, 319.5], [0, 520.0, 239.5], [0, 0, 1]])
MOTION = np.column_stack([np.eye(3), [1.0, 0.0, 0.0]])


@pytest.mark.parametrize("proposals", [SEVEN_POINTS, FIVE_POINTS])
def test_true_lines_are_no_accident(proposals: Proposals) -> None:
    matches, _ = SyntheticMatcher().match_views(MOTION, K, count=600)
    alarms = log_false_alarms_of_lines(fundamental(MOTION, K, K), matches, proposals)
    assert alarms < -100


@pytest.mark.parametrize("seed", range(20))
def test_lines_of_random_matches_are_called_chance(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matches, _ = SyntheticMatcher().match(np.eye(3), count=300, seed=seed)
    noise = replace(matches, target=rng.uniform([0, 0], [640, 480], (300, 2)))
    estimate = estimate_fundamental(noise)
    if estimate.model is not None:
        assert log_false_alarms_of_lines(estimate.model, noise) >= 0.0
    estimate = estimate_relative(noise, K, K, "magsac++")
    if estimate.model is not None:
        F = fundamental(estimate.model, K, K)
        assert log_false_alarms_of_lines(F, noise, FIVE_POINTS) >= 0.0


def test_hits_on_lines_are_counted_by_hand() -> None:
    # Nine matches in nine blocks, all on horizontal lines, in an image of 640 × 480.
    source = 100.0 * np.array([[x, y] for x in (1, 2, 3) for y in (1, 2, 3)])
    matches = plain_matches(source, source)
    horizontal = np.array([[0.0, 0, 0], [0, 0, -1], [0, 1, 0]])
    chance = 2 * 1 * 800 / (640 * 480)  # within 1 px of a line as long as the diagonal
    seven = np.log(3 * 2) + np.log(36) + 2 * np.log(chance)  # (9 choose 7)
    five = np.log(10 * 4) + np.log(126) + 4 * np.log(chance)  # (9 choose 5)
    for proposals, by_hand in ((SEVEN_POINTS, seven), (FIVE_POINTS, five)):
        alarms = log_false_alarms_of_lines(horizontal, matches, proposals)
        # Three thresholds tried, with all matches and with the surer half.
        assert alarms == pytest.approx(by_hand + np.log(6))


def test_many_matches_in_a_block_count_as_one_on_lines() -> None:
    # Of many matches in every block, some lie on any line: that is no evidence.
    rng = np.random.default_rng(0)
    matches, _ = SyntheticMatcher().match(np.eye(3), count=6000)
    noise = replace(matches, target=rng.uniform([0, 0], [640, 480], (6000, 2)))
    assert log_false_alarms_of_lines(fundamental(MOTION, K, K), noise) >= 0.0
