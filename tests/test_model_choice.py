"""Auto: a plane, a turn, a scene in depth, nothing at all, and too little."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from semisure.errors import InputError
from semisure.geometry.rotations import rotation
from semisure.pairs.estimation import refit_matches
from semisure.pairs.result import PairResult
from semisure.refit.model_choice import DEPTH_SHARE
from semisure.synthetic import (
    EXAMPLE_CALIBRATION,
    SyntheticMatcher,
    random_homography,
)
from semisure.types import Matches

K = np.array([[520.0, 0, 319.5], [0, 520.0, 239.5], [0, 0, 1]])
MOTION = np.column_stack([rotation(np.array([0.02, -0.05, 0.01])), [0.9, 0.1, 0.2]])


def views(depths: tuple[float, float], seed: int = 0, count: int = 800) -> Matches:
    matcher = SyntheticMatcher()
    return matcher.match_views(MOTION, K, depths=depths, count=count, seed=seed)[0]


def found(matches: Matches, **options: object) -> PairResult:
    return refit_matches(matches, EXAMPLE_CALIBRATION, **options)


def noise(count: int, seed: int) -> Matches:
    rng = np.random.default_rng(seed)
    matches, _ = SyntheticMatcher().match(np.eye(3), count=count, seed=seed)
    return replace(matches, target=rng.uniform([0, 0], [640, 480], (count, 2)))


@pytest.mark.parametrize("seed", range(5))
def test_a_plane_is_a_homography(seed: int) -> None:
    truth = random_homography(np.random.default_rng(seed))
    result = found(SyntheticMatcher().match(truth, count=800, seed=seed)[0])
    assert result.kind == "homography"
    assert result.finding == "one plane, or a camera that only turned"
    assert result.finding in result.summary()
    assert result.F_01 is None
    assert result.P_01 is None


@pytest.mark.parametrize("seed", range(3))
def test_a_camera_that_turned_and_a_plane_in_space_are_homographies(seed: int) -> None:
    turn = K @ rotation(np.array([0.1, -0.15, 0.05])) @ np.linalg.inv(K)
    turned, _ = SyntheticMatcher().match(turn, count=800, seed=seed)
    for matches in (turned, views((8.0, 8.0), seed)):
        assert found(matches).kind == "homography"
        assert found(matches, K0=K).kind == "homography"


@pytest.mark.parametrize("seed", range(5))
def test_a_scene_in_depth_has_epipolar_lines(seed: int) -> None:
    result = found(views((4.0, 12.0), seed))
    assert result.kind == "fundamental"
    assert result.finding == "a scene in depth"
    assert result.H_01 is None
    assert result.evidence is not None
    assert result.evidence.depth_share > DEPTH_SHARE
    assert result.evidence.off_plane > result.evidence.expected_off
    assert result.line_std_px is not None
    assert np.median(result.line_std_px) < 1.0


def test_with_intrinsics_a_scene_in_depth_tells_the_motion() -> None:
    result = found(views((4.0, 12.0)), K0=K)
    assert result.kind == "essential"
    truth = MOTION.copy()
    truth[:, 3] /= np.linalg.norm(truth[:, 3])
    np.testing.assert_allclose(result.P_01, truth, atol=0.03)
    turn, move = result.pose_std_deg or (np.inf, np.inf)
    assert 0 < turn < 1
    assert 0 < move < 5
    assert "°" in result.summary()


def test_relief_within_the_floor_stays_a_plane() -> None:
    # Parallax is 520 · 0.9 · (1/z): from 40 to 40.8 m it spreads over 0.2 px.
    assert found(views((40.0, 40.8))).kind == "homography"


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("intrinsics", [None, K])
def test_noise_is_unrelated_whatever_the_model(seed: int, intrinsics) -> None:
    result = found(noise(300, seed), K0=intrinsics)
    assert not result.related
    assert result.finding == "unrelated images"


@pytest.mark.parametrize("count", range(12))
@pytest.mark.parametrize("intrinsics", [None, K])
def test_few_matches_never_raise(count: int, intrinsics) -> None:
    for matches in (noise(count, count), views((4.0, 12.0), count=count or 1)):
        result = found(matches, K0=intrinsics)
        assert result.summary()
        assert not (result.related and result.refit.model is None)


def test_all_matches_in_one_place_never_raise() -> None:
    matches, _ = SyntheticMatcher().match(np.eye(3), count=50)
    same = np.full((50, 2), 100.0)
    assert not found(replace(matches, source=same, target=same)).related


def test_a_law_or_a_method_without_lines_leaves_the_homography() -> None:
    matches = views((4.0, 12.0))
    gaussian = replace(EXAMPLE_CALIBRATION, law="gaussian")
    assert refit_matches(matches, gaussian).kind == "homography"
    assert found(matches, method="huber").kind == "homography"


def test_the_caller_may_insist() -> None:
    deep, flat = views((4.0, 12.0)), views((8.0, 8.0))
    forced = found(deep, model="homography")
    assert (forced.kind, forced.finding) == ("homography", None)
    lines = found(flat, model="fundamental")
    assert lines.kind == "fundamental"
    assert "one plane" in (lines.refit.reason or "")  # not determined, and told
    assert found(deep, model="essential", K0=K, K1=K).kind == "essential"


def test_a_start_from_elsewhere_is_of_the_model_that_was_asked_for() -> None:
    deep = views((4.0, 12.0))
    F = found(deep).F_01
    assert F is not None
    again = found(deep, model="fundamental", initial=F)
    assert again.estimate.estimator == "given"
    np.testing.assert_allclose(again.F_01, F, atol=1e-4)
    assert found(deep, initial=np.eye(3)).kind == "homography"


@pytest.mark.parametrize(
    "options",
    [{"model": "essential"}, {"K1": K}, {"model": "affine"}, {"K0": np.eye(2)}],
)
def test_what_cannot_be_gets_one_sentence(options: dict[str, object]) -> None:
    with pytest.raises(InputError):
        found(views((4.0, 12.0)), **options)
