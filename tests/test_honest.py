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
from semisure.geometry.support import spread, support_of_homography, support_of_lines
from semisure.io.files import load_calibration, save_calibration, save_matches
from semisure.io.images import write_png
from semisure.law.observations import observe
from semisure.pairs.estimation import refit_matches
from semisure.refit.corners import expected_corner_error
from semisure.refit.planes import refit_homography
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
from semisure.types import Matches, Refit
from settings_file import config


@pytest.fixture
def blocks(tmp_path: Path) -> list[str]:
    """A picture of blocks and the same moved by (14, 9) px."""
    rng = np.random.default_rng(0)
    image = rng.integers(0, 255, (30, 40), np.uint8).repeat(8, 0).repeat(8, 1)
    files = [tmp_path / "a.png", tmp_path / "b.png"]
    write_png(files[0], image)
    write_png(files[1], np.roll(image, (9, 14), axis=(0, 1)))
    return [str(file) for file in files]


def test_a_calibration_carries_the_trial_that_it_failed(tmp_path: Path) -> None:
    held_out = observe([SyntheticMatcher().match(np.eye(3), count=500)])
    fine, coarse = (
        EXAMPLE_CALIBRATION.fine_var_gain,
        EXAMPLE_CALIBRATION.coarse_var_gain,
    )
    # Gains multiply variances: a ninth of each makes every scale a third.
    sure = replace(
        EXAMPLE_CALIBRATION,
        fine_var_gain=(fine[0] / 9, fine[1] / 9),
        coarse_var_gain=(coarse[0] / 9, coarse[1] / 9),
    )
    for calibration, trusted in ((EXAMPLE_CALIBRATION, True), (sure, False)):
        trust = trial(held_out, calibration)
        assert trust.trusted is trusted
        path = tmp_path / "theta.json"
        save_calibration(tried(calibration, trust), path)
        caution = load_calibration(path).caution
        assert (caution is None) is trusted
    assert caution is not None
    assert f"predicted {trust.expected_px:.2f} px" in caution


def test_later_commands_warn_of_a_calibration_that_failed(
    blocks: list[str], tmp_path: Path
) -> None:
    trial = {"expected_px": 0.97, "observed_px": 2.4, "trusted": False}
    failed = replace(load_calibration("daisy"), provenance={"trial": trial})
    save_calibration(failed, tmp_path / "theta.json")
    done = CliRunner().invoke(
        app, ["match", *blocks, "-c", str(tmp_path / "theta.json")]
    )
    assert done.exit_code == 0, done.output
    assert "Warning: This calibration is not to be trusted" in done.stderr
    assert "Warning" not in done.stdout


def test_a_calibration_of_another_matcher_needs_force(
    blocks: list[str], tmp_path: Path
) -> None:
    foreign = ["match", *blocks, "-c", "xfeat-star"]
    refused = CliRunner().invoke(app, foreign)
    assert refused.exit_code != 0
    assert "is of xfeat-star, not of daisy" in str(refused.exception)
    force = config(tmp_path, "force = true")
    forced = CliRunner().invoke(app, [*foreign, *force])
    assert forced.exit_code == 0, forced.output


def _through_a_lens(count: int, strength: float, seed: int = 0) -> Matches:
    """Matches between a plane and itself, the second through a lens; noise 0.3 px."""
    rng = np.random.default_rng(seed)
    source = rng.uniform(0, [640, 480], (count, 2))
    off = source - [319.5, 239.5]
    bent = source + strength * ((off / 400) ** 2).sum(axis=1, keepdims=True) * off
    matches, _ = SyntheticMatcher().match(np.eye(3), count=count)
    target = bent + rng.laplace(0, 0.3, source.shape)
    scales = np.full((count, 2), 0.3)
    return replace(matches, source=source, target=target, fine_std=scales)


def _corner_error_in_a_lens(refit: Refit, strength: float) -> float:
    frame = plane.corners((640, 480))
    off = frame - [319.5, 239.5]
    there = frame + strength * ((off / 400) ** 2).sum(axis=1, keepdims=True) * off
    found = plane.project(refit.model, frame)
    return float(np.linalg.norm(found - there, axis=1).mean())


def test_more_matches_do_not_average_a_lens_away() -> None:
    for count in (1000, 16_000):
        matches = _through_a_lens(count, 0.01)
        refit = refit_homography(matches, EXAMPLE_CALIBRATION, np.eye(3))
        assert refit.covariance is not None
        expected = expected_corner_error(refit.covariance)
        # 0.01 at half a diagonal moves a corner by 4 px; a homography follows most.
        actual = _corner_error_in_a_lens(refit, 0.01)
        assert actual > 0.5
        assert 1 / 3 < actual / expected < 3


def test_a_photograph_has_a_least_model_error_and_a_rendered_image_has_none() -> None:
    matches = _through_a_lens(16_000, 0.0)
    # 5e-4 of 800 px on either axis: √(π/2) 0.4 px is half a pixel.
    for share, low, high in ((0.0, 0.0, 0.05), (None, 0.5, 0.55)):
        law = replace(EXAMPLE_CALIBRATION, model_error=share)
        C = refit_homography(matches, law, np.eye(3)).covariance
        assert C is not None
        assert low < expected_corner_error(C) < high


def _repeated(period: float) -> Matches:
    """A tenth of 600 matches agree, a tenth is a period off, the rest is anywhere."""
    rng = np.random.default_rng(4)
    matches, _ = SyntheticMatcher().match(np.eye(3), count=600)
    target = rng.uniform(0, [640, 480], (600, 2))
    target[:120] = matches.source[:120] + rng.laplace(0, 0.3, (120, 2))
    target[60:120, 0] += period
    return replace(matches, target=target, fine_std=np.full((600, 2), 0.3))


def test_a_model_that_few_matches_share_with_a_rival_is_weak() -> None:
    result = refit_matches(_repeated(50.0), EXAMPLE_CALIBRATION, model="homography")
    assert result.model_failure < 1e-20  # no accident, and yet
    assert result.verdict.name == "weak"
    assert result.verdict.probability < 0.5
    few, rival = result.verdict.reasons
    assert "of the matches in view of both images agree" in few
    assert rival == "other shifts of the image have support too"
    assert result.summary().endswith(f"Weak: {few}; {rival}.")
    condition = f"if it is right (probability {result.verdict.probability:.2f})."
    assert condition in result.summary()  # what is said of its error holds only then


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


def test_a_weak_model_says_so_in_json(tmp_path: Path) -> None:
    save_matches(_repeated(50.0), tmp_path / "pair.npz")
    save_calibration(EXAMPLE_CALIBRATION, tmp_path / "theta.json")
    arguments = ["refit", str(tmp_path / "pair.npz")]
    arguments += ["-c", str(tmp_path / "theta.json"), "--model", "homography", "--json"]
    usual = CliRunner().invoke(app, arguments)
    assert usual.exit_code == 0, usual.output
    document = json.loads(usual.stdout)
    assert document["verdict"] == "weak"
    assert document["weak_because"]
    assert document["probability_right"] < 0.5


def test_support_in_one_corner_is_narrow() -> None:
    # Points in a tenth of either side span a hundredth of the area: √0.01 = 0.1.
    matches, _ = SyntheticMatcher().match(np.eye(3), count=2000)
    corner = (matches.source < [64, 48]).all(axis=1)
    everywhere = spread(matches, np.ones(2000))
    assert everywhere == pytest.approx(1.0, abs=0.05)
    assert spread(matches, corner.astype(float)) == pytest.approx(0.1, abs=0.03)


def test_matches_that_share_another_shift_are_counted_in_pairs() -> None:
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


def _in_twos(apart: int) -> Matches:
    """Forty pairs of neighbours; of some, one has its match 50 px off, by itself.

    The diagonal is 1250 px, so that blocks are 50 px wide and hold one pair each.
    """
    places = 100.0 * np.array([[x, y] for x in range(9) for y in range(5)])[:40] + 110.0
    source = np.concatenate([places, places + np.array([8.0, 0.0])])
    target = source.copy()
    target[40 : 40 + apart : 2, 1] += 50.0
    target[41 : 40 + apart : 2, 0] += 50.0
    matches, _ = SyntheticMatcher().match(np.eye(3), count=80)
    sizes = {"source_size": (1000, 750), "target_size": (1000, 750)}
    return replace(matches, source=source, target=target, **sizes)


def test_neighbours_that_move_together_are_counted_by_hand() -> None:
    # One more pair, half of which is alike; twice as many agree as the law expects.
    for apart, expected in ((0, 40.5 / 41), (10, 30.5 / 41)):
        support = support_of_lines(_in_twos(apart), np.ones(80), np.full(80, 0.5))
        assert support.together == pytest.approx(expected)
        assert support.excess == pytest.approx(2.0)


def test_support_is_the_same_at_any_size_of_the_images() -> None:
    matches = _repeated(50.0)
    large = replace(
        matches,
        source=4.0 * matches.source,
        target=4.0 * matches.target,
        source_size=(2560, 1920),
        target_size=(2560, 1920),
    )
    weight, sure = np.zeros(600), np.full(600, 0.5)
    weight[:60] = 1.0
    small_one = support_of_homography(np.eye(3), matches, weight)
    large_one = support_of_homography(np.eye(3), large, weight)
    assert large_one.repeated == pytest.approx(small_one.repeated)
    assert small_one.repeated == pytest.approx(1.0, abs=0.2)  # 60 · 59 pairs of 60²
    assert support_of_lines(large, weight, sure).together == pytest.approx(
        support_of_lines(matches, weight, sure).together
    )


def test_lines_through_a_row_of_like_tiles_are_not_sound() -> None:
    """Each match is taken to some tile of its row: all are on their lines."""
    rng = np.random.default_rng(0)
    matches, _ = SyntheticMatcher().match(np.eye(3), count=800)
    jumps = 60.0 * rng.integers(-4, 5, 800)
    target = matches.source + rng.laplace(0, 0.3, (800, 2))
    target[:, 0] += jumps
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
