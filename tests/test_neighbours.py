"""Matches that move otherwise than those around them, and what a law makes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import semisure
from semisure import mixture
from semisure.refit.neighbours import affine_parallax, agreement
from semisure.refit.pair_law import pair_law_by_residuals, with_effects
from semisure.selfcal.scenes import ScenePair, fit_scenes
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher, random_homography
from semisure.types import Matches, PairSpread, Points

SPREAD = PairSpread(
    fine=(0.0, 0.4),
    gate=(0.0, 1.0),
    coarse=(0.0, 0.5),
    background=(-5.0, 1.0),
    neighbours=(0.5, -2.0, 1.0),
)


def grid(target: Points, side: int = 1) -> Matches:
    """Matches of a grid of points, whose window is 8 px, with those of image 1."""
    count = len(target)
    return Matches(
        source=np.indices((20, 20)).reshape(2, -1).T[:count] * 20.0,
        target=target,
        confidence=np.full(count, 0.9),
        fine_std=np.ones((count, 2)),
        coarse_std=np.full((count, 2), 20.0),
        source_size=(640, 480),
        target_size=(640, 480),
        side=np.array(side),
    )


def turned(points: Points) -> Points:
    """A quarter turn and a zoom by two."""
    return 2.0 * points @ np.array([[0.0, 1.0], [-1.0, 0.0]]) + [100.0, 900.0]


@pytest.mark.parametrize("side", [0, 1])
def test_a_turn_and_a_zoom_leave_all_in_agreement(side: int) -> None:
    still = grid(np.zeros((400, 2)))
    matches = replace(still, target=turned(still.source), side=np.full(400, side))
    parallax = affine_parallax(matches, np.ones(400))
    assert np.abs(parallax).max() < 1e-9
    alike = agreement(matches, parallax)[:, 0]
    assert alike[[0, 19, 380, 399]] == pytest.approx(np.log(7.5 / 0.5))  # corners
    assert alike[210] == pytest.approx(np.log(20.5 / 0.5))
    assert alike.min() == alike[0]


def test_one_astray_is_told_from_its_neighbours_and_hardly_harms_them() -> None:
    """By hand: none of 20 agree with it, and 19 of 20 with the match beside it.

    A match in a corner has 7 neighbours.
    """
    still = grid(np.zeros((400, 2)))
    target = still.source.copy()
    target[210] += [30.0, 0.0]
    matches = replace(still, target=target)
    alike = agreement(matches, target - still.source)[:, 0]
    assert alike[210] == pytest.approx(np.log(0.5 / 20.5))
    assert alike[211] == pytest.approx(np.log(19.5 / 1.5))
    assert alike[0] == pytest.approx(np.log(7.5 / 0.5))


def test_an_affine_map_does_not_follow_matches_of_no_weight() -> None:
    still = grid(np.zeros((400, 2)))
    target = still.source + np.array([5.0, -3.0])
    weight = np.ones(400)
    target[::3] += np.random.default_rng(0).normal(0, 100, (134, 2))
    weight[::3] = 0.0
    parallax = affine_parallax(replace(still, target=target), weight)
    assert np.abs(parallax[1::3]).max() < 1e-9


def test_matches_refined_in_different_images_are_not_neighbours() -> None:
    """What is beyond a map in one image is behind it in the other."""
    still = grid(np.zeros((400, 2)))
    both = replace(still, target=still.source.copy(), side=np.arange(400) % 2)
    parallax = np.where(both.side[:, None] == 1, 20.0, -20.0) * np.ones((400, 2))
    assert agreement(both, parallax)[:, 0].min() > 2.0


@pytest.mark.parametrize(("count", "logit"), [(0, 0.0), (1, 0.0), (2, np.log(3.0))])
def test_few_matches_have_few_neighbours(count: int, logit: float) -> None:
    matches = grid(np.zeros((count, 2)))
    alike = agreement(matches, affine_parallax(matches, np.ones(count)))
    assert alike.shape == (count, 2)
    assert alike == pytest.approx(logit)


def test_beyond_a_horizon_nothing_agrees() -> None:
    parallax = np.zeros((400, 2))
    parallax[210] = np.inf
    parallax[217] = np.nan
    alike = agreement(grid(np.zeros((400, 2))), parallax)[:, 0]
    assert alike[210] == pytest.approx(np.log(0.5 / 20.5))
    assert alike[217] == pytest.approx(np.log(0.5 / 20.5))


def test_the_logit_of_failing_moves_by_what_neighbours_tell() -> None:
    """0.5 − 2 · 1.5 + 1 · 0.25 = −2.25, by hand."""
    matches = grid(np.zeros((5, 2)))
    law = semisure.error_law(matches, EXAMPLE_CALIBRATION)
    means = np.array(SPREAD.means)
    alike = np.tile([1.5, 0.25], (5, 1))
    without = with_effects(law, means, SPREAD)
    told = with_effects(law, means, SPREAD, alike=alike)
    assert told.tail_logit - without.tail_logit == pytest.approx(-2.25)
    deaf = replace(SPREAD, neighbours=None)
    same = with_effects(law, means, deaf, alike=alike)
    assert np.array_equal(same.tail_logit, without.tail_logit)


def scene(seed: int) -> ScenePair:
    H = random_homography(np.random.default_rng(seed))
    matches, residual = SyntheticMatcher().match(H, count=800, seed=seed)
    return ScenePair(matches=matches, residual=residual)


@pytest.mark.slow
def test_calibration_learns_that_who_moves_alone_fails() -> None:
    """Failures of the made-up matcher are independent: each is alone in its motion."""
    scenes = {f"views {k}": [scene(k)] for k in range(4)}
    law, _ = fit_scenes(scenes, neighbours=True)
    assert law.pairs is not None
    assert law.pairs.neighbours is not None
    _, own, _ = law.pairs.neighbours
    assert own < -0.5
    other = scene(9)
    deaf = replace(law, pairs=replace(law.pairs, neighbours=None))
    nll, alarms = {}, {}
    beyond = np.abs(other.residual) > 8.0
    for name, one in {"told": law, "deaf": deaf}.items():
        adapted = pair_law_by_residuals(other.matches, one, other.residual).law
        nll[name] = -mixture.log_density(adapted, other.residual).mean()
        chance = mixture.prob_beyond(adapted, 8.0)
        alarms[name] = semisure.metrics.auroc(chance.ravel(), beyond.ravel())
    assert nll["told"] < nll["deaf"] - 0.05
    assert alarms["told"] > 0.95 > alarms["deaf"]


def test_a_file_keeps_what_neighbours_tell(tmp_path: Path) -> None:
    told = replace(EXAMPLE_CALIBRATION, pairs=SPREAD)
    semisure.save_calibration(told, tmp_path / "law.json")
    assert semisure.load_calibration(tmp_path / "law.json").pairs == SPREAD
