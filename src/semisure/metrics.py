"""How good a model or a predicted error is: arrays in, floats out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from semisure.errors import InputError
from semisure.geometry.homography import corners, project
from semisure.types import IntArray, Mask, Matrix3, PerMatch, Pose, Vector

ECE_BINS = 15


def corner_error(
    H_01: Matrix3 | None, truth: Matrix3, source_size: tuple[int, int]
) -> float:
    """Mean distance in px of the four corners of image 0 under the two models.

    The error is infinite for a missing model, or if a corner goes to infinity.
    """
    if H_01 is None:
        return float("inf")
    frame = corners(source_size)
    distance = np.linalg.norm(project(H_01, frame) - project(truth, frame), axis=1)
    mean = float(distance.mean())
    return mean if np.isfinite(mean) else float("inf")


def pose_error_deg(P_01: Pose | None, truth: Pose) -> float:
    """The larger of the angles of rotation and of translation direction, in degrees.

    The convention of MegaDepth-1500: an essential matrix does not determine
    the sign of t, so the second angle is at most 90. A missing pose has an infinite
    error. Both are [R | t], 3 × 4, of any length of t.

    >>> truth = np.eye(3, 4, 0); truth[:, 3] = [1, 0, 0]
    >>> other = truth.copy(); other[:, 3] = [-1, -1, 0]
    >>> round(pose_error_deg(other, truth), 6)
    45.0
    """
    if P_01 is None:
        return float("inf")
    # Half-angle forms keep their digits near 0, where the cosine has none.
    chord = float(np.linalg.norm(P_01[:, :3] - truth[:, :3])) / np.sqrt(8.0)
    turn = 2.0 * np.arcsin(min(1.0, chord))
    a, b = P_01[:, 3], truth[:, 3]
    lean = np.arctan2(np.linalg.norm(np.cross(a, b)), abs(float(a @ b)))
    return float(np.degrees(max(turn, lean)))


def auc(errors: ArrayLike, thresholds: Iterable[float]) -> list[float]:
    """Area under the recall curve up to each threshold, as a share of it.

    The formula of SuperGlue, LoFTR and glue-factory: recall k/N at the k-th error, a
    leading 0, the curve cut at the threshold, trapezoids. Failures are infinite.

    >>> [round(a, 4) for a in auc([0.5, 1.5, 4.0, float("inf")], [1, 3])]
    [0.1875, 0.3958]
    """
    sorted_errors = np.sort(np.asarray(errors, dtype=np.float64))
    if sorted_errors.size == 0 or np.isnan(sorted_errors).any():
        raise InputError(
            "errors must be at least one number and hold no NaN; give a failure as inf."
        )
    recall = np.arange(1, len(sorted_errors) + 1) / len(sorted_errors)
    x, y = np.append(0.0, sorted_errors), np.append(0.0, recall)
    areas = []
    for threshold in thresholds:
        last = int(np.searchsorted(x, threshold))
        cut_x = np.append(x[:last], threshold)
        cut_y = np.append(y[:last], y[last - 1])
        steps = np.diff(cut_x) * (cut_y[1:] + cut_y[:-1]) / 2.0
        areas.append(float(steps.sum() / threshold))
    return areas


def auc_gain(
    before: ArrayLike,
    after: ArrayLike,
    thresholds: Sequence[float],
    seed: int = 0,
    draws: int = 500,
) -> tuple[Vector, Vector]:
    """AUC of `after` less that of `before`, and its standard error, by threshold.

    Both hold the errors of the same pairs; the paired bootstrap draws
    pairs, each with both errors, so that what makes a pair hard cancels.
    """
    errors = np.array([before, after], dtype=np.float64)
    gain = np.subtract(auc(errors[1], thresholds), auc(errors[0], thresholds))
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(draws):
        first, second = errors[:, rng.integers(0, errors.shape[1], errors.shape[1])]
        drawn.append(np.subtract(auc(second, thresholds), auc(first, thresholds)))
    return gain, np.std(drawn, axis=0)


def mass_bins(order_by: PerMatch, bins: int) -> list[IntArray]:
    """Indices of `bins` groups of equal count, from the smallest value up."""
    return [
        g for g in np.array_split(np.argsort(order_by, kind="stable"), bins) if len(g)
    ]


def reliability(
    expected: PerMatch, observed: PerMatch, bins: int = ECE_BINS
) -> tuple[Vector, Vector, Vector]:
    """Mean expected, mean observed and count in equal-mass bins of the expected."""
    groups = mass_bins(expected, bins)
    return (
        np.array([expected[g].mean() for g in groups]),
        np.array([observed[g].mean() for g in groups]),
        np.array([float(len(g)) for g in groups]),
    )


def expected_calibration_error(
    expected: PerMatch, observed: PerMatch, bins: int = ECE_BINS
) -> float:
    """ECE of the expected error in px: Σ n_b/N |mean expected − mean observed|.

    >>> expected, observed = np.array([1.0, 1, 3, 3]), np.array([0.0, 2, 3, 5])
    >>> expected_calibration_error(expected, observed, bins=2)
    0.5
    """
    mean_expected, mean_observed, count = reliability(expected, observed, bins)
    gap = np.abs(mean_expected - mean_observed)
    return float((count * gap).sum() / count.sum())


def spearman(a: PerMatch, b: PerMatch) -> float:
    """Rank correlation; NaN where one of the two is constant.

    >>> spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 20.0, 15.0]))
    0.5
    """
    ra, rb = _ranks(a), _ranks(b)
    ra, rb = ra - ra.mean(), rb - rb.mean()
    norm = float(np.sqrt((ra @ ra) * (rb @ rb)))
    return float(ra @ rb) / norm if norm > 0 else float("nan")


def _ranks(values: PerMatch) -> PerMatch:
    """Ranks from 1, ties sharing their mean (scipy.stats takes a second to import)."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2.0)[place]


def auroc(score: PerMatch, positive: Mask) -> float:
    """Chance that a positive scores above a negative, ties counting half."""
    n_pos = int(positive.sum())
    n_neg = len(positive) - n_pos
    if n_pos == 0 or n_neg == 0:
        return float("nan")
    rank_sum = float(_ranks(score)[positive].sum())
    return (rank_sum - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg)


def auprc(score: PerMatch, positive: Mask) -> float:
    """Average precision: precision at each positive, averaged; ties share a cut."""
    n_pos = int(positive.sum())
    if n_pos == 0:
        return float("nan")
    order = np.argsort(-score, kind="stable")
    hits = np.cumsum(positive[order])
    # A threshold stands only where the score changes.
    last = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)
    precision = hits[last] / (last + 1)
    gained = np.diff(np.append(0, hits[last])) / n_pos
    return float((precision * gained).sum())
