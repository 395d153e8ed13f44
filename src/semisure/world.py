"""2D–3D matches: points of a query image and where they lie in the world."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from semisure.errors import InputError
from semisure.types import (
    DEFAULT_FINE_WINDOW_PX,
    FloatArray,
    Index,
    IntArray,
    Matches,
    _as_floats,
    _as_size,
)

# Where nobody says: the median of the views that calibrations are made on.
TYPICAL_VIEW_CHANGE = 0.4


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WorldMatches:
    """Query points, the world points they show, and the matcher's cues for them.

    The cues describe the query's points: it is the refined side. Pixels are ours
    (centres at integers), world points are in whatever unit the map has. `map_error`
    is the scale of a world point's own error, seen in the query; `group` tells the
    mapped images apart that the points came through, and `view_change` how unlike the
    query they are: ‖A − I‖ of the local map A between them.
    """

    points: FloatArray  # (n, 2) px in the query
    world: FloatArray  # (n, 3)
    confidence: FloatArray  # (n,) in (0, 1]
    fine_std: FloatArray  # (n, 2) px
    coarse_std: FloatArray  # (n, 2) px
    size: tuple[int, int]  # width, height of the query
    fine_window: FloatArray = DEFAULT_FINE_WINDOW_PX  # type: ignore[assignment]  # (n,) px
    map_error: FloatArray = 0.0  # type: ignore[assignment]  # (n,) px, of the world point
    view_change: FloatArray = TYPICAL_VIEW_CHANGE  # type: ignore[assignment]  # (n,)
    group: IntArray = 0  # type: ignore[assignment]  # (n,) which mapped image it is from

    doubt: FloatArray = field(init=False, repr=False)  # (n,) −log m, nats

    def __post_init__(self) -> None:
        # The same arrays are the same claims about one image: checked in one place.
        image = Matches(
            source=self.points,
            target=self.points,
            confidence=self.confidence,
            fine_std=self.fine_std,
            coarse_std=self.coarse_std,
            source_size=_as_size("size", self.size),
            target_size=_as_size("size", self.size),
            fine_window=self.fine_window,
        )
        world = _as_floats("world", self.world, (len(image), 3))
        for name, told in (
            ("map_error", "it is a scale in px"),
            ("view_change", "it is a norm"),
        ):
            given = np.broadcast_to(getattr(self, name), (len(image),))
            values = _as_floats(name, given, (len(image),))
            if (values < 0).any():
                raise InputError(f"{name} must not be negative; {told}.")
            object.__setattr__(self, name, values)
        group = np.broadcast_to(np.asarray(self.group, dtype=np.int64), (len(image),))
        object.__setattr__(self, "group", group)
        object.__setattr__(self, "points", image.source)
        object.__setattr__(self, "world", world)
        object.__setattr__(self, "size", image.source_size)
        for name in ("confidence", "fine_std", "coarse_std", "fine_window", "doubt"):
            object.__setattr__(self, name, getattr(image, name))

    def __len__(self) -> int:
        return len(self.points)

    @property
    def refined_size(self) -> FloatArray:
        """Width and height of the query, (1, 2) px: the paper's D."""
        return np.array([self.size], dtype=np.float64)

    @property
    def spread(self) -> FloatArray:
        """Coarse std in percent of the query's sides, (n, 2)."""
        return self.coarse_std * (100.0 / self.refined_size)

    def take(self, index: Index) -> WorldMatches:
        """The matches that `index` (a mask or positions) picks."""
        return replace(self, **{name: getattr(self, name)[index] for name in _ARRAYS})

    def shifted(self, offset: FloatArray) -> WorldMatches:
        """The matches with `offset` (n, 2) px added to each query point."""
        return replace(self, points=self.points + offset)

    @classmethod
    def joined(cls, parts: Sequence[WorldMatches]) -> WorldMatches:
        """All matches of one query, from however many database images."""
        if len({part.size for part in parts}) != 1:
            sizes = sorted({part.size for part in parts})
            raise InputError(f"Matches of one query have one size, but have {sizes}.")
        arrays = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in _ARRAYS[:-1]
        }
        lengths = [len(part) for part in parts]
        group = np.repeat(np.arange(len(parts)), lengths)
        return cls(size=parts[0].size, group=group, **arrays)


_ARRAYS = (
    "points",
    "world",
    "confidence",
    "fine_std",
    "coarse_std",
    "fine_window",
    "map_error",
    "view_change",
    "group",
)
