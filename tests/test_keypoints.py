"""Keypoints out of semi-dense matches: votes, places, covariances, matches."""

from __future__ import annotations

import numpy as np
import pytest

from semisure.errors import InputError
from semisure.mapping.keypoints import Grid, Nearest, Votes, one_to_one
from semisure.mapping.placement import Links, place

GRID = Grid(cell_px=8.0, bin_px=2.0, radius_px=2.0)


def voted(points, variance=0.1, score=1.0, grid=GRID):
    votes = Votes(grid)
    points = np.asarray(points, float)
    spread = np.broadcast_to(np.asarray(variance, float), points.shape)
    votes.add(points, np.array(spread), np.full(len(points), score))
    return votes


def test_a_cell_keeps_the_bin_with_most_votes():
    # Pixels −0.5 to 7.5 are the first cell; its bins are 2 px wide.
    kept = voted([[2.0, 2.0], [2.2, 2.0], [6.0, 6.0]]).keypoints()
    assert len(kept) == 1
    assert kept.votes.tolist() == [2.0]
    np.testing.assert_allclose(kept.points, [[2.1, 2.0]])


def test_a_high_score_outvotes_two_low_ones():
    votes = voted([[2.0, 2.0], [2.2, 2.0]], score=0.3)
    votes.add(np.array([[6.0, 6.0]]), np.full((1, 2), 0.1), np.array([0.9]))
    np.testing.assert_allclose(votes.keypoints().points, [[6.0, 6.0]])


def test_cells_begin_at_the_corner_of_the_first_pixel():
    assert len(voted([[-0.4, 0.0], [7.4, 0.0]]).keypoints()) == 1
    assert len(voted([[7.4, 0.0], [7.6, 0.0]]).keypoints()) == 2


def test_each_axis_is_averaged_by_its_own_precision():
    # x: variances 0.1 and 0.3 weigh 3 : 1; y: 0.3 and 0.1 weigh 1 : 3.
    kept = voted([[2.0, 2.0], [2.4, 2.4]], [[0.1, 0.3], [0.3, 0.1]]).keypoints()
    np.testing.assert_allclose(kept.points, [[2.1, 2.3]])


def test_a_covariance_is_that_of_the_mean_of_the_bin_and_of_the_shared_error():
    # Mean of two: 0.1 / 2. About it: 0.2² on x, nothing on y. Shared: 0.5².
    kept = voted([[2.0, 2.0], [2.4, 2.0]], 0.1).keypoints(floor_px=0.5)
    np.testing.assert_allclose(
        kept.covariance, [np.diag([0.05 + 0.04, 0.05]) + 0.25 * np.eye(2)]
    )


def test_points_along_a_diagonal_have_a_correlation():
    kept = voted([[2.0, 2.0], [2.4, 2.4]], 0.1).keypoints()
    np.testing.assert_allclose(kept.covariance[0, 0, 1], 0.04)
    assert np.linalg.eigvalsh(kept.covariance[0])[0] > 0


def test_votes_that_came_in_parts_are_the_votes_of_the_whole(monkeypatch):
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 60, (500, 2))
    whole = voted(points).keypoints()
    monkeypatch.setattr("semisure.mapping.keypoints._WAITING", 7)
    parts = Votes(GRID)
    for part in np.split(points, 50):
        parts.add(part, np.full((10, 2), 0.1), np.ones(10))
    for name in ("points", "covariance", "votes"):
        np.testing.assert_allclose(
            getattr(parts.keypoints(), name), getattr(whole, name), atol=1e-12
        )


def test_no_more_keypoints_than_wanted_and_the_most_voted_ones():
    votes = voted([[2.0, 2.0], [2.1, 2.0], [20.0, 2.0], [40.0, 2.0], [40.1, 2.0]])
    kept = votes.keypoints(max_count=2)
    np.testing.assert_allclose(kept.points[:, 0], [2.05, 40.05])


def test_no_points_are_no_keypoints():
    assert len(Votes(GRID).keypoints()) == 0
    assert Nearest(np.zeros((0, 2)), 2.0)(np.zeros((3, 2))).tolist() == [-1, -1, -1]


def test_matches_are_one_to_one_and_the_best_of_both_images():
    first, second = np.array([0, 0, 1, 2, -1]), np.array([3, 4, 4, 5, 6])
    score = np.array([0.5, 0.9, 0.8, 0.7, 1.0])
    # 0–4 beats 0–3 and 1–4; nothing is left for 1, though 1–4 was its only match.
    assert one_to_one(first, second, score).tolist() == [[1, 0, 4], [3, 2, 5]]


def test_a_grid_must_make_sense():
    with pytest.raises(InputError, match="no larger than a cell"):
        Grid(cell_px=2.0, bin_px=4.0, radius_px=1.0)


def track(count: int, shift: np.ndarray) -> Links:
    """A closed ring of keypoints; each match is off by its keypoints' shifts."""
    first, second = np.arange(count), np.roll(np.arange(count), -1)
    maps = np.tile(np.array([[0.8, -0.6], [0.6, 0.8]]), (count, 1, 1))
    maps[-1] = np.linalg.matrix_power(maps[0], -(count - 1))  # round once: no turn left
    gap = shift[first] - np.einsum("nij,nj->ni", maps, shift[second])
    return Links(first, second, maps, gap, np.full(count, 100.0), np.ones(count))


def test_keypoints_go_where_all_matches_agree():
    rng = np.random.default_rng(1)
    shift = rng.uniform(-1, 1, (5, 2))
    placed = place(track(5, shift), np.full(5, 10.0))
    # The ring as a whole may slide, so that the gaps and not the moves are known.
    assert np.abs(placed.gap).max() < 0.01
    assert placed.weight.min() > 0.99


def test_a_match_that_the_others_contradict_loses_its_weight():
    links = track(6, np.zeros((6, 2)))
    both = Links.joined([links, links])  # each said twice, but one once otherwise
    both.gap[3] = [30.0, 0.0]
    placed = place(both, np.full(6, 10.0))
    assert placed.weight[3] < 0.05
    assert np.delete(placed.weight, 3).min() > 0.8


def test_a_keypoint_that_must_stay_stays():
    links = Links(
        *(np.array([0]), np.array([1]), np.eye(2)[None]),
        *(np.array([[1.0, 0.0]]), np.array([100.0]), np.ones(1)),
    )
    placed = place(links, np.array([1e-6, 10.0]))
    np.testing.assert_allclose(placed.move, [[0, 0], [-1, 0]], atol=1e-3)
