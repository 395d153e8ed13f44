"""2D–3D matches: points of a query image and where they lie in the world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from semisure.errors import InputError
from semisure.types.arrays import (
    FloatArray,
    Index,
    PerAxis,
    PerMatch,
    Points,
    Points3,
)
from semisure.types.checks import MAX_WORLD, as_floats, as_size, require, require_px
from semisure.types.display import counted, size_text
from semisure.types.matches import (
    Matches,
    default_window,
    picked_rows,
    unchecked,
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WorldMatches:
    """Query points, the world points they show, and the matcher's cues for them.

    The cues describe the query's points: it is the refined side. Pixels are ours
    (centres at integers), world points are in whatever unit the map has. `map_error`
    is the scale of a world point's own error, seen in the query. `shift_map` takes a
    shift of the refined point to the query's pixels: the identity where the query's
    point was refined, −A (in query pixels per unit of the window) where the mapped one
    was.

    >>> matches = WorldMatches(
    ...     points=np.zeros((2, 2)), world=np.ones((2, 3)), confidence=[0.9, 0.5],
    ...     fine_std=np.ones((2, 2)), coarse_std=np.full((2, 2), 20.0),
    ...     size=(640, 480))
    >>> matches, matches.refined_size.tolist()
    (WorldMatches(2 matches, query of 640 × 480 px), [[640.0, 480.0]])
    """

    points: Points  # px in the query
    world: Points3
    confidence: PerMatch  # in (0, 1]
    fine_std: PerAxis  # px
    coarse_std: PerAxis  # px
    size: tuple[int, int]  # width, height of the query
    fine_window: PerMatch = field(default_factory=default_window)  # px
    map_error: PerMatch = field(default_factory=lambda: np.array(0.0))  # px
    shift_map: FloatArray = field(default_factory=lambda: np.eye(2))  # (n, 2, 2)

    doubt: PerMatch = field(init=False, repr=False)  # −log m, nats

    def __post_init__(self) -> None:
        # The same arrays are the same claims about one image: checked in one place.
        image = Matches(
            source=self.points,
            target=self.points,
            confidence=self.confidence,
            fine_std=self.fine_std,
            coarse_std=self.coarse_std,
            source_size=as_size("size", self.size),
            target_size=as_size("size", self.size),
            fine_window=self.fine_window,
        )
        world = as_floats("world", self.world, (len(image), 3))
        near = np.abs(world) <= MAX_WORLD
        require("world", world, near, f"lie within ±{MAX_WORLD:g}", "Use other units.")
        n = len(image)
        error = as_floats("map_error", np.broadcast_to(self.map_error, (n,)), (n,))
        if (error < 0).any():
            raise InputError("map_error must not be negative; it is a scale in px.")
        object.__setattr__(self, "map_error", error)
        maps = np.broadcast_to(self.shift_map, (n, 2, 2))
        object.__setattr__(self, "shift_map", as_floats("shift_map", maps, (n, 2, 2)))
        object.__setattr__(self, "points", image.source)
        object.__setattr__(self, "world", world)
        object.__setattr__(self, "size", image.source_size)
        for name in ("confidence", "fine_std", "coarse_std", "fine_window", "doubt"):
            object.__setattr__(self, name, getattr(image, name))

    def __repr__(self) -> str:
        many = counted(len(self), "match", "matches")
        return f"WorldMatches({many}, query of {size_text(self.size)} px)"

    def __len__(self) -> int:
        return len(self.points)

    @property
    def refined_size(self) -> FloatArray:
        """Width and height of the query, (1, 2) px: the paper's D."""
        return np.array([self.size], dtype=np.float64)

    @property
    def spread(self) -> PerAxis:
        """Coarse std in percent of the query's sides."""
        return self.coarse_std * (100.0 / self.refined_size)

    def shift_px(self, location: tuple[float, float]) -> PerAxis:
        """What a location, in fine windows, is in pixels of each query point."""
        windows = self.fine_window[:, None] * np.array(location)
        return np.einsum("nij,nj->ni", self.shift_map, windows)

    def take(self, index: Index) -> WorldMatches:
        """The matches that `index` (a mask, a slice or positions) picks."""
        return unchecked(self, picked_rows(self, (*_ARRAYS, "doubt"), index))

    def shifted(self, shift: PerAxis) -> WorldMatches:
        """The matches with `shift` (n, 2) px added to each query point."""
        points = self.points + shift
        require_px("points", points)
        return unchecked(self, {"points": points})

    @classmethod
    def joined(cls, parts: Sequence[WorldMatches]) -> WorldMatches:
        """All matches of one query, from however many database images."""
        if len({part.size for part in parts}) != 1:
            sizes = sorted({part.size for part in parts})
            raise InputError(f"Matches of one query have one size, but have {sizes}.")
        arrays = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in _ARRAYS
        }
        return cls(size=parts[0].size, **arrays)


_ARRAYS = (
    "points",
    "world",
    "confidence",
    "fine_std",
    "coarse_std",
    "fine_window",
    "map_error",
    "shift_map",
)
