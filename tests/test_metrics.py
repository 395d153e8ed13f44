"""Metrics against cases small enough to do by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plain import coverage
from semisure import metrics
from semisure.errors import InputError
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.synthetic import SyntheticMatcher


def test_corner_error_of_a_shift_and_of_nothing() -> None:
    shift = np.array([[1.0, 0, 3], [0, 1, 4], [0, 0, 1]])
    assert metrics.corner_error(shift, np.eye(3), (640, 480)) == pytest.approx(5)
    assert metrics.corner_error(None, np.eye(3), (640, 480)) == np.inf
    # A zoom by two moves the corner pixels' centres, at 639 and 479, by themselves.
    zoom = np.diag([2.0, 2.0, 1.0])
    by_hand = (0 + 639 + np.hypot(639, 479) + 479) / 4
    assert metrics.corner_error(zoom, np.eye(3), (640, 480)) == pytest.approx(by_hand)
    horizon = np.array([[1, 0, 0], [0, 1, 0], [-1 / 639, 0, 1.0]])
    assert metrics.corner_error(horizon, np.eye(3), (640, 480)) == np.inf


def test_auc_by_hand() -> None:
    # One error of 1 px at threshold 2: recall rises to 1 along a line, then is flat:
    # (½ · 1 + 1) / 2.
    assert metrics.auc([1.0], [2]) == pytest.approx([0.75])
    assert metrics.auc([np.inf, np.inf], [10]) == [0.0]
    assert metrics.auc([0.0, 0.0], [5]) == pytest.approx([1.0])
    assert metrics.auc([5.0], [2]) == [0.0]


def reference_auc(errors: list[float], threshold: float) -> float:
    """The community's code, as in SuperGlue, with trapezoid for the removed trapz."""
    sort_idx = np.argsort(errors)
    errors_sorted = np.array(errors)[sort_idx]
    recall = (np.arange(len(errors_sorted)) + 1) / len(errors_sorted)
    e = np.r_[0.0, errors_sorted]
    r = np.r_[0.0, recall]
    last = np.searchsorted(e, threshold)
    r = np.r_[r[:last], r[last - 1]]
    e = np.r_[e[:last], threshold]
    return float(np.trapezoid(r, x=e) / threshold)


@given(st.lists(st.floats(0, 50), min_size=1, max_size=30), st.floats(0.5, 20))
def test_auc_is_the_communitys(errors: list[float], threshold: float) -> None:
    expected = reference_auc(errors, threshold)
    assert metrics.auc(errors, [threshold])[0] == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.floats(0, 50), min_size=1, max_size=30), st.floats(0.1, 5))
def test_auc_never_rises_with_the_errors(errors: list[float], more: float) -> None:
    better = metrics.auc(errors, [5])[0]
    assert metrics.auc([e + more for e in errors], [5])[0] <= better + 1e-12


def test_auc_refuses_nan() -> None:
    with pytest.raises(InputError, match="give a failure as inf"):
        metrics.auc([1.0, np.nan], [1])
    with pytest.raises(InputError, match="at least one number"):
        metrics.auc([], [1])


def test_ece_of_a_calibrated_law_is_small_and_of_a_doubled_one_is_not() -> None:
    matches, r = SyntheticMatcher().match(np.eye(3), count=40_000, seed=0)
    expected = mixture.expected_abs_error(
        error_law(matches, SyntheticMatcher().calibration)
    )
    observed = np.abs(r).mean(axis=1)
    good = metrics.expected_calibration_error(expected, observed)
    bad = metrics.expected_calibration_error(2 * expected, observed)
    assert good < 0.05 * observed.mean()
    assert bad == pytest.approx(observed.mean(), rel=0.1)


def test_spearman_matches_scipy_with_ties() -> None:
    from scipy.stats import spearmanr

    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 9, 200).astype(float), rng.normal(size=200)
    b += a
    assert metrics.spearman(a, b) == pytest.approx(spearmanr(a, b)[0])
    assert np.isnan(metrics.spearman(np.ones(5), b[:5]))


def test_auroc_and_auprc_by_hand() -> None:
    score = np.array([0.9, 0.8, 0.7, 0.6])
    positive = np.array([True, False, True, False])
    # Three of four positive-negative pairs are in order.
    assert metrics.auroc(score, positive) == 0.75
    # Precision 1/1 at the first positive and 2/3 at the second.
    assert metrics.auprc(score, positive) == pytest.approx((1 + 2 / 3) / 2)
    assert metrics.auroc(np.ones(4), positive) == 0.5
    assert metrics.auprc(np.ones(4), positive) == 0.5
    assert np.isnan(metrics.auroc(score, np.ones(4, bool)))
    assert np.isnan(metrics.auprc(score, np.zeros(4, bool)))


def test_auroc_and_auprc_are_scikit_learns() -> None:
    scores = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    for ties in (3, 50, 10**6):
        score = rng.integers(0, ties, 500).astype(float)
        positive = rng.random(500) < 0.2 + 0.5 * score / ties
        auroc = scores.roc_auc_score(positive, score)
        auprc = scores.average_precision_score(positive, score)
        assert metrics.auroc(score, positive) == pytest.approx(auroc, abs=1e-12)
        assert metrics.auprc(score, positive) == pytest.approx(auprc, abs=1e-12)


def test_gain_of_auc_and_its_spread() -> None:
    before = np.full(50, 4.0)
    # Recall rises to 1/50 along a line to 4 px, jumps to 1 and stays: (0.04 + 1) / 5.
    # Halved: (0.02 + 3) / 5. Every resampling says the same: no spread.
    gain, spread = metrics.auc_gain(before, before / 2, [5])
    assert gain == pytest.approx([3.02 / 5 - 1.04 / 5])
    assert spread == pytest.approx([0.0], abs=1e-12)
    # Half of the pairs gain: the spread of a share of 50 draws is √(¼ / 50).
    after = np.where(np.arange(50) % 2, np.inf, 0.0)
    gain, spread = metrics.auc_gain(np.full(50, np.inf), after, [5], draws=2000)
    assert gain == pytest.approx([0.5])
    assert spread == pytest.approx([np.sqrt(0.25 / 50)], rel=0.1)


def test_coverage_of_the_true_law_is_its_level() -> None:
    matches, r = SyntheticMatcher().match(np.eye(3), count=40_000, seed=1)
    law = error_law(matches, SyntheticMatcher().calibration)
    levels = [0.5, 0.9, 0.99]
    inside = coverage(mixture.cdf(law, r), levels)
    assert inside == pytest.approx(levels, abs=0.01)
