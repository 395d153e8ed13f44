"""Cameras that are not what they are said to be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from semisure.geometry import epipolar
from semisure.geometry.rotations import rotation, rotation_vector
from semisure.law.error_laws import error_law
from semisure.refit.lines import AcrossLines, intrinsics_errors
from semisure.refit.relative import refit_relative
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
    C, (R, t) = refit.covariance, (refit.model[:, :3], refit.model[:, 3])
    turn = np.linalg.norm(rotation_vector(truth[:, :3] @ R.T))
    lean = np.linalg.norm(np.cross(truth[:, 3], t))
    stated = np.sqrt([np.trace(C[:3, :3]), np.trace(C[3:, 3:])])
    return float(np.max([turn, lean] / stated))


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
    assert not intrinsics_errors(view.geometry, matches, 0.0).any()
    rendered = view.covariance(EXAMPLE_CALIBRATION)
    photo = view.covariance(PHOTO)
    # As it was without intrinsics: between that of the matches alone and a photo's.
    alone = view.covariance(EXAMPLE_CALIBRATION, field=False)
    assert np.trace(alone) <= np.trace(rendered) < 0.2 * np.trace(photo)


def test_two_cameras_err_apart_and_one_errs_once() -> None:
    matches, truth = scene(1, pinhole(), count=20)
    for K1, errors in ((pinhole(502.0), 3), (pinhole(600.0), 6)):
        views = epipolar.CalibratedViews(truth, pinhole(), K1)
        assert intrinsics_errors(views, matches, 1e-3).shape == (errors, 20)


def test_a_centred_principal_point_was_assumed_and_another_measured() -> None:
    """1 % of the diagonal, or a tenth of that."""
    matches, truth = scene(2, pinhole(), count=50)
    sizes = []
    for K in (pinhole(), pinhole(x=324.0, y=236.0)):
        views = epipolar.CalibratedViews(truth, K, K)
        sizes.append(np.abs(intrinsics_errors(views, matches, None)).mean())
    assert sizes[0] == pytest.approx(10 * sizes[1], rel=0.1)
