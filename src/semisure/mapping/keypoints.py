"""Keypoints of all images of a store, and the matches between them.

Semi-dense matches have no keypoints: in every pair an image is matched at other places.
Structure from motion needs keypoints that several pairs share. As hloc does for dense
matches, the image is cut into cells, a match takes the keypoint next to its point if it
is near enough, and matches are made one to one. Two things are ours: a keypoint is the
mean of the points in its cell, weighted by their precision, where hloc takes the middle
of the most voted bin; and the keypoints are then moved so that all matches agree
(:mod:`semisure.mapping.placement`).

A match is used if the model of its pair explains it. Its points are taken less the
matcher's systematic shift. Its error lives in the image whose point was refined: there
the variance is that of the fine stage, since the model has shown that the coarse cell
was right. The other point is where the matcher was asked to look, without an error of
its own. The error that the matches of a pair share is added to both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from semisure.errors import InputError
from semisure.geometry.lifting import local_maps, nearest
from semisure.law.mixture import STD_FLOOR_PX
from semisure.mapping.placement import Links, place
from semisure.refit.core import without_bias
from semisure.types import (
    Calibration,
    Labels,
    Matches,
    PerAxis,
    PerMatch,
    Points,
    Tick,
    silent,
)
from semisure.types.pair_records import PairRecord, PairSummary, Size

LEAST_WEIGHT = 0.5  # of a match that the model explains
SHARED_PX = 0.05  # standard deviation of an error that the matches of a pair share
WINDOWS_A_CELL = 0.5  # a cell is half the window that the fine stage searched
PIXELS_A_WINDOW = 8.0  # of the image as it was matched
FEWEST = 15  # matches of a pair that is used, as in COLMAP
DISAGREES = 0.2  # weight of a match that the others contradict: 2 px, where 1 is usual
CELLS_A_MOVE = 2.0  # how far keypoints may move, one standard deviation
FIXED_PX = 1e-6  # how far those of a reference may


@dataclass(frozen=True, slots=True, eq=False)
class Keypoints:
    """The keypoints of an image, and how many matches, by confidence, are behind each.

    A pixel of the image as it was matched is `pixel` px of the image.
    """

    points: Points
    votes: PerMatch
    pixel: float = 1.0
    cell_px: float = 1.0  # a match this near to a keypoint takes it
    fixed: bool = False

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True, slots=True, eq=False)
class KeypointPair:
    """A pair, and the keypoints matched between its images."""

    pair: PairSummary
    matches: Labels  # (k, 2) places of keypoints
    score: PerMatch


@dataclass(frozen=True, slots=True, eq=False)
class KeypointMatches:
    """Keypoints by image, and the matches between them."""

    sizes: dict[str, Size]
    keypoints: dict[str, Keypoints]
    pairs: list[KeypointPair]


@dataclass(frozen=True, slots=True, eq=False)
class _Sightings:
    """The matches of a pair that its model explains, less their shift."""

    pair: PairSummary
    matches: Matches
    variance: tuple[PerAxis, PerAxis]  # px² in both images, the shared error included
    score: PerMatch

    def sides(self) -> Iterable[tuple[str, Size, Points, PerAxis]]:
        """Name, size, points and variances of both images."""
        seen, names = self.matches, self.pair.names
        yield names[0], seen.source_size, seen.source, self.variance[0]
        yield names[1], seen.target_size, seen.target, self.variance[1]


def keypoint_matches(
    records: Iterable[PairRecord],
    calibration: Calibration | None,
    *,
    cell_px: float | None = None,
    max_keypoints: int | None = None,
    reference: Mapping[str, Points] | None = None,
    tick: Tick = silent,
    total: int = 0,
) -> KeypointMatches:
    """Keypoints of the images of pairs, and the matches between them.

    `cell_px` is the side of the squares that hold a keypoint each, by default half the
    window of the fine stage. `reference` has the keypoints of images whose keypoints
    are decided already, such as those of a map: they stay, and only other images get
    new ones. `total` is the number of records, for the ticks.
    """
    pairs, window = _sightings(records, calibration, tick, total)
    sizes = {name: size for seen in pairs for name, size, _, _ in seen.sides()}
    parts: dict[str, list[tuple[Points, PerAxis, PerMatch]]] = {n: [] for n in sizes}
    for seen in pairs:
        for name, _, points, variance in seen.sides():
            parts[name].append((points, variance, seen.score))
    keypoints = {}
    for name in sorted(sizes):
        width = window * max(sizes[name])
        cell, stated = cell_px or WINDOWS_A_CELL * width, (reference or {}).get(name)
        points, variance, score = (
            np.concatenate(column) for column in zip(*parts[name], strict=True)
        )
        points, votes = cell_means(points, variance, score, cell)
        best = np.sort(np.argsort(-votes, kind="stable")[:max_keypoints])
        points, votes = points[best], votes[best]
        if stated is not None:
            points, votes = stated, np.ones(len(stated))
        keypoints[name] = Keypoints(
            points, votes, width / PIXELS_A_WINDOW, cell, fixed=stated is not None
        )
    return _agreed(pairs, sizes, keypoints)


def _sightings(
    records: Iterable[PairRecord],
    calibration: Calibration | None,
    tick: Tick,
    total: int,
) -> tuple[list[_Sightings], float]:
    """The pairs to use, and the fine window as a share of the longer side."""
    pairs, windows = [], []
    for done, record in enumerate(records, start=1):
        matches = record.matches
        if matches is not None and len(matches):
            share = matches.fine_window / matches.refined_size.max(axis=1)
            windows.append(np.median(share))
            if record.usable or record.state == "matched":
                pairs.append(_sighted(record, matches, calibration))
        tick(done, max(total, done))
    pairs = [seen for seen in pairs if len(seen.score) >= FEWEST]
    if not pairs:
        raise InputError(
            "No pair of the store has a model that may be right, so that there is "
            "nothing to make keypoints of."
        )
    return pairs, float(np.median(windows))


def _sighted(
    record: PairRecord, matches: Matches, calibration: Calibration | None
) -> _Sightings:
    """The matches of a pair that its model explains; all where it has no model."""
    weight = np.ones(len(matches)) if record.weight is None else record.weight
    if record.fine_scale is None:
        fine = np.maximum(matches.fine_std, STD_FLOOR_PX) ** 2
    else:
        fine = 2.0 * record.fine_scale**2  # Laplace's variance
    kept = weight >= LEAST_WEIGHT
    matches, fine = matches.take(kept), fine[kept]
    if calibration is not None:
        matches, _ = without_bias(matches, calibration)
    first, second = (
        SHARED_PX**2 + np.where(matches.side[:, None] == side, fine, 0.0)
        for side in (0, 1)
    )
    summary = replace(
        record, matches=None, weight=None, expected_px=None, fine_scale=None
    )
    score = matches.confidence * weight[kept]
    return _Sightings(summary, matches, (first, second), score)


def cell_means(
    points: Points, variance: PerAxis, score: PerMatch, cell_px: float
) -> tuple[Points, PerMatch]:
    """One keypoint for each square of `cell_px` that has points, and its votes.

    The keypoint is the mean of the points, each axis weighted by its precision; the
    votes are the sum of the scores.

    >>> x = np.array([[10.0, 5.0], [10.4, 5.0], [20.0, 5.0]])
    >>> variance = np.array([[0.1, 1.0], [0.3, 1.0], [1.0, 1.0]])
    >>> keypoints, votes = cell_means(x, variance, np.ones(3), 8.0)
    >>> keypoints.round(3).tolist(), votes.tolist()  # x of the first two: 3 : 1
    ([[10.1, 5.0], [20.0, 5.0]], [2.0, 1.0])
    """
    # From the corner of the first pixel, so that its square holds it; row by row.
    square = np.floor((points[:, ::-1] + 0.5) / cell_px).astype(np.int64)
    squares, own = np.unique(square, axis=0, return_inverse=True)
    own, corner = own.ravel(), squares[:, ::-1] * cell_px - 0.5
    precision, at = 1.0 / variance, points - corner[own]  # small numbers keep digits
    columns = (*(precision * at).T, *precision.T, score)
    sums = np.stack([np.bincount(own, column, len(squares)) for column in columns])
    x, y, px, py, votes = sums
    return corner + np.stack([x / px, y / py], axis=1), votes


def _agreed(
    pairs: list[_Sightings], sizes: dict[str, Size], keypoints: dict[str, Keypoints]
) -> KeypointMatches:
    """Keypoints where the matches agree, and the matches that do."""
    from scipy.spatial import cKDTree

    trees = {name: cKDTree(found.points) for name, found in keypoints.items()}
    # A point at the radius is near enough.
    reach = {name: found.cell_px * (1 + 1e-12) for name, found in keypoints.items()}
    counts = [len(k) for k in keypoints.values()]
    ends = dict(zip(keypoints, np.cumsum(counts).tolist(), strict=True))
    links, matched = [], []
    for seen in pairs:
        first, second = (
            nearest(trees[name], points, reach[name])
            for name, _, points, _ in seen.sides()
        )
        match, one, other = one_to_one(first, second, seen.score).T
        places = np.stack([one, other], axis=1)
        matched.append(KeypointPair(seen.pair, places, seen.score[match]))
        links.append(_links(seen, match, one, other, keypoints, ends))
    moves = [
        FIXED_PX if k.fixed else CELLS_A_MOVE * k.cell_px for k in keypoints.values()
    ]
    move, weight = place(Links.joined(links), np.repeat(moves, counts))
    moved = {}
    for name, found in keypoints.items():
        own = move[ends[name] - len(found) : ends[name]]
        moved[name] = replace(found, points=found.points + own)
    agreeing = []
    for pair in matched:
        own_weight, weight = np.split(weight, [len(pair.matches)])
        kept = own_weight >= DISAGREES
        if kept.sum() >= FEWEST:
            agreeing.append(
                KeypointPair(pair.pair, pair.matches[kept], pair.score[kept])
            )
    return KeypointMatches(sizes, moved, agreeing)


def _links(
    seen: _Sightings,
    match: Labels,
    one: Labels,
    other: Labels,
    keypoints: Mapping[str, Keypoints],
    ends: Mapping[str, int],
) -> Links:
    """What the matches of a pair say about the places of their keypoints."""
    image0, image1 = seen.pair.names
    first, second = keypoints[image0], keypoints[image1]
    maps = local_maps(seen.matches, match)
    offset = seen.matches.target[match] - second.points[other]
    gap = seen.matches.source[match] - first.points[one]
    gap -= np.einsum("nij,nj->ni", maps, offset)
    carried = np.einsum("nij,nj->ni", maps**2, seen.variance[1][match])
    variance = (seen.variance[0][match] + carried).mean(axis=1)
    return Links(
        first=ends[image0] - len(first) + one,
        second=ends[image1] - len(second) + other,
        map=maps,
        gap=gap,
        precision=1.0 / variance,
        pixel=np.full(len(match), first.pixel),
    )


def one_to_one(first: Labels, second: Labels, score: PerMatch) -> Labels:
    """Matches whose keypoints prefer each other: (k, 3), the match and both keypoints.

    `first` and `second` (n,) are the keypoints of each match, −1 where it has none. Of
    the matches of a keypoint the one with the highest score counts, in both images, as
    in hloc.

    >>> first, second = np.array([0, 0, 1, -1]), np.array([5, 6, 6, 7])
    >>> one_to_one(first, second, np.array([0.9, 0.5, 0.6, 1.0])).tolist()
    [[0, 0, 5], [2, 1, 6]]
    """
    here = np.flatnonzero((first >= 0) & (second >= 0))
    order = here[np.argsort(-score[here], kind="stable")]
    best = np.intersect1d(_first_of(first, order), _first_of(second, order))
    best = best[np.argsort(first[best])]
    return np.stack([best, first[best], second[best]], axis=1).astype(np.int64)


def _first_of(labels: Labels, order: Labels) -> Labels:
    _, first = np.unique(labels[order], return_index=True)
    return order[first]
