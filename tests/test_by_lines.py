"""The law by what epipolar lines tell: densities by hand, slopes, planted laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

from semisure.calibrate.by_lines import Distances, LineLikelihood, fit_lines, joined
from semisure.geometry import epipolar
from semisure.geometry import pose as se3
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.law.parameters import COARSE, FINE, INTERCEPT, SLOPES, pack
from semisure.refit.line_law import (
    two_laplace,
    two_laplace_beyond,
    two_laplace_slopes,
)
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
from semisure.types import Pose

K = np.array([[520.0, 0, 319.5], [0, 500.0, 239.5], [0, 0, 1]])
TRUTH = pack(EXAMPLE_CALIBRATION)
# Fine scales too small by half, coarse ones twice too large, and a gate that is blind.
WRONG = replace(
    EXAMPLE_CALIBRATION,
    fine_var_gain=(0.2, 0.225),
    coarse_var_gain=(6.0, 4.8),
    spread_slope=0.0,
    doubt_slope=0.5,
    intercept=(-2.5, -2.5),
)
SIDEWAYS = np.column_stack([np.eye(3), [1.0, 0.0, 0.0]])  # all lines are horizontal


def ones(value: float) -> np.ndarray:
    return np.full(1, value)


def views(count: int) -> list[Pose]:
    """Cameras that moved in all directions, so that lines run all ways."""
    rng = np.random.default_rng(0)
    tangents = rng.normal(size=(count, 6)) * [0.05, 0.05, 0.2, 1, 1, 0.3]
    return [epipolar.checked_pose(se3.moved(np.eye(3, 4), t)) for t in tangents]


def distances(P_01: Pose, seed: int, count: int = 2000) -> Distances:
    """Of planted matches from their true lines."""
    matches, _ = SyntheticMatcher().match_views(P_01, K, seed=seed, count=count)
    lines = epipolar.epipolar_lines(P_01, matches, K, K)
    nowhere_off = np.zeros(count)
    return Distances.across(matches, lines.distance, lines.normal, nowhere_off)


@pytest.fixture(scope="module")
def rows() -> Distances:
    return joined([distances(P, seed) for seed, P in enumerate(views(12))])


def test_slopes_of_two_laplace_by_hand() -> None:
    """At d = 0 the density is 1 / (2 (a + b)), whose slopes are −a and −b / (a + b).

    At a = b = 1 it is e^{−d} (1 + d) / 4. Scaling both by c gives p(d/c) / c, so that
    the slopes add up to −1 − d (log p)' = −1 + d² / (1 + d): −1/2 at d = 1, each half.
    """
    p, by_first, by_second = two_laplace_slopes(ones(0), ones(2), ones(1))
    assert p == pytest.approx(1 / 6)
    assert (by_first, by_second) == (pytest.approx(-2 / 3), pytest.approx(-1 / 3))
    p, by_first, by_second = two_laplace_slopes(ones(1), ones(1), ones(1))
    assert p == pytest.approx(np.exp(-1) / 2)
    assert (by_first, by_second) == (pytest.approx(-0.25), pytest.approx(-0.25))


@pytest.mark.parametrize("scales", [(3.0, 0.5), (0.5, 3.0), (1.0, 1.0002), (2.0, 0.0)])
@pytest.mark.parametrize("distance", [0.0, 0.3, -4.0, 50.0])
def test_slopes_are_those_of_the_density(scales, distance: float) -> None:
    first, second = (ones(scale) for scale in scales)
    d = ones(distance)
    p, by_first, by_second = two_laplace_slopes(d, first, second)
    assert p == pytest.approx(two_laplace(d, first, second), rel=1e-12)
    h = 1e-5

    def log_p(a: np.ndarray, b: np.ndarray) -> float:
        return float(np.log(two_laplace(d, a, b))[0])

    up, down = np.exp(h), np.exp(-h)
    slope = (log_p(first * up, second) - log_p(first * down, second)) / (2 * h)
    assert by_first == pytest.approx(slope, abs=1e-6)
    slope = (log_p(first, second * up) - log_p(first, second * down)) / (2 * h)
    assert by_second == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize("scales", [(2.0, 1.0), (1.0, 1.0), (3.0, 0.1)])
def test_what_lies_beyond_is_the_integral(scales) -> None:
    """By hand at scales 2 and 1: (4 e^{−t/2} − e^{−t}) / 3, and 1 at t = 0."""
    first, second = (ones(scale) for scale in scales)
    assert two_laplace_beyond(ones(0), first, second) == pytest.approx(1.0)
    inside = (
        2 * quad(lambda d: float(two_laplace(ones(d), first, second)[0]), 0, 1.5)[0]
    )
    beyond = two_laplace_beyond(ones(1.5), first, second)
    assert beyond == pytest.approx(1.0 - inside, abs=1e-8)
    if scales == (2.0, 1.0):
        assert beyond == pytest.approx((4 * np.exp(-0.75) - np.exp(-1.5)) / 3)


def test_a_residual_is_two_distances() -> None:
    """An axis-parallel line leaves one Laplace mixture: the law's own density."""
    matches, residual = SyntheticMatcher().match(np.eye(3), count=300)
    rows = Distances.of_axes(matches, residual, np.zeros(300))
    log_density, _ = LineLikelihood(rows, TRUTH).scores(TRUTH)
    law = error_law(matches, EXAMPLE_CALIBRATION)
    expected = mixture.log_density(law, residual)
    assert np.allclose(log_density, expected.T.ravel(), atol=1e-6)
    assert len(rows) == 600
    assert rows.weight.sum() == pytest.approx(600)


def test_gradient_is_that_of_the_value(rows: Distances) -> None:
    floored = replace(rows.take(slice(2000)), floor_px=np.full(2000, 0.3))
    likelihood = LineLikelihood(floored, TRUTH)
    at = TRUTH + np.random.default_rng(1).normal(0.0, 0.3, 8)
    _, gradient, curvature = likelihood(at)
    numeric = [
        (likelihood(at + step)[0] - likelihood(at - step)[0]) / 2e-5
        for step in 1e-5 * np.eye(8)
    ]
    assert np.allclose(gradient, numeric, atol=1e-7)
    assert np.linalg.eigvalsh(curvature).min() > 0


def test_all_eight_numbers_are_found_across_lines(rows: Distances) -> None:
    law, best = fit_lines(rows, WRONG)
    assert best.converged
    off = np.abs(pack(law) - TRUTH)
    assert off[FINE].max() < 0.12  # 6 % of a scale
    assert off[COARSE].max() < 0.15
    assert off[SLOPES].max() < 0.08
    assert off[INTERCEPT].max() < 0.2
    assert law.matcher == WRONG.matcher


def test_an_axis_that_no_line_shows_follows_the_other() -> None:
    """The start is wrong by factors of 4 on both axes alike; only y is seen."""
    rows = joined([distances(SIDEWAYS, seed) for seed in range(4)]).weighing(1000)
    law, _ = fit_lines(rows, WRONG)
    before, after = pack(WRONG), pack(law)
    off = np.abs(after - TRUTH)
    assert off[[1, 3]].max() < 0.15  # log b_y, log a_y
    assert off[7] < 0.3
    moved = after - before
    assert moved[0] == pytest.approx(moved[1], abs=0.05)  # x by the same factor
    assert moved[2] == pytest.approx(moved[3], abs=0.05)
    assert moved[6] == pytest.approx(moved[7], abs=0.05)


def test_views_of_known_truth_hold_the_axis_that_no_line_shows() -> None:
    rows = joined([distances(SIDEWAYS, seed) for seed in range(4)]).weighing(1000)
    matches, residual = SyntheticMatcher().match(np.eye(3), seed=9)
    known = Distances.of_axes(matches, residual, np.zeros(len(matches))).weighing(250)
    start = replace(WRONG, fine_var_gain=(4.0, 0.225))  # their ratio is wrong too
    alone, both = fit_lines(rows, start)[0], fit_lines(joined([rows, known]), start)[0]
    assert abs(pack(alone)[0] - TRUTH[0]) > 1.5
    assert abs(pack(both)[0] - TRUTH[0]) < 0.7


def test_what_the_geometry_is_off_is_not_the_matches_fault() -> None:
    """Lines off by two Laplace errors of 1 px: if that is told, the law holds."""
    rng = np.random.default_rng(3)
    parts = []
    for seed, P in enumerate(views(12)):
        rows = distances(P, seed)
        off = rng.laplace(0, 1.0, len(rows)) + rng.laplace(0, 1.0, len(rows))
        parts.append(replace(rows, distance=rows.distance + off))
    moved = joined(parts)
    told = replace(moved, floor_px=np.ones(len(moved)))
    blamed, fair = (pack(fit_lines(rows, WRONG)[0]) for rows in (moved, told))
    assert (blamed[FINE] - TRUTH[FINE]).min() > 1.0
    assert np.abs(fair[FINE] - TRUTH[FINE]).max() < 0.4
