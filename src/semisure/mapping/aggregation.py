"""Keypoints of all images of a store, and the matches between them, in two passes.

The first pass over the pairs collects votes and makes the keypoints; the second gives
each match the keypoints next to its points. With ``placement="tracks"`` the keypoints
are then moved so that all matches agree (:mod:`semisure.mapping.placement`), which
keeps the links in memory, some 600 bytes a match; with ``"mean"`` pairs stream through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Literal, get_args

import numpy as np

from semisure.errors import InputError
from semisure.geometry.lifting import local_maps
from semisure.mapping.keypoints import (
    Grid,
    Keypoints,
    Nearest,
    Votes,
    floored,
    one_to_one,
)
from semisure.mapping.placement import PULL, Links, Placed, place
from semisure.mapping.sightings import SHARED_PX, Sightings, sighted
from semisure.types import (
    Calibration,
    FloatArray,
    Labels,
    PerMatch,
    Points,
    Tick,
    silent,
)
from semisure.types.pair_records import ModelKind, PairRecord, Size

Placement = Literal["tracks", "mean"]
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)
WINDOWS_A_CELL = 0.5  # a cell is half the window that the fine stage searched
PIXELS_A_WINDOW = 8.0  # of the image as it was matched
SAMPLED = 32  # pairs that tell the window
FEWEST = 15  # matches of a pair that is used, as in COLMAP
DISAGREES = 0.2  # weight of a match that the others contradict: 2 px, where 1 is usual

Records = Callable[[], Iterable[PairRecord]]


CELLS_PX = 0.01, 1e6  # finer than any match, wider than any image


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregationSettings:
    """How matches become keypoints."""

    cell_px: float | None = None  # of the image; by default half the fine window
    placement: Placement = "tracks"
    max_keypoints: int | None = None  # of an image, the most voted

    def __post_init__(self) -> None:
        low, high = CELLS_PX
        if self.cell_px is not None and not low <= self.cell_px <= high:
            raise InputError(
                f"cell_px must lie between {low:g} and {high:g}, but is "
                f"{self.cell_px:g}."
            )
        if self.max_keypoints is not None and self.max_keypoints < 1:
            raise InputError(
                f"max_keypoints must be at least 1, but is {self.max_keypoints}."
            )


@dataclass(frozen=True, slots=True, eq=False)
class KeypointPair:
    """Two images, the keypoints matched between them, and the model behind it."""

    image0: str
    image1: str
    matches: Labels  # (k, 2) places of keypoints
    score: PerMatch
    kind: ModelKind | None = None
    model: FloatArray | None = None
    cameras: tuple[FloatArray, FloatArray] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Aggregated:
    """Keypoints by image, and the pairs; these may be gone through once."""

    sizes: dict[str, Size]
    keypoints: dict[str, Keypoints]
    pairs: Iterable[KeypointPair]


@dataclass(eq=False)
class Aggregator:
    """Keypoints out of the records of a store.

    `reference` has the keypoints of images whose keypoints are decided already, such
    as those of a map: they stay, and only other images get new ones.
    """

    records: Records  # called for each pass
    calibration: Calibration | None
    settings: AggregationSettings = field(default_factory=AggregationSettings)
    reference: Mapping[str, Points] = field(default_factory=dict)
    tick: Tick = silent
    total: int = 0  # pairs, for the ticks
    window: float = field(default=0.0, init=False)  # of the fine stage / longer side

    def __call__(self) -> Aggregated:
        self.window = self.usual_window()
        sizes, votes = self._votes()
        if not sizes:
            raise InputError(
                "No pair of the store has a model that may be right, so that there is "
                "nothing to make keypoints of."
            )
        keypoints = {
            name: Keypoints.fixed(self.reference[name])
            if name in self.reference
            else votes[name].keypoints(SHARED_PX, self.settings.max_keypoints)
            for name in sorted(sizes)
        }
        if self.settings.placement == "mean":
            return Aggregated(sizes, keypoints, self._assigned(sizes, keypoints))
        return _Tracks(self, sizes, keypoints).placed()

    def usual_window(self) -> float:
        """The window of the fine stage as a share of the longer side, by some pairs."""
        shares = [
            np.median(m.fine_window / m.refined_size.max(axis=1))
            for m in (record.matches for record in islice(self.records(), SAMPLED))
            if m is not None and len(m)
        ]
        return float(np.median(shares)) if shares else 1.0

    def grid(self, size: Size) -> Grid:
        """Cells, bins and radius for an image."""
        cell = self.settings.cell_px or WINDOWS_A_CELL * self.window * max(size)
        return Grid(cell_px=cell, bin_px=cell, radius_px=cell)

    def used(self) -> Iterator[tuple[PairRecord, Sightings]]:
        """The pairs that are worth it, with the matches that are."""
        for done, record in enumerate(self.records(), start=1):
            if record.usable or record.state == "matched":
                seen = sighted(record, self.calibration)
                if len(seen) >= FEWEST:
                    yield record, seen
            self.tick(done, max(self.total, done))

    def _votes(self) -> tuple[dict[str, Size], dict[str, Votes]]:
        """Sizes and votes, by image."""
        sizes: dict[str, Size] = {}
        votes: dict[str, Votes] = {}
        for record, seen in self.used():
            for side, name in enumerate(record.names):
                size = (seen.matches.source_size, seen.matches.target_size)[side]
                sizes[name] = size
                if name not in votes:
                    votes[name] = Votes(self.grid(size))
                points = (seen.matches.source, seen.matches.target)[side]
                votes[name].add(points, seen.variance[side], seen.score)
        return sizes, votes

    def assigned(
        self, sizes: Mapping[str, Size], keypoints: Mapping[str, Keypoints]
    ) -> Iterator[tuple[PairRecord, Sightings, Labels]]:
        """Pairs with the matches that get keypoints, and those: (k, 3) places.

        The columns are the match and its keypoints in both images.
        """
        nearest = {
            name: Nearest(found.points, self.grid(sizes[name]).radius_px)
            for name, found in keypoints.items()
        }
        for record, seen in self.used():
            first = nearest[record.image0](seen.matches.source)
            second = nearest[record.image1](seen.matches.target)
            yield record, seen, one_to_one(first, second, seen.score)

    def _assigned(
        self, sizes: Mapping[str, Size], keypoints: Mapping[str, Keypoints]
    ) -> Iterator[KeypointPair]:
        for record, seen, chosen in self.assigned(sizes, keypoints):
            yield _pair(record, chosen[:, 1:], seen.score[chosen[:, 0]])


def _pair(record: PairRecord, matches: Labels, score: PerMatch) -> KeypointPair:
    return KeypointPair(
        *record.names, matches, score, record.kind, record.model, record.cameras
    )


class _Tracks:
    """The second pass with all links kept, and the keypoints placed by them."""

    def __init__(
        self,
        source: Aggregator,
        sizes: dict[str, Size],
        keypoints: dict[str, Keypoints],
    ) -> None:
        self.source, self.sizes, self.keypoints = source, sizes, keypoints
        counts = [len(found) for found in keypoints.values()]
        starts = np.concatenate([[0], np.cumsum(counts)])
        self.start = dict(zip(keypoints, starts.tolist(), strict=False))
        self.count = int(starts[-1])
        self.scale = {
            name: source.window * max(size) / PIXELS_A_WINDOW
            for name, size in sizes.items()
        }

    def placed(self) -> Aggregated:
        pairs: list[KeypointPair] = []
        parts: list[Links] = []
        for record, seen, chosen in self.source.assigned(self.sizes, self.keypoints):
            parts.append(self._links(record, seen, chosen))
            pairs.append(_pair(record, chosen[:, 1:], seen.score[chosen[:, 0]]))
        links = Links.joined(parts)
        placed = place(links, self._expected_moves())
        return Aggregated(
            self.sizes,
            self._moved(links, placed),
            list(_agreeing(pairs, placed.weight)),
        )

    def _links(self, record: PairRecord, seen: Sightings, chosen: Labels) -> Links:
        match, first, second = chosen.T
        maps = local_maps(seen.matches, match)
        to_first = self.keypoints[record.image0].points[first]
        to_second = self.keypoints[record.image1].points[second]
        offset = seen.matches.target[match] - to_second
        gap = seen.matches.source[match] - to_first
        gap -= np.einsum("nij,nj->ni", maps, offset)
        carried = np.einsum("nij,nj->ni", maps**2, seen.variance[1][match])
        variance = (seen.variance[0][match] + carried).mean(axis=1)
        return Links(
            (self.start[record.image0] + first).astype(np.int64),
            (self.start[record.image1] + second).astype(np.int64),
            maps,
            gap,
            1.0 / variance,
            np.full(len(match), self.scale[record.image0]),
        )

    def _expected_moves(self) -> PerMatch:
        """A share of the radius; keypoints of a reference stay where they are."""
        grids = {name: self.source.grid(size) for name, size in self.sizes.items()}
        moves = [
            np.full(
                len(found),
                1e-6 if name in self.source.reference else PULL * grids[name].radius_px,
            )
            for name, found in self.keypoints.items()
        ]
        return np.concatenate(moves)

    def _moved(self, links: Links, placed: Placed) -> dict[str, Keypoints]:
        covariance = _covariances(links, placed, self.count)
        moved = {}
        for name, found in self.keypoints.items():
            own = slice(self.start[name], self.start[name] + len(found))
            moved[name] = replace(
                found,
                points=found.points + placed.move[own],
                covariance=floored(covariance[own], SHARED_PX),
            )
        return moved


def _covariances(links: Links, placed: Placed, count: int) -> FloatArray:
    """Of each keypoint: by the precision of its matches, and by how they disagree."""
    weight = placed.weight * links.precision
    total = np.zeros(count)
    scatter = np.zeros((count, 3))
    other = np.linalg.solve(links.map, placed.gap[:, :, None])[:, :, 0]
    for keypoint, gap in ((links.first, placed.gap), (links.second, other)):
        total += np.bincount(keypoint, weight, count)
        squares = (gap[:, 0] ** 2, gap[:, 0] * gap[:, 1], gap[:, 1] ** 2)
        for column, square in enumerate(squares):
            scatter[:, column] += np.bincount(keypoint, weight * square, count)
    seen = total > 0
    total[~seen] = np.nan  # of a keypoint without matches nothing is known
    xx, xy, yy = (scatter / total[:, None]).T
    covariance = np.stack([xx, xy, xy, yy], axis=1).reshape(-1, 2, 2)
    return covariance + np.eye(2) / total[:, None, None]


def _agreeing(pairs: list[KeypointPair], weight: PerMatch) -> Iterator[KeypointPair]:
    """The pairs without the matches that the others contradict."""
    start = 0
    for pair in pairs:
        stop = start + len(pair.matches)
        kept = weight[start:stop] >= DISAGREES
        start = stop
        if kept.sum() >= FEWEST:
            yield replace(pair, matches=pair.matches[kept], score=pair.score[kept])
