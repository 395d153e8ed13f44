"""The two relative poses of a plane, and which of them a scene with some depth has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from semisure.geometry import epipolar
from semisure.geometry.epipolar import poses_of_plane
from semisure.geometry.rotations import rotation
from semisure.metrics import pose_error_deg
from semisure.refit.relative import refit_relative
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
from semisure.types import FloatArray, Matches

K0 = np.array([[520.0, 0, 320], [0, 520, 240], [0, 0, 1]])
K1 = np.array([[610.0, 0, 310], [0, 610, 250], [0, 0, 1]])
TRUTH = epipolar.checked_pose(
    np.column_stack([rotation(np.array([0.02, -0.25, 0.03])), [0.9, 0.1, 0.3]])
)
NORMAL = np.array([0.2, -0.3, 0.93])  # n / d: a plane about one baseline away


def homography(P: FloatArray) -> FloatArray:
    plane = P[:, :3] + np.outer(P[:, 3], NORMAL)
    return K1 @ plane @ np.linalg.inv(K0)


def apart(P: FloatArray, Q: FloatArray) -> float:
    """Degrees, whatever the sign of t."""
    other = np.column_stack([P[:, :3], -P[:, 3]])
    return min(pose_error_deg(P, Q), pose_error_deg(other, Q))


@pytest.mark.parametrize("scale", [1.0, -3.0])
def test_one_of_both_is_the_truth(scale: float) -> None:
    both = poses_of_plane(scale * homography(TRUTH), K0, K1)
    off = sorted(apart(P, TRUTH) for P in both)
    assert off[0] < 1e-5
    assert off[1] > 20.0


def test_a_turn_has_no_translation() -> None:
    H = K1 @ TRUTH[:, :3] @ np.linalg.inv(K0)
    assert poses_of_plane(H, K0, K1) == []
    assert poses_of_plane(np.zeros((3, 3)), K0, K1) == []


def facade(seed: int) -> Matches:
    """900 matches on a plane and 100 within a tenth of its distance behind it."""
    rng = np.random.default_rng(seed)
    matches, _ = SyntheticMatcher().match(np.eye(3), count=1000, seed=seed)
    rays = epipolar.rays(K0, matches.source)
    depth = 1.0 / (rays @ NORMAL)
    depth[:100] *= rng.uniform(1.0, 1.1, 100)
    seen = (depth[:, None] * rays) @ TRUTH[:, :3].T + TRUTH[:, 3]
    seen = seen @ K1.T
    error = matches.target - matches.source  # the law's own, of an identity
    return replace(matches, target=seen[:, :2] / seen[:, 2:] + error)


@pytest.mark.parametrize("seed", range(3))
def test_from_the_wrong_pose_of_a_plane_the_right_one_is_found(seed: int) -> None:
    """A climb alone stays at the second pose, though a thousand matches agree."""
    wrong = max(
        poses_of_plane(homography(TRUTH), K0, K1), key=lambda P: apart(P, TRUTH)
    )
    refit = refit_relative(facade(seed), EXAMPLE_CALIBRATION, wrong, K0, K1)
    assert apart(wrong, TRUTH) > 20.0
    assert apart(refit.model, TRUTH) < 2.0
