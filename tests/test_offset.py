"""An offset of both points, each in its own window, is known, kept and taken off."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import semisure
from semisure.errors import InputError
from semisure.geometry import epipolar
from semisure.geometry import pose as se3
from semisure.geometry.homography import project, residual
from semisure.maps import hloc
from semisure.maps.lifting import lift
from semisure.metrics import corner_error, pose_error_deg
from semisure.pipeline import refit_matches
from semisure.refit.initial import without_location
from semisure.selfcal.offset import fit_offset
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
from semisure.types import Calibration, Matches, PairSpread

LOCATION, OFFSET = (-0.1, -0.15), (-0.4, -0.45)
LAW = replace(EXAMPLE_CALIBRATION, location=LOCATION, offset=OFFSET)
WITHOUT = replace(LAW, offset=None)
SMALL, LARGE = 6.0, 13.0  # px, the two cells of XFeat*
SIZE = (640, 480)
# Turned by 20° and zoomed by 1.2: (A − I) δ is up to 0.2 windows.
TURN = 1.2 * np.array([[np.cos(0.35), -np.sin(0.35)], [np.sin(0.35), np.cos(0.35)]])
H_01 = np.block([[TURN, np.array([[60.0], [-40.0]])], [np.zeros((1, 2)), np.eye(1)]])
K = np.array([[500.0, 0, 319.5], [0, 500.0, 239.5], [0, 0, 1]])
P_01 = epipolar.checked_pose(se3.moved(np.eye(3, 4), [0.02, 0.1, 0.3, 1, 0.1, 0.3]))


def with_windows(matches: Matches) -> Matches:
    """Cells of either size in either image, and either image refined."""
    rng = np.random.default_rng(0)
    n = len(matches)
    return replace(
        matches,
        fine_window=rng.choice([SMALL, LARGE], n),
        anchor_window=rng.choice([SMALL, LARGE], n),
        side=rng.integers(0, 2, n),
    )


def misplaced(true: Matches) -> Matches:
    """The matches with location and offset added, written out side by side."""
    assert true.anchor_window is not None
    refined = true.fine_window[:, None] * np.add(LOCATION, OFFSET)
    anchor = true.anchor_window[:, None] * np.array(OFFSET)
    in_first = (true.side == 0)[:, None]
    return replace(
        true,
        source=true.source + np.where(in_first, refined, anchor),
        target=true.target + np.where(in_first, anchor, refined),
    )


@pytest.fixture
def true() -> Matches:
    """Exact correspondences of a homography."""
    matches, _ = SyntheticMatcher().match(np.eye(3), count=400, seed=3)
    exact = replace(matches, target=project(H_01, matches.source))
    return with_windows(exact)


def true_views() -> Matches:
    """Exact correspondences of two views of a scene in depth."""
    exact = replace(
        EXAMPLE_CALIBRATION,
        fine_var_gain=(1e-12, 1e-12),
        intercept=(-80.0, -80.0),
        spread_slope=0.0,
        doubt_slope=0.0,
    )
    views, _ = SyntheticMatcher(exact).match_views(P_01, K, count=500, seed=9)
    return with_windows(views)


def test_a_planted_offset_is_taken_off_exactly(true: Matches) -> None:
    raw = misplaced(true)
    unbiased, rest = semisure.without_bias(raw, LAW)
    assert np.allclose(unbiased.source, true.source, atol=1e-10)
    assert np.allclose(unbiased.target, true.target, atol=1e-10)
    assert (rest.location, rest.offset) == (None, None)
    located, rest = without_location(raw, LAW)
    assert np.allclose(raw.refined - located.refined, raw.shift_px(LOCATION))
    assert (rest.location, rest.offset) == (None, None)


def test_without_a_window_of_its_own_the_other_point_has_the_refined_ones() -> None:
    """By hand: 0.5 of 6 and of 13 px off both points, and 0.1 of it off image 1's."""
    matches, _ = SyntheticMatcher().match(np.eye(3), count=2)
    old = replace(matches, fine_window=[SMALL, LARGE], side=1)
    law = replace(EXAMPLE_CALIBRATION, location=(0.1, 0.0), offset=(-0.5, 0.0))
    moved, _ = semisure.without_bias(old, law)
    assert np.allclose(moved.source - old.source, [[3.0, 0.0], [6.5, 0.0]])
    assert np.allclose(moved.target - old.target, [[2.4, 0.0], [5.2, 0.0]])


def test_homographies_of_misplaced_matches_are_exact(true: Matches) -> None:
    raw = misplaced(true)
    found = semisure.refit_homography(raw, LAW, H_01).model
    assert corner_error(found, H_01, SIZE) < 1e-3
    shifted = semisure.refit_homography(raw, WITHOUT, H_01).model
    assert corner_error(shifted, H_01, SIZE) > 0.5
    of_points, _ = semisure.refit_points(
        raw.source,
        raw.target,
        H_01,
        LAW,
        confidence=raw.confidence,
        fine_std=raw.fine_std,
        coarse_std=raw.coarse_std,
        source_size=SIZE,
        target_size=SIZE,
        side=raw.side,
        fine_window=raw.fine_window,
        anchor_window=raw.anchor_window,
    )
    assert np.array_equal(of_points, found)


def test_lines_and_poses_of_misplaced_matches_are_exact() -> None:
    true, F = true_views(), epipolar.fundamental(P_01, K, K)
    raw, off = misplaced(true), {}
    for law in (LAW, WITHOUT):
        pose = semisure.refit_relative(raw, law, P_01, K, K).model
        lines = semisure.refit_fundamental(raw, law, F).model
        assert lines is not None
        distance = epipolar.lines_of(lines[None], true).distance
        off[law.offset] = pose_error_deg(pose, P_01), np.median(np.abs(distance))
    degrees, px = off[OFFSET]
    assert degrees < 0.01
    assert px < 0.01
    assert off[None][0] > 0.2
    assert off[None][1] > 0.1


@pytest.mark.parametrize("side", [0, 1])
def test_an_offset_is_taken_off_before_matches_are_lifted(side: int) -> None:
    zoom = 1.5
    x, y = np.meshgrid(np.arange(20.0, 600, 8), np.arange(20.0, 400, 8))
    mapped = np.column_stack([x.ravel(), y.ravel()])
    n = len(mapped)
    true = Matches(
        source=zoom * mapped,
        target=mapped,
        confidence=np.full(n, 0.9),
        fine_std=np.ones((n, 2)),
        coarse_std=np.full((n, 2), 20.0),
        source_size=(960, 720),
        target_size=SIZE,
        side=np.array(side),
        fine_window=SMALL,
        anchor_window=LARGE,
    )
    world = np.column_stack([mapped, np.ones(n)])
    lifted = lift(misplaced(true), mapped, world, calibration=LAW)
    assert len(lifted) == n
    unbiased, _ = semisure.without_bias(lifted, LAW)
    assert np.allclose(unbiased.points, zoom * lifted.world[:, :2], atol=1e-6)


def test_what_is_said_of_matches_is_said_of_the_raw_ones(true: Matches) -> None:
    """The view turns by 20°: raw residuals have |A v − w| · 0.4 beyond the location."""
    spread = PairSpread(
        fine=(0.0, 2.0), gate=(0.0, 1.0), coarse=(0.0, 0.5), background=(-5.0, 1.0)
    )
    raw = misplaced(true)
    result = refit_matches(raw, replace(LAW, pairs=spread), model="homography")
    assert corner_error(result.H_01, H_01, SIZE) < 1e-2
    located, _ = without_location(raw, LAW)
    actual = np.abs(residual(H_01, located)).mean()
    assert actual > 1.0
    assert np.mean(result.blind_law.fine_scale) == pytest.approx(actual, rel=0.35)


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_files_keep_the_windows_and_older_files_have_none(
    true: Matches, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"pair{suffix}"
    semisure.save_matches(true, path)
    back = semisure.load_matches(path)
    assert np.array_equal(back.anchor_window, true.anchor_window)
    semisure.save_matches(replace(true, anchor_window=None), path)
    assert "anchor" not in (path.read_text() if suffix == ".csv" else "")
    assert semisure.load_matches(path).anchor_window is None


def test_hlocs_files_keep_the_windows(true: Matches, tmp_path: Path) -> None:
    pytest.importorskip("h5py", reason="h5py is not installed")
    path = tmp_path / "matches.h5"
    hloc.write_matches(path, "a", "b", true)
    assert np.array_equal(
        hloc.read_matches(path, "b", "a").anchor_window, true.anchor_window
    )
    hloc.write_matches(path, "a", "b", replace(true, anchor_window=None))
    assert hloc.read_matches(path, "a", "b").anchor_window is None


def test_calibrations_keep_the_offset_and_older_files_have_none(tmp_path: Path) -> None:
    path = tmp_path / "law.json"
    semisure.save_calibration(LAW, path)
    assert semisure.load_calibration(path) == LAW
    document = json.loads(path.read_text())
    del document["parameters"]["offset"]
    path.write_text(json.dumps(document))
    assert semisure.load_calibration(path) == WITHOUT


def test_windows_follow_their_matches(true: Matches) -> None:
    window = true.anchor_window
    assert window is not None
    some = true.take(np.array([2, 0])).anchor_window
    assert np.array_equal(some, window[[2, 0]])
    assert np.array_equal(true.swapped().anchor_window, window)
    assert replace(true, anchor_window=None).take(slice(1)).anchor_window is None
    assert (replace(true, anchor_window=9.0).anchor_window == 9.0).all()


def test_wrong_windows_and_offsets_are_named(true: Matches) -> None:
    assert true.anchor_window is not None
    bad = true.anchor_window.copy()
    bad[3] = 0.0
    with pytest.raises(InputError, match=r"anchor_window must be positive.*match 3"):
        replace(true, anchor_window=bad)
    with pytest.raises(InputError, match=r"anchor_window must have shape \(400,\)"):
        replace(true, anchor_window=bad[:2])
    with pytest.raises(InputError, match="An offset goes with a location"):
        replace(EXAMPLE_CALIBRATION, offset=(0.1, 0.1))
    with pytest.raises(InputError, match=r"offset must have shape \(2,\)"):
        replace(LAW, offset=(0.1,))


def noisy(true: Matches, seed: int) -> tuple[Matches, np.ndarray]:
    """Misplaced and noisy by a Laplace law of 0.5 px; one of ten anywhere."""
    rng = np.random.default_rng(seed)
    raw = misplaced(true)
    noise = rng.laplace(0.0, 0.5, (len(raw), 2))
    wrong = rng.random(len(raw)) < 0.1
    noise[wrong] = rng.uniform(-60, 60, (int(wrong.sum()), 2))
    raw = raw.shifted(noise)
    return raw, residual(H_01, raw)


def test_turned_views_tell_an_offset_from_a_location(true: Matches) -> None:
    location, offset = fit_offset([noisy(true, seed) for seed in range(5)]) or ((), ())
    # 2,000 matches of 0.5 px in windows of 6 and 13 px: a hundredth of a window.
    assert location == pytest.approx(LOCATION, abs=0.02)
    assert offset == pytest.approx(OFFSET, abs=0.02)


def test_without_windows_no_offset_is_fitted(true: Matches) -> None:
    plain, errors = noisy(true, 0)
    assert fit_offset([(replace(plain, anchor_window=None), errors)]) is None
    assert fit_offset([]) is None


def test_laws_without_an_offset_leave_the_other_point_alone(true: Matches) -> None:
    law: Calibration = WITHOUT
    moved, _ = semisure.without_bias(replace(true, side=1), law)
    assert np.array_equal(moved.source, true.source)
