"""Homographies: projection, residuals, the weighted DLT, the Gauss–Newton step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plain import plain_matches
from semisure.geometry.homography import (
    corners,
    defect,
    inverse,
    jacobian,
    mirrors,
    project,
    residual,
    true_residual,
    weighted_dlt,
)
from semisure.synthetic import SyntheticMatcher, random_homography
from semisure.types import FloatArray, Matches


def exact(H: FloatArray, n: int = 60, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    source = np.random.default_rng(seed).uniform([0, 0], [640, 480], (n, 2))
    return source, project(H, source)


@given(st.integers(0, 2**32 - 1))
def test_dlt_recovers_an_exact_homography(seed: int) -> None:
    H = random_homography(np.random.default_rng(seed), strength=0.2)
    source, target = exact(H, seed=seed)
    fitted = weighted_dlt(source, target, np.ones(len(source)))
    assert fitted is not None
    assert (
        np.abs(
            project(fitted, corners((640, 480))) - project(H, corners((640, 480)))
        ).max()
        < 1e-6
    )


def test_weight_two_is_the_row_twice(matches: Matches) -> None:
    weight = np.ones(len(matches))
    weight[:100] = 2
    twice = np.concatenate([np.arange(len(matches)), np.arange(100)])
    a = weighted_dlt(matches.source, matches.target, weight)
    b = weighted_dlt(matches.source[twice], matches.target[twice], np.ones(len(twice)))
    assert np.allclose(a, b, rtol=0, atol=1e-9)


def test_weight_zero_is_the_row_gone(matches: Matches) -> None:
    # Also in the normalisation: outliers of weight zero must not move the frame.
    weight = np.ones(len(matches))
    weight[::3] = 0
    far = matches.target.copy()
    far[::3] += 1e4
    kept = weight > 0
    a = weighted_dlt(matches.source, far, weight)
    b = weighted_dlt(matches.source[kept], matches.target[kept], weight[kept])
    assert np.allclose(a, b, rtol=0, atol=1e-9)


@given(st.floats(0.1, 10), st.floats(-3, 3), st.floats(-1e3, 1e3))
def test_dlt_is_equivariant_under_similarities(scale, angle, shift) -> None:
    matches, _ = SyntheticMatcher().match(np.eye(3), count=200, seed=1)
    c, s = scale * np.cos(angle), scale * np.sin(angle)
    S = np.array([[c, -s, shift], [s, c, -shift], [0, 0, 1]])
    weight = matches.confidence
    H = weighted_dlt(matches.source, matches.target, weight)
    moved = weighted_dlt(project(S, matches.source), project(S, matches.target), weight)
    assert H is not None
    assert moved is not None
    back = inverse(S) @ moved @ S
    frame = corners((640, 480))
    assert np.abs(project(back, frame) - project(H, frame)).max() < 1e-5


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (np.zeros((10, 2)), "one point ten times"),
        (np.linspace(0, 1, 10)[:, None] * [3.0, 4.0], "a line"),
        (np.repeat(np.array([[0.0, 0], [1, 0], [0, 1]]), 4, axis=0), "three points"),
    ],
)
def test_degenerate_points_give_no_homography(source: FloatArray, why: str) -> None:
    assert weighted_dlt(source, source + 1.0, np.ones(len(source))) is None, why


def test_jacobian_matches_finite_differences() -> None:
    H = random_homography(np.random.default_rng(1))
    points, _ = exact(H, 20)
    J = jacobian(H, points)
    h = 1e-4
    for axis in (0, 1):
        step = np.zeros(2)
        step[axis] = h
        numeric = (project(H, points + step) - project(H, points - step)) / (2 * h)
        assert J[:, :, axis] == pytest.approx(numeric, abs=1e-7)


def test_residual_of_the_source_side_is_measured_in_image_0(matches: Matches) -> None:
    H = random_homography(np.random.default_rng(2))
    swapped = matches.swapped()
    assert np.allclose(residual(H, matches), residual(inverse(H), swapped))
    mixed = replace(matches, side=np.arange(len(matches)) % 2)
    both = residual(H, mixed)
    forward = residual(H, replace(matches, side=1))
    backward = residual(H, replace(matches, side=0))
    assert np.array_equal(both[1::2], forward[1::2])
    assert np.array_equal(both[0::2], backward[0::2])


def test_no_true_residual_is_longer_than_the_diagonal() -> None:
    # x = 0 stays, x = 310 at the depth 1/32 is sent to x = 9920, x = 320 is on the
    # horizon, and x = 400 behind it, at the depth −1/4, is sent to x = −1600.
    H = np.array([[1.0, 0, 0], [0, 1, 0], [-1 / 320, 0, 1]])
    source = np.array([[0.0, 0], [310, 0], [320, 0], [400, 0]])
    matches = plain_matches(source, source)
    diagonal = 800.0
    r = true_residual(H, matches)
    assert np.allclose(r[[0, 1, 3]], [[0, 0], [-diagonal, 0], [diagonal, 0]])
    assert np.allclose(r[2], diagonal / np.sqrt(2))


def test_defects_are_named() -> None:
    size = (640, 480)
    assert defect(np.eye(3), size) is None
    assert defect(np.full((3, 3), np.nan), size) == "it is not finite"
    horizon = np.array([[1, 0, 0], [0, 1, 0], [-1 / 320, 0, 1.0]])
    assert defect(horizon, size) == "it turns the image inside out"
    assert defect(np.diag([1e-3, 1e-3, 1.0]), size) == "it collapses the image"
    assert not mirrors(np.eye(3))
    assert mirrors(np.diag([-1.0, 1.0, 1.0]))
