"""Two views: lines, derivatives, the linear fit, and the law across a line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from plain import plain_matches
from semisure.errors import InputError
from semisure.geometry import epipolar
from semisure.geometry import pose as se3
from semisure.geometry.rotations import rotation
from semisure.law.families import GAUSSIAN
from semisure.law.mixture import ErrorLaw, sample
from semisure.refit.lines import BACKGROUND, LineLaw
from semisure.types import FloatArray, Matches

K0 = np.array([[500.0, 0, 320], [0, 510, 240], [0, 0, 1]])
K1 = np.array([[620.0, 0, 310], [0, 600, 250], [0, 0, 1]])


def a_pose(seed: int = 0) -> FloatArray:
    rng = np.random.default_rng(seed)
    t = rng.normal(size=3)
    R = rotation(rng.normal(0, 0.2, 3))
    return np.column_stack([R, t / np.linalg.norm(t)])


def two_views(
    P: FloatArray, count: int = 30, seed: int = 1
) -> tuple[Matches, FloatArray]:
    """Exact matches, refined in image 0 and in image 1 in turn, with depths."""
    rng = np.random.default_rng(seed)
    X = rng.uniform([-2, -2, 4], [2, 2, 9], (count, 3))
    Y = X @ P[:, :3].T + P[:, 3]
    x, y = X @ K0.T, Y @ K1.T
    side = np.arange(count) % 2
    matches = plain_matches(x[:, :2] / x[:, 2:], y[:, :2] / y[:, 2:], side=side)
    return matches, np.where(side == 1, X[:, 2], Y[:, 2])


def moved_points(matches: Matches, seed: int = 2) -> Matches:
    rng = np.random.default_rng(seed)
    return matches.shifted(rng.normal(0, 3, (len(matches), 2)))


def test_sideways_motion_has_horizontal_lines() -> None:
    # X₁ = X₀ + (1, 0, 0), same camera: y stays, whatever the depth. A target 2 px
    # below its row is at distance 2 across the line, wherever it is along it.
    P = np.column_stack([np.eye(3), [1.0, 0.0, 0.0]])
    one = two_views(P)[0].take(np.array([1, 3]))
    row = replace(one, source=[[100.0, 50], [300, 70]], target=[[7.0, 52], [900, 72]])
    lines = epipolar.CalibratedViews(P, K0, K0).lines(row)
    assert np.allclose(np.abs(lines.normal), [[0, 1], [0, 1]])
    assert np.allclose(lines.offset, [[0, 2], [0, 2]])


@pytest.mark.parametrize("seed", range(4))
def test_true_matches_lie_on_their_lines_on_either_side(seed: int) -> None:
    P = a_pose(seed)
    matches, _ = two_views(P)
    assert (
        np.abs(epipolar.CalibratedViews(P, K0, K1).lines(matches).distance).max() < 1e-9
    )
    # F says the same: y ᵀ F x = 0
    one = np.ones((len(matches), 1))
    x, y = np.hstack([matches.source, one]), np.hstack([matches.target, one])
    F = epipolar.fundamental(P, K0, K1)
    assert np.abs(((y @ F) * x).sum(axis=1)).max() < 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_distance_has_the_derivatives_of_finite_differences(seed: int) -> None:
    P = a_pose(seed)
    matches = moved_points(two_views(P)[0])
    views = epipolar.CalibratedViews(P, K0, K1)
    J = views.lines(matches).jacobian
    h = 1e-6
    for k in range(5):
        step = h * np.eye(5)[k]
        ahead, behind = (
            epipolar.CalibratedViews(epipolar.moved(P, s), K0, K1)
            .lines(matches)
            .distance
            for s in (step, -step)
        )
        assert np.allclose(J[:, k], (ahead - behind) / (2 * h), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_reprojection_has_the_derivatives_of_finite_differences(seed: int) -> None:
    P = a_pose(seed)
    matches, depth = two_views(P)
    views = epipolar.CalibratedViews(P, K0, K1)
    exact, _ = se3.reprojection(views, matches, depth, 1.0)
    assert np.abs(exact).max() < 1e-9
    off = epipolar.moved(P, np.array([0.01, -0.02, 0.01, 0.03, 0.02]))
    views = replace(views, P_01=off)
    _, J = se3.reprojection(views, matches, depth, 1.3)
    h = 1e-6
    for k in range(5):
        ahead, behind = (
            se3.reprojection(views.moved(s * h * np.eye(5)[k]), matches, depth, 1.3)[0]
            for s in (1, -1)
        )
        numeric = (ahead - behind) / (2 * h)
        assert np.allclose(J[:, :, k], numeric, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_eight_points_give_the_pose_back(seed: int) -> None:
    P = a_pose(seed)
    matches, _ = two_views(P)
    x0 = epipolar.rays(K0, matches.source)
    x1 = epipolar.rays(K1, matches.target)
    E = epipolar.weighted_eight_point(x0, x1, np.ones(len(x0)))
    assert E is not None
    assert np.allclose(epipolar.pose_in_front(E, x0, x1, np.ones(len(x0))), P)
    # Depths in units of ‖t‖: each ray's point is the other's.
    z0, z1 = epipolar.depths(P, x0, x1)
    X1 = (z0[:, None] * x0) @ P[:, :3].T + P[:, 3]
    assert np.allclose(X1, z1[:, None] * x1)


def test_weight_zero_is_as_good_as_gone_and_planes_are_ambiguous() -> None:
    P = a_pose(0)
    matches, _ = two_views(P, 40)
    x0 = epipolar.rays(K0, matches.source)
    x1 = epipolar.rays(K1, matches.target)
    weight = np.r_[np.ones(20), np.zeros(20)]
    E = epipolar.weighted_eight_point(x0[:20], x1[:20], np.ones(20))
    spoilt = x1.copy()
    spoilt[20:, :2] += 5.0
    F = epipolar.weighted_eight_point(x0, spoilt, weight)
    assert E is not None
    assert F is not None
    E, F = (M / (np.sign(M[0, 0]) * np.linalg.norm(M)) for M in (E, F))
    assert np.allclose(E, F)
    flat = np.column_stack([x0[:, :2], np.ones(40)]) * 6.0 @ P[:, :3].T + P[:, 3]
    on_plane = flat / flat[:, 2:]
    assert epipolar.weighted_eight_point(x0, on_plane, np.ones(40)) is None
    assert epipolar.weighted_eight_point(x0[:7], x1[:7], np.ones(7)) is None


def a_law(n: int = 1, tail_logit: float = 0.0) -> ErrorLaw:
    return ErrorLaw(
        fine_scale=np.tile([0.5, 1.0], (n, 1)),
        coarse_scale=np.tile([8.0, 5.0], (n, 1)),
        tail_logit=np.full((n, 2), tail_logit),
        location=np.zeros((n, 2)),
    )


def across(law: ErrorLaw, angle: float) -> LineLaw:
    n = len(law)
    normal = np.tile([np.cos(angle), np.sin(angle)], (n, 1))
    return LineLaw.across(law, normal, np.full(n, 800.0))


def test_golden_density_of_two_laplace_variables() -> None:
    # Scales a = 2, b = 1, by hand: (2 e^{−d/2} − e^{−d}) / (2 (4 − 1)).
    # At d = 0: 1/6. At d = 2 ln 2: (1 − 1/4)/6 = 1/8.
    # Equal scales a = b = 1: (1 + d) e^{−d} / 4; at d = 0: 1/4, at 1: 1/(2e).
    def density(a: float, b: float, d: float) -> float:
        law = LineLaw(*(np.array([v]) for v in (a, b, 1.0, 0.0)))
        return float(np.exp(law.log_density(np.array([d])))[0])

    assert density(2, 1, 0) == pytest.approx(1 / 6, rel=1e-12)
    assert density(2, 1, 2 * np.log(2)) == pytest.approx(1 / 8, rel=1e-12)
    assert density(1, 1, 0) == pytest.approx(1 / 4, rel=1e-12)
    assert density(1, 1, -1) == pytest.approx(1 / (2 * np.e), rel=1e-12)
    # Through a → b without a break.
    assert density(1 + 1e-9, 1, 1) == pytest.approx(density(1, 1, 1), rel=1e-8)


@given(angle=st.floats(0, 6.3), tail=st.floats(-6, 6), d=st.floats(-60, 60).map(float))
def test_pull_is_the_slope_and_falls_with_distance(
    angle: float, tail: float, d: float
) -> None:
    law = across(a_law(tail_logit=tail), angle)
    at, h = np.array([d]), 1e-5 * max(1.0, abs(d))
    if abs(d) < 0.1:  # a line along an axis leaves one Laplace: a kink at 0
        return
    slope = (law.log_density(at + h) - law.log_density(at - h)) / (2 * h)
    assert np.allclose(-slope / d, law.pull(at), rtol=1e-3, atol=1e-9)
    assert law.pull(1.1 * at) <= law.pull(at) * (1 + 1e-9)


@pytest.mark.parametrize("angle", [0.0, 0.4, 1.2, np.pi / 2, 2.5])
def test_law_across_a_line_is_the_law_of_the_projected_residual(angle: float) -> None:
    law = a_law(40_000, -np.inf)  # cells always right
    drawn = sample(law, np.random.default_rng(3)) @ [np.cos(angle), np.sin(angle)]
    one = across(a_law(1, -np.inf), angle)

    def density(d: float) -> float:
        p = np.exp(one.log_density(np.array([d])))[0]
        return float(p - one.background[0]) / (1.0 - BACKGROUND)

    for lo, hi in ((-1, 0), (0, 2), (2, 20)):
        share = np.mean((drawn > lo) & (drawn < hi))
        assert share == pytest.approx(quad(density, lo, hi)[0], abs=0.01)
    total = quad(density, -60, 0)[0] + quad(density, 0, 60)[0]
    assert total == pytest.approx(1.0, abs=1e-6)


def test_a_doubtful_match_and_a_distant_one_weigh_nothing() -> None:
    # Prior ½ per axis: the peak has 0.98/4. At the line, with scales √(1 + 0.08²) and
    # 0.08, the floor of a diagonal of 800 px, its density is 0.245/2(a + b); the rest
    # is 0.755/800.
    law = across(a_law(tail_logit=0.0), np.pi / 2)
    success, peak = law.coarse_success(np.zeros(1)), 0.1225 / (np.hypot(1, 0.08) + 0.08)
    assert success[0] == pytest.approx(peak / (peak + 0.755 / 800), rel=1e-6)
    assert law.coarse_success(np.full(1, 50.0))[0] < 1e-12
    never = across(a_law(tail_logit=np.inf), 0.3)
    assert never.pull(np.zeros(1))[0] == 0.0


def test_gaussian_laws_are_refused_with_a_reason() -> None:
    with pytest.raises(InputError, match="Laplace"):
        across(replace(a_law(), family=GAUSSIAN), 0.3)


def test_poses_and_intrinsics_from_outside_are_checked() -> None:
    P = a_pose()
    assert np.allclose(epipolar.checked_pose(P * [1, 1, 1, 5]), P)
    with pytest.raises(InputError, match="initial must have t ≠ 0"):
        epipolar.checked_pose(P * [1, 1, 1, 0])
    for bad in (K0[:2], -K0, K0 * 2, K0 * np.nan):
        with pytest.raises(InputError, match="K0 must be"):
            epipolar.checked_intrinsics(bad, "K0")
