"""Cameras that are not what they are said to be, and peaks beside the one found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from semisure.error_laws import error_law
from semisure.geometry import epipolar
from semisure.geometry.rotations import rotation
from semisure.refit import half_samples, intrinsics_error, refit_relative
from semisure.refit.across_lines import AcrossLines
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
from semisure.types import FloatArray, Matches, Matrix3

SIZE = (640, 480)
PHOTO = replace(EXAMPLE_CALIBRATION, model_error=None)  # lenses, guessed intrinsics


def pinhole(focal: float = 500.0, x: float = 319.5, y: float = 239.5) -> Matrix3:
    return np.array([[focal, 0, x], [0, focal, y], [0, 0, 1.0]])


def scene(seed: int, K: Matrix3, count: int = 1500) -> tuple[Matches, FloatArray]:
    """Two views of points 4 to 12 m away, a metre apart, and their relative pose."""
    rng = np.random.default_rng(seed)
    t = rng.normal(size=3) * [1.0, 1.0, 0.3]
    P_01 = np.column_stack([rotation(rng.normal(0, 0.1, 3)), t / np.linalg.norm(t)])
    matches, _ = SyntheticMatcher().match_views(P_01, K, count=count, seed=seed)
    return matches, P_01


def ratio(matches: Matches, truth: FloatArray, K: Matrix3, law=PHOTO) -> float:
    """Actual over stated error of the pose, of rotation or direction."""
    refit = refit_relative(matches, law, truth, K, K)
    off, C = epipolar.tangent(refit.model, truth), refit.covariance
    parts = [
        np.linalg.norm(off[p]) / np.sqrt(np.trace(C[p, p]))
        for p in (slice(0, 3), slice(3, 5))
    ]
    return float(max(parts))


@pytest.mark.parametrize("wrong", [pinhole(505.0), pinhole(x=327.5, y=231.5)])
def test_a_camera_that_is_off_by_a_hundredth_is_in_the_stated_error(wrong) -> None:
    stated, unstated = [], []
    for seed in range(5):
        matches, truth = scene(seed, wrong, count=4000)  # and taken for pinhole()'s
        stated.append(ratio(matches, truth, pinhole()))
        unstated.append(ratio(matches, truth, pinhole(), EXAMPLE_CALIBRATION))
    assert max(stated) < 2.0
    assert np.median(stated) > 0.2
    assert max(unstated) > 4.0


def test_rendered_images_have_the_covariance_of_exact_cameras() -> None:
    matches, truth = scene(0, pinhole())
    view = AcrossLines.at(
        epipolar.CalibratedViews(truth, pinhole(), pinhole()),
        matches,
        error_law(matches, EXAMPLE_CALIBRATION),
    )
    shifts = intrinsics_error.across_lines(view.geometry, view.lines, matches, 0.0)
    assert not shifts.any()
    rendered = view.covariance(EXAMPLE_CALIBRATION)
    photo = view.covariance(PHOTO)
    # As it was without intrinsics: between that of the matches alone and a photo's.
    alone = view.covariance(EXAMPLE_CALIBRATION, field=False)
    assert np.trace(alone) <= np.trace(rendered) < 0.2 * np.trace(photo)


def test_intrinsics_move_distances_as_moved_pixels_do() -> None:
    K = pinhole()
    matches, truth = scene(3, K, count=50)
    views = epipolar.CalibratedViews(truth, K, K)
    lines = views.lines(matches)
    shifts = intrinsics_error.across_lines(views, lines, matches, 1.0)[:, 0]
    step = 1e-6
    for shift, change in zip(
        shifts,
        (np.array([800.0, 0.0]), np.array([0.0, 800.0]), None),
        strict=True,
    ):
        moved = [
            p + step * (change if change is not None else p - K[:2, 2])
            for p in (matches.source, matches.target)
        ]
        there = views.lines(replace(matches, source=moved[0], target=moved[1]))
        np.testing.assert_allclose(
            (there.distance - lines.distance) / step, shift, rtol=1e-3, atol=1e-2
        )


def test_two_cameras_err_apart_and_one_errs_once() -> None:
    matches, truth = scene(1, pinhole(), count=20)
    for K1, errors in ((pinhole(502.0), 3), (pinhole(600.0), 6)):
        views = epipolar.CalibratedViews(truth, pinhole(), K1)
        shifts = intrinsics_error.across_lines(views, views.lines(matches), matches, 1)
        assert shifts.shape == (errors, 1, 20)


def test_halves_of_a_clear_scene_say_what_the_sandwich_says() -> None:
    K, ratios = pinhole(), []
    for seed in range(6):
        matches, truth = scene(seed, K, count=800)
        law = error_law(matches, EXAMPLE_CALIBRATION)
        start = refit_relative(matches, EXAMPLE_CALIBRATION, truth, K, K).model
        view = AcrossLines.at(epipolar.CalibratedViews(start, K, K), matches, law)
        C = view.covariance(EXAMPLE_CALIBRATION, field=False)
        widened = half_samples.widened(C, view)
        np.testing.assert_array_equal(widened, half_samples.widened(C, view))
        assert np.linalg.eigvalsh(widened)[0] > 0
        ratios.append(np.trace(widened[:3, :3]) / np.trace(C[:3, :3]))
    assert 0.6 < np.median(ratios) < 1.6


def test_a_second_peak_widens_what_is_stated() -> None:
    # Little parallax and few matches: halves stand on other peaks than the whole.
    K, widths = pinhole(), []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        t = rng.normal(size=3) * [1.0, 1.0, 0.3]
        truth = np.column_stack([np.eye(3), t / np.linalg.norm(t)])
        matches, _ = SyntheticMatcher().match_views(
            truth, K, depths=(60.0, 90.0), count=150, seed=seed
        )
        law = error_law(matches, EXAMPLE_CALIBRATION)
        model = refit_relative(matches, EXAMPLE_CALIBRATION, truth, K, K).model
        view = AcrossLines.at(epipolar.CalibratedViews(model, K, K), matches, law)
        C = view.covariance(EXAMPLE_CALIBRATION, field=False)
        widths.append(
            np.trace(half_samples.widened(C, view)[3:, 3:]) / np.trace(C[3:, 3:])
        )
    assert max(widths) > 2.0


def test_many_matches_leave_the_sandwich_alone() -> None:
    K = pinhole()
    matches, truth = scene(0, K, count=3000)
    law = error_law(matches, EXAMPLE_CALIBRATION)
    view = AcrossLines.at(epipolar.CalibratedViews(truth, K, K), matches, law)
    C = np.eye(5)
    assert half_samples.widened(C, view) is C
