"""Keypoints of all images of a store, and the matches between them.

Semi-dense matches have no keypoints: each pair of an image has matches at other points.
Structure from motion needs keypoints that several pairs share. As hloc does for dense
matches, the image is cut into cells, a match takes the keypoint next to its point if it
is near enough, and matches are made one to one. Two things are ours: a keypoint is the
mean of the points in its cell, weighted by their precision, where hloc takes the middle
of the most voted bin; and the keypoints are then moved so that all matches agree
(:mod:`semisure.mapping.placement`).

A match is used if the model of its pair explains it, less the matcher's systematic
shift. Its error lives in the image whose point was refined: there the variance is that
of the fine stage, since the model has shown that the coarse cell was right. The other
point, for which the matcher searched a partner, has no error of its own. The error that
the matches of a pair share is added to both.
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
FIXED_PX = 1e-6  # the same for those of a reference


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
class _Side:
    """One image of a pair and the points in it."""

    name: str
    size: Size
    points: Points
    variance: PerAxis  # px², the shared error included


@dataclass(frozen=True, slots=True, eq=False)
class _ExplainedPair:
    """The matches of a pair that its model explains, less their shift."""

    pair: PairSummary
    matches: Matches
    score: PerMatch
    sides: tuple[_Side, _Side]


def keypoint_matches(
    records: Iterable[PairRecord],
    calibration: Calibration | None,
    *,
    max_keypoints: int | None = None,
    reference: Mapping[str, Points] | None = None,
    tick: Tick = silent,
    total: int = 0,
) -> KeypointMatches:
    """Keypoints of the images of pairs, and the matches between them.

    Each square of half the fine stage's window has one; the `max_keypoints` most voted
    ones of an image are kept. `reference` has the keypoints of some images, such as
    those of a map: these stay, and only other images get new ones. `total` is
    the number of records, for the ticks.
    """
    pairs, window = _explained_pairs(records, calibration, tick, total)
    parts: dict[str, list[tuple[_Side, PerMatch]]] = {}
    for pair in pairs:
        for side in pair.sides:
            parts.setdefault(side.name, []).append((side, pair.score))
    sizes = {name: part[0][0].size for name, part in parts.items()}
    keypoints = {}
    for name, size in sorted(sizes.items()):
        width = window * max(size)
        pixel, cell = width / PIXELS_A_WINDOW, WINDOWS_A_CELL * width
        base = (reference or {}).get(name)
        if base is not None:
            once = np.ones(len(base))
            keypoints[name] = Keypoints(base, once, pixel, cell, fixed=True)
            continue
        points, votes = cell_means(
            np.concatenate([side.points for side, _ in parts[name]]),
            np.concatenate([side.variance for side, _ in parts[name]]),
            np.concatenate([score for _, score in parts[name]]),
            cell,
        )
        best = np.sort(np.argsort(-votes, kind="stable")[:max_keypoints])
        keypoints[name] = Keypoints(points[best], votes[best], pixel, cell)
    return _agreed(pairs, sizes, keypoints)


def _explained_pairs(
    records: Iterable[PairRecord],
    calibration: Calibration | None,
    tick: Tick,
    total: int,
) -> tuple[list[_ExplainedPair], float]:
    """The pairs to use, and the fine window as a share of the longer side."""
    pairs, windows = [], []
    for done, record in enumerate(records, start=1):
        matches = record.matches
        if matches is not None and len(matches):
            share = matches.fine_window / matches.refined_size.max(axis=1)
            windows.append(np.median(share))
            if record.usable or record.state == "matched":
                pairs.append(_explained(record, matches, calibration))
        tick(done, max(total, done))
    pairs = [pair for pair in pairs if len(pair.score) >= FEWEST]
    if not pairs:
        raise InputError(
            "No pair of the store has a model that may be right, so that there is "
            "nothing to make keypoints of."
        )
    return pairs, float(np.median(windows))


def _explained(
    record: PairRecord, matches: Matches, calibration: Calibration | None
) -> _ExplainedPair:
    """The matches of a pair that its model explains; all where it has no model."""
    weight = np.ones(len(matches)) if record.weight is None else record.weight
    if record.fine_scale is None:
        fine = np.maximum(matches.fine_std, STD_FLOOR_PX) ** 2
    else:
        fine = 2.0 * record.fine_scale**2  # Laplace's variance
    mask = weight >= LEAST_WEIGHT
    matches, fine = matches.take(mask), fine[mask]
    if calibration is not None:
        matches, _ = without_bias(matches, calibration)
    score, refined = matches.confidence * weight[mask], matches.side[:, None]
    own0, own1 = (
        SHARED_PX**2 + np.where(refined == image, fine, 0.0) for image in (0, 1)
    )
    sides = (
        _Side(record.image0, matches.source_size, matches.source, own0),
        _Side(record.image1, matches.target_size, matches.target, own1),
    )
    return _ExplainedPair(record.summary(), matches, score, sides)


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
    pairs: list[_ExplainedPair], sizes: dict[str, Size], keypoints: dict[str, Keypoints]
) -> KeypointMatches:
    """Keypoints where the matches agree, and the matches that do."""
    from scipy.spatial import cKDTree

    trees = {name: cKDTree(image.points) for name, image in keypoints.items()}
    # A point at the radius is near enough.
    reach = {name: image.cell_px * (1 + 1e-12) for name, image in keypoints.items()}
    counts = [len(k) for k in keypoints.values()]
    ends = dict(zip(keypoints, np.cumsum(counts).tolist(), strict=True))
    links, matched = [], []
    for pair in pairs:
        first, second = (
            nearest(trees[side.name], side.points, reach[side.name])
            for side in pair.sides
        )
        match, one, other = one_to_one(first, second, pair.score).T
        places = np.stack([one, other], axis=1)
        matched.append(KeypointPair(pair.pair, places, pair.score[match]))
        links.append(_links(pair, match, one, other, keypoints, ends))
    moves = [
        FIXED_PX if k.fixed else CELLS_A_MOVE * k.cell_px for k in keypoints.values()
    ]
    move, weight = place(Links.joined(links), np.repeat(moves, counts))
    moved = {}
    for name, image in keypoints.items():
        own = move[ends[name] - len(image) : ends[name]]
        moved[name] = replace(image, points=image.points + own)
    agreeing = []
    for one in matched:
        own_weight, weight = np.split(weight, [len(one.matches)])
        mask = own_weight >= DISAGREES
        if mask.sum() >= FEWEST:
            agreeing.append(KeypointPair(one.pair, one.matches[mask], one.score[mask]))
    return KeypointMatches(sizes, moved, agreeing)


def _links(
    pair: _ExplainedPair,
    match: Labels,
    one: Labels,
    other: Labels,
    keypoints: Mapping[str, Keypoints],
    ends: Mapping[str, int],
) -> Links:
    """The matches of a pair as links between their keypoints."""
    image0, image1 = pair.pair.names
    first, second = keypoints[image0], keypoints[image1]
    maps = local_maps(pair.matches, match)
    offset = pair.matches.target[match] - second.points[other]
    gap = pair.matches.source[match] - first.points[one]
    gap -= np.einsum("nij,nj->ni", maps, offset)
    carried = np.einsum("nij,nj->ni", maps**2, pair.sides[1].variance[match])
    variance = (pair.sides[0].variance[match] + carried).mean(axis=1)
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
    rows = np.flatnonzero((first >= 0) & (second >= 0))
    order = rows[np.argsort(-score[rows], kind="stable")]
    best = np.intersect1d(_first_of(first, order), _first_of(second, order))
    best = best[np.argsort(first[best])]
    return np.stack([best, first[best], second[best]], axis=1).astype(np.int64)


def _first_of(labels: Labels, order: Labels) -> Labels:
    _, first = np.unique(labels[order], return_index=True)
    return order[first]
