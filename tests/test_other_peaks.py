"""Other peaks of the likelihood of lines: where they are looked for, when taken."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from semisure.geometry import epipolar
from semisure.geometry.epipolar import CalibratedViews
from semisure.geometry.rotations import rotation
from semisure.io.files import load_calibration
from semisure.law.climbing import climb
from semisure.law.error_laws import error_law
from semisure.metrics import pose_error_deg
from semisure.refit import lines as other_peaks
from semisure.refit.lines import AcrossLines
from semisure.synthetic import SyntheticMatcher
from semisure.types import Pose

K = np.array([[520.0, 0, 320], [0, 520, 240], [0, 0, 1]])
LAW = load_calibration("daisy")
TRUTH = epipolar.checked_pose(
    np.column_stack([rotation(np.array([0.02, -0.15, 0.03])), [0.9, 0.1, 0.2]])
)


def view(start: Pose, count: int, seed: int) -> AcrossLines[CalibratedViews]:
    matches, _ = SyntheticMatcher(LAW).match_views(TRUTH, K, count=count, seed=seed)
    cameras = CalibratedViews(start, K, K)
    return AcrossLines.at(cameras, matches, error_law(matches, LAW))


def wrong_peak(seed: int) -> AcrossLines[CalibratedViews]:
    """Where a climb from some degrees beside the truth ends."""
    rng = np.random.default_rng(seed)
    aside = rng.normal(0.0, [0.05, 0.05, 0.05, 0.3, 0.3])
    return climb(view(epipolar.moved(TRUTH, aside), 200, seed))[0]


def test_others_lie_both_ways_along_the_least_determined_axes() -> None:
    """Standard deviations of 0.1, 0.02 and 0.001: the last axis is left alone.

    50 deviations of the first would be 5 units; 0.5 are the most.
    """
    few = SimpleNamespace(sum=lambda: 20.0)
    peak = SimpleNamespace(
        information=lambda: np.diag([1e6, 100.0, 2500.0]),
        weight=lambda: few,
        geometry=SimpleNamespace(moved=lambda step: step),
    )
    moves = np.array(other_peaks.aside(peak))
    lengths = [[0.5, 0], [0.5, 0], [0.5, 0], [0, 0.1], [0, 0.3], [0, 0.5]]
    np.testing.assert_allclose(np.abs(moves[::2, 1:]), lengths)
    np.testing.assert_allclose(moves[::2], -moves[1::2])
    assert (moves[:, 0] == 0).all()


@pytest.mark.parametrize("seed", [5, 6, 7, 10])
def test_from_a_wrong_peak_the_truth_is_found(seed: int) -> None:
    """17° to 42° off, and 1,500 nats below."""
    peak = wrong_peak(seed)
    found, steps = other_peaks.highest(peak, other_peaks.aside(peak))
    assert pose_error_deg(peak.geometry.P_01, TRUTH) > 5.0
    assert pose_error_deg(found.geometry.P_01, TRUTH) < 1.0
    assert steps > 0
    assert found.score > peak.score + other_peaks.CLEAR_NATS


def test_the_highest_peak_stays() -> None:
    peak, _ = climb(view(TRUTH, 200, 0))
    assert other_peaks.highest(peak, other_peaks.aside(peak)) == (peak, 0)


def test_where_many_matches_agree_nothing_is_looked_for() -> None:
    peak, _ = climb(view(TRUTH, 2000, 0))
    assert peak.weight().sum() > other_peaks.MANY
    assert other_peaks.aside(peak) == []
    assert other_peaks.highest(peak, []) == (peak, 0)


def test_what_is_too_far_below_is_not_tried() -> None:
    """From 17° off the truth is 1,500 nats above; the start itself is far below it."""
    peak = wrong_peak(7)
    truth = peak.geometry.moved(epipolar.tangent(peak.geometry.P_01, TRUTH))
    found, _ = other_peaks.highest(peak, [truth], within=0.0)
    assert pose_error_deg(found.geometry.P_01, TRUTH) < 1.0
    good, _ = climb(view(TRUTH, 200, 7))
    worse = other_peaks.highest(good, [peak.geometry], within=0.0)
    assert worse == (good, 0)
