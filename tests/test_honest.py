"""Claims that are not to be trusted say so: calibrations, models, verdicts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from semisure.calibrate.held_out import trial, tried
from semisure.cli import app
from semisure.geometry import homography as plane
from semisure.geometry.support import spread, support_of_homography
from semisure.io.files import load_calibration, save_calibration, save_matches
from semisure.law.observations import observe
from semisure.pairs.estimation import refit_matches
from semisure.refit.corners import expected_corner_error
from semisure.refit.planes import refit_homography
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
from semisure.types import Matches


def _repeated(period: float) -> Matches:
    """A tenth of 600 matches agree, a tenth is a period off, the rest is anywhere."""
    rng = np.random.default_rng(4)
    matches, _ = SyntheticMatcher().match(np.eye(3), count=600)
    target = rng.uniform(0, [640, 480], (600, 2))
    target[:120] = matches.source[:120] + rng.laplace(0, 0.3, (120, 2))
    target[60:120, 0] += period
    return replace(matches, target=target, fine_std=np.full((600, 2), 0.3))


@pytest.fixture
def refit_in_json(tmp_path: Path) -> list[str]:
    """A command on matches that two shifts share, with the law in theta.json."""
    save_matches(_repeated(50.0), tmp_path / "pair.npz")
    theta = str(tmp_path / "theta.json")
    save_calibration(EXAMPLE_CALIBRATION, theta)
    pair = str(tmp_path / "pair.npz")
    return ["refit", pair, "-c", theta, "--model", "homography", "--json"]


def test_a_calibration_that_failed_its_trial_says_so_wherever_it_is_used(
    refit_in_json: list[str], tmp_path: Path
) -> None:
    held_out = observe([SyntheticMatcher().match(np.eye(3), count=500)])
    assert trial(held_out, EXAMPLE_CALIBRATION).trusted
    # Gains multiply variances: a ninth of each makes every scale a third.
    fine = EXAMPLE_CALIBRATION.fine_var_gain
    coarse = EXAMPLE_CALIBRATION.coarse_var_gain
    sure = replace(
        EXAMPLE_CALIBRATION,
        fine_var_gain=(fine[0] / 9, fine[1] / 9),
        coarse_var_gain=(coarse[0] / 9, coarse[1] / 9),
    )
    trust = trial(held_out, sure)
    assert not trust.trusted
    save_calibration(tried(sure, trust), tmp_path / "theta.json")
    caution = load_calibration(tmp_path / "theta.json").caution
    assert f"predicted {trust.expected_px:.2f} px" in str(caution)
    done = CliRunner().invoke(app, refit_in_json)
    assert done.exit_code == 0, done.output
    assert "Warning: This calibration is not to be trusted" in done.stderr
    assert "Warning" not in done.stdout


def _lens(points: np.ndarray, strength: float) -> np.ndarray:
    off = points - [319.5, 239.5]
    return points + strength * ((off / 400) ** 2).sum(axis=1, keepdims=True) * off


@pytest.mark.parametrize("count", [1000, 16_000])
def test_more_matches_do_not_average_a_lens_away(count: int) -> None:
    """A plane matched to itself through a lens, with noise of 0.3 px."""
    rng = np.random.default_rng(0)
    source = rng.uniform(0, [640, 480], (count, 2))
    matches, _ = SyntheticMatcher().match(np.eye(3), count=count)
    target = _lens(source, 0.01) + rng.laplace(0, 0.3, source.shape)
    scales = np.full((count, 2), 0.3)
    matches = replace(matches, source=source, target=target, fine_std=scales)
    refit = refit_homography(matches, EXAMPLE_CALIBRATION, np.eye(3))
    assert refit.covariance is not None
    # 0.01 at half a diagonal moves a corner by 4 px; a homography follows most.
    frame = plane.corners((640, 480))
    offset = plane.project(refit.model, frame) - _lens(frame, 0.01)
    actual = np.linalg.norm(offset, axis=1).mean()
    assert actual > 0.5
    assert 1 / 3 < actual / expected_corner_error(refit.covariance) < 3


def test_a_model_that_few_matches_share_with_a_rival_is_weak(
    refit_in_json: list[str],
) -> None:
    result = refit_matches(_repeated(50.0), EXAMPLE_CALIBRATION, model="homography")
    assert result.model_failure < 1e-20  # no accident, and yet
    assert result.verdict.name == "weak"
    assert result.verdict.probability < 0.5
    few, rival = result.verdict.reasons
    assert "of the matches in view of both images agree" in few
    assert rival == "other shifts of the image have support too"
    assert result.summary().endswith(f"Weak: {few}; {rival}.")
    condition = f"if it is right (probability {result.verdict.probability:.2f})."
    assert condition in result.summary()  # its stated error holds only then
    document = json.loads(CliRunner().invoke(app, refit_in_json).stdout)
    assert document["verdict"] == "weak"
    assert document["weak_because"] == [few, rival]
    assert document["probability_right"] < 0.5


def test_a_sound_pair_says_nothing_and_an_unrelated_one_is_not_weak() -> None:
    matches, _ = SyntheticMatcher().match(np.eye(3), count=600)
    sound = refit_matches(matches, EXAMPLE_CALIBRATION)
    assert sound.verdict.name == "sound"
    assert sound.verdict.probability > 0.95
    assert "Weak" not in sound.summary()
    assert "if it is right" not in sound.summary()
    rng = np.random.default_rng(0)
    strangers = replace(matches, target=rng.uniform(0, [640, 480], (600, 2)))
    verdict = refit_matches(strangers, EXAMPLE_CALIBRATION, model="homography").verdict
    assert (verdict.name, verdict.probability) == ("unrelated", 0.0)


def test_lines_through_a_row_of_like_tiles_are_not_sound() -> None:
    """Each match is taken to some tile of its row: all are on their lines."""
    rng = np.random.default_rng(0)
    matches, _ = SyntheticMatcher().match(np.eye(3), count=800)
    target = matches.source + rng.laplace(0, 0.3, (800, 2))
    target[:, 0] += 60.0 * rng.integers(-4, 5, 800)
    kept = (target[:, 0] > 0) & (target[:, 0] < 640)
    tiles = replace(matches, target=target).take(np.flatnonzero(kept))
    result = refit_matches(tiles, EXAMPLE_CALIBRATION, model="fundamental")
    assert result.model_failure < 1e-20  # no accident, and yet
    assert result.verdict.name == "weak"
    assert result.verdict.probability < 0.1
    apart = "neighbours that agree with the lines do not move together"
    assert apart in result.verdict.reasons
    K = np.array([[500.0, 0, 319.5], [0, 500.0, 239.5], [0, 0, 1]])
    P_01 = np.column_stack([np.eye(3), [1.0, 0.0, 0.0]])
    depth, _ = SyntheticMatcher().match_views(P_01, K, depths=(8.0, 10.0), count=800)
    sound = refit_matches(depth, EXAMPLE_CALIBRATION, model="fundamental")
    assert sound.verdict.name == "sound"


def test_support_is_counted_by_hand() -> None:
    # Ten matches agree, two groups of three are 40 px to either side, one is astray:
    # 2 · 3 · 2 ordered pairs against 10².
    matches, _ = SyntheticMatcher().match(np.eye(3), count=17)
    source = np.column_stack([np.linspace(100, 500, 17), np.full(17, 200.0)])
    shift = np.repeat([0.0, 40.0, -40.0, 90.0], [10, 3, 3, 1])
    target = source + np.column_stack([shift, np.zeros(17)])
    matches = replace(matches, source=source, target=target)
    support = support_of_homography(np.eye(3), matches, (shift == 0).astype(float))
    assert support.repeated == pytest.approx(12 / 100)
    assert support.share == pytest.approx(10 / 17)
    # Points in a tenth of either side span a hundredth of the area: √0.01 = 0.1.
    matches, _ = SyntheticMatcher().match(np.eye(3), count=2000)
    corner = (matches.source < [64, 48]).all(axis=1)
    assert spread(matches, np.ones(2000)) == pytest.approx(1.0, abs=0.05)
    assert spread(matches, corner.astype(float)) == pytest.approx(0.1, abs=0.03)
