"""How far matches and those around them lie from one affine map."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from semisure.law.neighbours import affine_parallax, departure
from semisure.synthetic import SyntheticMatcher
from semisure.types import Matches, Points

Y, X = np.divmod(np.arange(400), 20)
EVEN = np.ones(400)


def grid(side: int = 1) -> Matches:
    """Matches on a grid of 20 × 20 cells."""
    matches, _ = SyntheticMatcher().match(np.eye(3), count=400)
    points = 8.0 * np.stack([X, Y], axis=1)
    sides = np.full(400, side, dtype=np.int64)
    return replace(matches, source=points, target=points, side=sides)


def turned(points: Points) -> Points:
    """A quarter turn and a zoom by two."""
    return 2.0 * points @ np.array([[0.0, 1.0], [-1.0, 0.0]]) + [100.0, 900.0]


@pytest.mark.parametrize("side", [0, 1])
def test_a_turn_and_a_zoom_leave_no_parallax(side: int) -> None:
    still = grid(side)
    matches = replace(still, target=turned(still.source))
    assert np.abs(affine_parallax(matches, EVEN)).max() < 1e-9


def test_a_slanted_surface_has_no_departures() -> None:
    assert departure(grid(), 0.3 * X - 0.2 * Y, EVEN).max() < 0.03


def test_a_match_that_moves_alone_departs_by_so_much() -> None:
    """By hand: of nine cells, eight neighbours miss by 5 / 8 at most, and slopes."""
    shift = np.zeros(400)
    shift[210] = 5.0
    away = departure(grid(), shift, EVEN)
    assert away[210] == pytest.approx(5.0, abs=1e-6)
    light = np.where(np.arange(400) == 210, 1e-6, 1.0)  # such as one off its line
    away = departure(grid(), shift, light)
    assert away[210] == pytest.approx(5.0, abs=1e-6)
    assert np.delete(away, 210).max() < 0.01


def test_a_depth_edge_is_a_departure_beside_it_only() -> None:
    away = departure(grid(), np.where(X < 10, 0.0, 12.0), EVEN)
    assert away[(X == 9) | (X == 10)].min() > 1.0
    assert away[(X < 9) | (X > 10)].max() < 1e-3


def test_neighbours_that_disagree_vouch_for_little() -> None:
    """±1 px in turn, as on a chessboard, is off its map by 1 and its neighbours are."""
    away = departure(grid(), (-1.0) ** (X + Y), EVEN)
    assert np.median(away) == pytest.approx(np.sqrt(2.0), abs=0.1)


def test_lone_matches_depart_as_the_median_does() -> None:
    matches, _ = SyntheticMatcher().match(np.eye(3), count=3)
    assert not np.any(departure(matches, np.arange(3.0), np.ones(3)))
    assert len(departure(matches.take(slice(0)), np.zeros(0), np.zeros(0))) == 0
    far = grid().source.copy()
    far[0] = [-400.0, -400.0]
    value = np.random.default_rng(0).normal(size=400)
    away = departure(replace(grid(), source=far), value, EVEN)
    assert away[0] == pytest.approx(np.median(away[1:]))


def test_matches_refined_in_different_images_are_not_neighbours() -> None:
    """What is beyond a map in one image is behind it in the other."""
    both = replace(grid(), side=np.arange(400) % 2)
    along = np.where(both.side == 1, 20.0, -20.0)
    assert departure(both, along, EVEN).max() < 1e-3
