"""Keypoints out of semi-dense matches: cells, places, matches."""

from __future__ import annotations

import numpy as np

from semisure.mapping.placement import Links, place


def ring(count: int, shift: np.ndarray) -> Links:
    """A closed ring of keypoints; each match is off by its keypoints' shifts."""
    first, second = np.arange(count), np.roll(np.arange(count), -1)
    maps = np.tile(np.array([[0.8, -0.6], [0.6, 0.8]]), (count, 1, 1))
    maps[-1] = np.linalg.matrix_power(maps[0], -(count - 1))  # round once: no turn left
    return Links(
        first=first,
        second=second,
        map=maps,
        gap=shift[first] - np.einsum("nij,nj->ni", maps, shift[second]),
        precision=np.full(count, 100.0),
        pixel=np.ones(count),
    )


def test_keypoints_go_where_all_matches_agree():
    rng = np.random.default_rng(1)
    links = ring(5, rng.uniform(-1, 1, (5, 2)))
    move, weight = place(links, np.full(5, 10.0))
    # The ring as a whole may slide, so that the gaps and not the moves are known.
    back = np.einsum("nij,nj->ni", links.map, move[links.second])
    assert np.abs(links.gap - (move[links.first] - back)).max() < 0.01
    assert weight.min() > 0.99


def test_a_match_that_the_others_contradict_loses_its_weight():
    links = ring(6, np.zeros((6, 2)))
    both = Links.joined([links, links])  # each said twice, but one once otherwise
    both.gap[3] = [30.0, 0.0]
    _, weight = place(both, np.full(6, 10.0))
    assert weight[3] < 0.05
    assert np.delete(weight, 3).min() > 0.8
