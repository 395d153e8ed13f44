"""Relative pose: the paper's study, our refit, and what happens in bad geometry."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from semisure.datasets.posed import depth_at, read_posed
from semisure.errors import InputError
from semisure.estimators import estimate_fundamental
from semisure.estimators.relative import RELATIVE_ESTIMATORS, estimate_relative
from semisure.estimators.settings import RansacSettings
from semisure.geometry import epipolar
from semisure.geometry.rotations import rotation
from semisure.io.files import load_calibration
from semisure.metrics import pose_error_deg
from semisure.pairs.estimation import refit_matches
from semisure.refit.relative import RELATIVE_METHODS, refit_relative
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
from semisure.types import Estimate, FloatArray, Matches

K = np.array([[520.0, 0, 320], [0, 520, 240], [0, 0, 1]])
DATA = Path(__file__).parents[2] / "shared" / "data" / "posed"
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason="the posed images are not beside the project"
)


def pose(turn: tuple[float, float, float], t: tuple[float, float, float]) -> FloatArray:
    return np.column_stack([rotation(np.array(turn)), np.array(t)])


TRUTH = pose((0.02, -0.15, 0.03), (0.9, 0.1, 0.2))
OFF = np.array([0.008, -0.006, 0.004, 0.06, -0.05])  # half a degree, four degrees


def views(seed: int = 0, **options: object) -> tuple[Matches, FloatArray]:
    return SyntheticMatcher().match_views(TRUTH, K, seed=seed, **options)


def near_truth(truth: FloatArray = TRUTH) -> FloatArray:
    return epipolar.moved(epipolar.checked_pose(truth), OFF)


def refit(matches: Matches, initial: object, method: str = "core+", **options: object):
    return refit_relative(
        matches, EXAMPLE_CALIBRATION, initial, K, K, method=method, **options
    )


# --- thresholds ---------------------------------------------------------------------


def test_a_threshold_that_is_not_given_follows_the_precision() -> None:
    """On images of four times the size the same matches are inliers."""
    matches, _ = views(count=600)
    large = replace(
        matches,
        source=4 * matches.source + 1.5,
        target=4 * matches.target + 1.5,
        fine_std=4 * matches.fine_std,
        coarse_std=4 * matches.coarse_std,
        source_size=(2560, 1920),
        target_size=(2560, 1920),
    )
    zoom = np.array([[4, 0, 1.5], [0, 4, 1.5], [0, 0, 1]])

    def inliers(matches: Matches, K0: FloatArray, settings: RansacSettings | None):
        result = refit_matches(
            matches,
            EXAMPLE_CALIBRATION,
            model="essential",
            estimator="ransac",
            settings=settings,
            K0=K0,
        )
        return result.estimate.inliers

    mask = inliers(matches, K, None)
    assert mask.sum() > 100
    np.testing.assert_array_equal(mask, inliers(large, zoom @ K, None))
    # A given threshold is kept: a third of it for lines.
    given = RansacSettings(threshold_px=3.0)
    assert (
        inliers(matches, K, given).sum() > 1.3 * inliers(large, zoom @ K, given).sum()
    )
    start = estimate_relative(matches, K, K, "ransac", RansacSettings(threshold_px=1.0))
    np.testing.assert_array_equal(inliers(matches, K, given), start.inliers)


def test_without_a_threshold_each_estimator_has_its_own() -> None:
    matches, _ = views(count=300)
    for estimate in (
        partial(estimate_relative, matches, K, K, "ransac"),
        partial(estimate_fundamental, matches, "ransac"),
    ):
        usual, own = RansacSettings(threshold_px=1.0), RansacSettings(seed=0)
        np.testing.assert_array_equal(estimate(usual).inliers, estimate(own).inliers)
    with pytest.raises(InputError, match="threshold_px is not set"):
        _ = RansacSettings().threshold


# --- the study on a planted scene ---------------------------------------------------


def test_the_study_in_small_core_loses_and_ours_gains() -> None:
    """From RANSAC: epipolar CoRe loses, depth-assisted CoRe and ours win."""
    settings = RansacSettings(threshold_px=1.0, max_iterations=300)
    arms = ["base", *RELATIVE_METHODS]
    errors: dict[str, list[float]] = {arm: [] for arm in arms}
    for seed in range(12):
        matches, depth = views(seed, count=800)
        start = estimate_relative(matches, K, K, "ransac", settings)
        baseline = float(np.linalg.norm(TRUTH[:, 3]))
        for arm in arms:
            model = start.model
            if arm != "base":
                model = refit(matches, start, arm, depth=depth, baseline=baseline).model
            errors[arm].append(pose_error_deg(model, TRUTH))
    middle = {arm: float(np.median(row)) for arm, row in errors.items()}
    assert middle["core"] > middle["core+"] * 3
    assert middle["core+"] < 0.35 * middle["base"]
    assert middle["depth-core"] < 0.7 * middle["depth-huber"]
    assert middle["depth-core"] < middle["core"]
    assert middle["core+"] < 0.4  # degrees, by any standard
    assert middle["depth-core"] < 0.2


def test_exact_matches_give_the_exact_pose() -> None:
    exact = replace(EXAMPLE_CALIBRATION, intercept=(-30.0, -30.0), doubt_slope=0.0)
    exact = replace(exact, spread_slope=0.0, fine_var_gain=(1e-8, 1e-8))
    matches, depth = SyntheticMatcher(exact).match_views(TRUTH, K, count=200)
    baseline = float(np.linalg.norm(TRUTH[:, 3]))
    for method in RELATIVE_METHODS:
        refitted = refit(matches, near_truth(), method, depth=depth, baseline=baseline)
        assert pose_error_deg(refitted.model, TRUTH) < 0.02


@pytest.mark.parametrize("seed", range(4))
def test_ours_is_never_less_likely_than_its_start(seed: int) -> None:
    matches, _ = views(seed, count=300)
    refitted = refit(matches, near_truth())
    assert refitted.log_likelihood is not None
    before, after = refitted.log_likelihood
    assert after > before
    # And where it stopped there is nothing more to gain.
    again = refit(matches, refitted.model)
    assert again.log_likelihood is not None
    assert again.log_likelihood[1] - after < 1e-3
    assert pose_error_deg(again.model, refitted.model) < 1e-2


def test_both_sides_give_the_same_pose() -> None:
    matches, _ = views(1, count=600)
    forward = refit(matches, near_truth()).model
    start = near_truth()
    R, t = start[:, :3].T, -start[:, :3].T @ start[:, 3]
    backward = refit(matches.swapped(), np.column_stack([R, t])).model
    R, t = backward[:, :3].T, -backward[:, :3].T @ backward[:, 3]
    assert pose_error_deg(np.column_stack([R, t]), forward) < 1e-3


# --- bad geometry -------------------------------------------------------------------


def test_a_plane_keeps_its_weights_and_its_pose() -> None:
    matches, _ = views(4, depths=(7.0, 7.0))
    refitted = refit(matches, near_truth())
    assert refitted.reason is None
    assert refitted.weight.mean() > 0.5  # no collapse
    # A plane says little of t; it must not be led away from where it started, 4.5° off.
    assert pose_error_deg(refitted.model, TRUTH) < 3.0
    linear = refit(matches, near_truth(), "core")
    assert pose_error_deg(linear.model, TRUTH) > pose_error_deg(refitted.model, TRUTH)


def test_few_matches_keep_the_start_and_say_why() -> None:
    matches, _ = views(5, count=4)
    refitted = refit(matches, near_truth())
    assert refitted.reason.startswith("only 4 matches agree, too few")
    assert refit(matches, near_truth(), "core").reason is not None
    depth = np.full(4, np.nan)
    refitted = refit(matches, near_truth(), "depth-core", depth=depth, baseline=1.0)
    assert refitted.reason == "only 0 matches have a depth, a relative pose needs 5"
    nothing = estimate_relative(matches, K, K, "ransac")
    assert nothing.model is None
    assert refit(matches, nothing).reason == nothing.reason
    empty = matches.take(slice(0, 0))
    assert estimate_relative(empty, K, K, "magsac++").reason is not None
    assert refit(empty, near_truth()).reason is not None


def test_wild_matches_neither_crash_nor_steer() -> None:
    matches, _ = views(8)
    clean = refit(matches, near_truth())
    target = matches.target.copy()
    target[:200] = np.random.default_rng(0).uniform(-1e5, 1e5, (200, 2))
    refitted = refit(replace(matches, target=target), near_truth())
    assert pose_error_deg(refitted.model, clean.model) < 0.2
    assert refitted.weight[:200].max() < 0.05


# --- doors --------------------------------------------------------------------------


def test_bad_requests_are_told_what_must_hold() -> None:
    matches, depth = views(9, count=20)
    with pytest.raises(InputError, match="method must be one of"):
        refit(matches, near_truth(), "magic")
    with pytest.raises(InputError, match="needs both depth"):
        refit(matches, near_truth(), "depth-core", depth=depth)
    with pytest.raises(InputError, match="depth must have shape"):
        refit(matches, near_truth(), "depth-huber", depth=depth[:3], baseline=1.0)
    with pytest.raises(InputError, match="initial must be"):
        refit(matches, np.eye(3))
    other = Estimate(model=TRUTH, inliers=np.ones(3, bool), estimator="x")
    with pytest.raises(InputError, match="initial must come from these"):
        refit(matches, other)
    with pytest.raises(InputError, match="K1 must be"):
        refit_relative(matches, EXAMPLE_CALIBRATION, TRUTH, K, K[:2])
    with pytest.raises(InputError, match="estimator must be one of"):
        estimate_relative(matches, K, K, "five-point")


@pytest.mark.parametrize("name", RELATIVE_ESTIMATORS)
def test_estimators_find_the_planted_pose_again_and_again(name: str) -> None:
    if name == "poselib":
        pytest.importorskip("poselib")
    matches, _ = views(10, count=600)
    settings = RansacSettings(threshold_px=1.0, max_iterations=500)
    estimates = [estimate_relative(matches, K, K, name, settings) for _ in range(2)]
    assert pose_error_deg(estimates[0].model, TRUTH) < 8
    assert 0.3 < estimates[0].inliers.mean() < 1
    assert np.array_equal(estimates[0].model, estimates[1].model)
    assert float(np.linalg.norm(estimates[0].model[:, 3])) == pytest.approx(1.0)


def test_pose_error_is_the_larger_angle() -> None:
    # 10° of rotation about z with t unmoved; then t at 30° with R unmoved.
    truth = pose((0.0, 0.0, 0.0), (0.0, 0.0, 2.0))
    turned = pose((0.0, 0.0, np.radians(10)), (0.0, 0.0, 1.0))
    assert pose_error_deg(turned, truth) == pytest.approx(10.0, abs=1e-9)
    leaning = pose((0.0, 0.0, 0.1), (0.5, 0.0, np.sqrt(0.75)))
    assert pose_error_deg(leaning, truth) == pytest.approx(30.0, abs=1e-9)
    assert pose_error_deg(None, truth) == np.inf
    assert pose_error_deg(truth, truth) == 0.0


# --- posed images -------------------------------------------------------------------


def test_lists_of_posed_images_are_read(tmp_path: Path) -> None:
    (tmp_path / "cameras.txt").write_text(
        "# name K R t\n"
        "a.jpg 500 0 320 0 500 240 0 0 1 1 0 0 0 1 0 0 0 1 0 0 0\n"
        "b.jpg 500 0 320 0 500 240 0 0 1 0 -1 0 1 0 0 0 0 1 1 2 3\n"
    )
    (tmp_path / "pairs.csv").write_text(
        "name0,name1,overlap,rot_deg,tri_angle_deg\n"
        "b.jpg,a.jpg,0.5,90,10\na.jpg,b.jpg,0.2,90,10\n"
    )
    (tmp_path / "depth_768").mkdir()
    depth = np.array([[1.0, 2.0], [0.0, np.nan]], dtype=np.float32)
    np.savez(tmp_path / "depth_768" / "a.npz", depth=depth)
    both = read_posed(tmp_path)
    assert [p.name.removeprefix(f"{tmp_path.name}_") for p in both] == ["b_a", "a_b"]
    # a is the world: b → a is the inverse of (R, t) = (quarter turn, (1, 2, 3)).
    assert np.allclose(both[1].P_01, [[0, -1, 0, 1], [1, 0, 0, 2], [0, 0, 1, 3]])
    assert np.allclose(both[0].P_01, [[0, 1, 0, -2], [-1, 0, 0, 1], [0, 0, 1, -3]])
    assert len(read_posed(tmp_path, min_overlap=0.3)) == 1
    corners = np.array([[0.0, 0], [3, 0], [0, 3], [3, 3], [9, 0]])
    z = depth_at(both[1].camera0, corners, (4, 4))  # a map of half the size
    assert np.array_equal(z, [1, 2, np.nan, np.nan, np.nan], equal_nan=True)
    assert depth_at(both[1].camera1, corners, (4, 4)) is None


@needs_data
def test_posed_sets_are_read_with_their_conventions() -> None:
    fountain = read_posed(DATA / "fountain-P11")
    assert len(fountain) == 55
    assert fountain[0].camera0.depth is not None
    kitchen = read_posed(DATA / "redkitchen", min_overlap=0.3, min_angle_deg=5.0)
    assert len(kitchen[12::25]) == 110
    z = depth_at(kitchen[0].camera0, np.array([[320.0, 240.0]]), (643, 479))
    assert z is not None
    assert 0.3 < z[0] < 10  # metres
    pytest.importorskip("h5py")
    assert len(read_posed(DATA / "reichstag")) == 45


# -- pure rotations, and few matches


@pytest.mark.parametrize("name", ["", "daisy", "xfeat-star"])
@pytest.mark.parametrize("count", [20, 50, 200])
def test_a_pure_rotation_has_no_direction_of_translation(name: str, count: int) -> None:
    """Coarse failures along the lines are no parallax, however few the matches are."""
    law = load_calibration(name) if name else EXAMPLE_CALIBRATION
    for seed in range(8):
        rng = np.random.default_rng(seed)
        turn = rng.normal(size=3)
        turn *= np.radians(rng.uniform(2, 15)) / np.linalg.norm(turn)
        H = K @ rotation(turn) @ np.linalg.inv(K)
        matches, _ = SyntheticMatcher(law).match(H, count=count, seed=seed)
        start = estimate_relative(matches, K, K, "ransac")
        refit = refit_relative(matches, law, start, K, K)
        assert refit.reason is not None, seed


def test_a_handful_of_matches_is_too_few_to_check_a_pose_by() -> None:
    truth = np.column_stack([np.eye(3), [1.0, 0, 0]])
    matches, _ = SyntheticMatcher().match_views(truth, K, count=9)
    refit = refit_relative(matches, EXAMPLE_CALIBRATION, truth, K, K)
    assert "too few to check the five parameters" in refit.reason
    np.testing.assert_array_equal(refit.model, truth)
