"""Keypoints of an image out of the semi-dense matches of all its pairs.

Semi-dense matches have no keypoints: in every pair an image is matched at other places.
Structure from motion needs keypoints that several pairs share. As hloc does for dense
matches, each cell of the image keeps the bin that got most votes, a match takes the
keypoint next to its point if it is near enough, and matches are made one to one. Two
things are ours: the keypoint is the mean of the points in its bin, weighted by their
precision, where hloc takes the middle of the bin; and it has a covariance.

That covariance has three parts: of the mean, by the precisions; of the bin, since its
points are different points of the scene; and a floor for the error that all matches
of a pair share, which no mean reduces.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure.errors import InputError
from semisure.types import (
    FloatArray,
    Index,
    Labels,
    PerAxis,
    PerMatch,
    Points,
)

_WAITING = 1 << 16  # points that are collected before they are summed by bins
# votes; precision of x and y; their products with x and y; by the mean precision of
# both axes: x, y, xx, xy, yy
_SUMS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """How points of an image become keypoints; lengths in its pixels.

    >>> Grid(cell_px=8.0, bin_px=2.0, radius_px=2.0).cell_px
    8.0
    """

    cell_px: float = 1.0  # at most one keypoint in each square of this side
    bin_px: float = 1.0  # points in a square of this side are averaged
    radius_px: float = 1.0  # a match this near to a keypoint takes it

    def __post_init__(self) -> None:
        if not 0 < self.bin_px <= self.cell_px or not self.radius_px > 0:
            raise InputError(
                "Cells, bins and radius must be positive, and a bin no larger than a "
                f"cell, but they are {self.cell_px:g}, {self.bin_px:g} and "
                f"{self.radius_px:g} px."
            )

    def scaled(self, factor: float) -> Grid:
        """The same grid for an image that was matched at 1 / `factor` of its size."""
        return Grid(
            cell_px=self.cell_px * factor,
            bin_px=self.bin_px * factor,
            radius_px=self.radius_px * factor,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Keypoints:
    """The keypoints of an image, their 2 × 2 covariances and their votes."""

    points: Points
    covariance: FloatArray  # (k, 2, 2) px²
    votes: PerMatch

    def __len__(self) -> int:
        return len(self.points)

    def take(self, index: Index) -> Keypoints:
        return Keypoints(self.points[index], self.covariance[index], self.votes[index])

    @classmethod
    def fixed(cls, points: Points) -> Keypoints:
        """Keypoints whose places are given; nothing is known of their errors."""
        unknown = np.full((len(points), 2, 2), np.nan)
        return cls(np.asarray(points, np.float64), unknown, np.ones(len(points)))


class Votes:
    """Sums over the points of one image, by bins; points come pair by pair.

    >>> votes = Votes(Grid(cell_px=8.0, bin_px=2.0, radius_px=2.0))
    >>> for x, variance in ((10.0, 0.1), (10.4, 0.3), (14.0, 0.1)):
    ...     votes.add(np.array([[x, 5.0]]), np.full((1, 2), variance), np.ones(1))
    >>> kept = votes.keypoints()
    >>> kept.points.round(3), kept.votes  # two of three; 3 : 1 by precision
    (array([[10.1,  5. ]]), array([2.]))
    """

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._keys = np.zeros((0, 4), np.int64)  # cell and bin, columns and rows
        self._sums = np.zeros((0, _SUMS))
        self._waiting: list[tuple[FloatArray, ...]] = []
        self._waiting_count = 0

    def add(self, points: Points, variance: PerAxis, score: PerMatch) -> None:
        """Count points (n, 2) px with their variances per axis and their votes."""
        self._waiting.append((points, variance, score))
        self._waiting_count += len(points)
        if self._waiting_count >= _WAITING:
            self._summarise()

    def keypoints(
        self, floor_px: float = 0.0, max_count: int | None = None
    ) -> Keypoints:
        """The winner of each cell, the most voted first if only some are wanted."""
        self._summarise()
        cells = self._keys[:, :2]
        order = np.lexsort((-self._sums[:, 0], cells[:, 0], cells[:, 1]))
        first = np.ones(len(order), bool)
        first[1:] = (np.diff(cells[order], axis=0) != 0).any(axis=1)
        chosen = order[first]
        keypoints = self._placed(chosen, floor_px)
        if max_count is not None and len(keypoints) > max_count:
            best = np.argsort(-keypoints.votes, kind="stable")[:max_count]
            keypoints = keypoints.take(np.sort(best))
        return keypoints

    def _placed(self, chosen: Labels, floor_px: float) -> Keypoints:
        votes, px, py, sx, sy, *moments = self._sums[chosen].T
        mean = np.stack([sx / px, sy / py], axis=1)
        x, y, xx, xy, yy = np.array(moments) / (0.5 * (px + py))
        covariance = np.empty((len(chosen), 2, 2))
        # Of the mean, and of the points about it: they are different points.
        covariance[:, 0, 0] = 1.0 / px + np.maximum(xx - x * x, 0.0)
        covariance[:, 1, 1] = 1.0 / py + np.maximum(yy - y * y, 0.0)
        covariance[:, 0, 1] = covariance[:, 1, 0] = xy - x * y
        points = self._corner(self._keys[chosen, 2:]) + mean
        return Keypoints(points, floored(covariance, floor_px), votes)

    def _corner(self, bins: Labels) -> Points:
        return bins * self.grid.bin_px - 0.5

    def _summarise(self) -> None:
        """Sum up what waits: one row for each bin that was hit."""
        if not self._waiting:
            return
        points, variance, score = (
            np.concatenate(parts) for parts in zip(*self._waiting, strict=True)
        )
        self._waiting, self._waiting_count = [], 0
        keys, sums = self._rows(points, variance, score)
        keys = np.concatenate([self._keys, keys])
        sums = np.concatenate([self._sums, sums])
        self._keys, place = np.unique(keys, axis=0, return_inverse=True)
        self._sums = np.stack(
            [np.bincount(place.ravel(), column, len(self._keys)) for column in sums.T],
            axis=1,
        )

    def _rows(
        self, points: Points, variance: PerAxis, score: PerMatch
    ) -> tuple[Labels, FloatArray]:
        # From the corner of the first pixel, so that its square holds it.
        cells = np.floor((points + 0.5) / self.grid.cell_px).astype(np.int64)
        bins = np.floor((points + 0.5) / self.grid.bin_px).astype(np.int64)
        at = points - self._corner(bins)  # small numbers keep their digits
        precision = 1.0 / variance
        both = precision.mean(axis=1, keepdims=True)
        x, y = at.T
        moments = both * np.stack([x, y, x * x, x * y, y * y], axis=1)
        sums = np.hstack([score[:, None], precision, precision * at, moments])
        return np.hstack([cells, bins]), sums


def floored(covariance: FloatArray, floor_px: float) -> FloatArray:
    """Covariances (k, 2, 2) with the variance of the shared error added.

    >>> floored(np.array([[[1.0, 0.5], [0.5, 2.0]]]), 0.5).tolist()
    [[[1.25, 0.5], [0.5, 2.25]]]
    """
    return covariance + floor_px**2 * np.eye(2)


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


class Nearest:
    """Finds the keypoint next to each point, or −1 if none is near enough.

    >>> Nearest(np.array([[3.0, 4.0], [9.0, 9.0]]), 2.0)(np.array([[4.0, 4], [6, 6]]))
    array([ 0, -1])
    """

    def __init__(self, keypoints: Points, radius_px: float) -> None:
        from scipy.spatial import cKDTree

        self.radius_px = radius_px
        self._tree = cKDTree(keypoints) if len(keypoints) else None

    def __call__(self, points: Points) -> Labels:
        if self._tree is None or not len(points):
            return np.full(len(points), -1, np.int64)
        distance, place = self._tree.query(
            points, distance_upper_bound=self.radius_px * (1 + 1e-12)
        )
        return np.where(np.isfinite(distance), place, -1).astype(np.int64)
