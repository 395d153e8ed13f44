"""The matches of two images, or of an image and a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from semisure.errors import InputError
from semisure.types.arrays import (
    Array,
    CellMaps,
    FloatArray,
    Index,
    Labels,
    Mask,
    PerAxis,
    PerMatch,
    Points,
    Points3,
)
from semisure.types.checks import (
    MAX_WORLD,
    as_floats,
    as_reals,
    as_size,
    put,
    require,
    require_kind,
    require_px,
)
from semisure.types.display import as_dataframe, counted, from_report, size_text

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from pandas import DataFrame

DEFAULT_FINE_WINDOW_PX = 8.0  # the coarse cell of every matcher of the paper
CELL_EDGE = 1e-9  # of half a cell: rounding must not exclude the edge

Rows = TypeVar("Rows", bound="DataclassInstance")  # matches of either kind


def _window() -> FloatArray:
    """The default window; one number stands for all matches."""
    return np.array(DEFAULT_FINE_WINDOW_PX)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Matches:
    """The matches of one image pair, with the matcher's cues.

    `side` says which image's point was refined, so which image the standard
    deviations, residuals and scales of a match live in: 0 or 1, one for all or
    one for each match. `fine_window` is the side in px of the window that the
    fine stage searched; a calibrated location is measured in it. `cell` is the cell
    that the coarse stage chose, where the matcher has one: [A | c], the affine map
    that takes the square from −1 to 1 on both axes to the cell in the refined image.

    >>> import numpy as np
    >>> matches = Matches(
    ...     source=np.zeros((3, 2)), target=np.ones((3, 2)),
    ...     confidence=[0.9, 0.5, 0.1], fine_std=np.ones((3, 2)),
    ...     coarse_std=np.full((3, 2), 20.0),
    ...     source_size=(640, 480), target_size=(640, 480))
    >>> matches
    Matches(3 matches, 640 × 480 to 640 × 480 px, refined in image 1)
    >>> matches[matches.confidence > 0.2]
    Matches(2 matches, 640 × 480 to 640 × 480 px, refined in image 1)
    """

    source: Points  # px, image 0
    target: Points  # px, image 1
    confidence: PerMatch  # in (0, 1]
    fine_std: PerAxis  # px, on the refined side
    coarse_std: PerAxis  # px, on the refined side
    source_size: tuple[int, int]  # width, height
    target_size: tuple[int, int]  # width, height
    side: Labels = field(default_factory=lambda: np.array(1))  # 0 or 1
    fine_window: PerMatch = field(default_factory=_window)  # px
    cell: CellMaps | None = None  # px of the refined image

    doubt: PerMatch = field(init=False, repr=False)  # −log m, nats

    def __post_init__(self) -> None:
        n = len(np.atleast_1d(as_reals("source", self.source)))
        for name, shape in _ARRAY_SHAPES.items():
            values = getattr(self, name)
            if name in ("side", "fine_window") and not as_reals(name, values).ndim:
                values = np.full(n, values)
            if values is not None or name != "cell":
                put(self, **{name: as_floats(name, values, (n, *shape))})
        for name in ("source_size", "target_size"):
            put(self, **{name: as_size(name, getattr(self, name))})
        self._check_ranges()
        put(self, side=self.side.astype(np.int64), doubt=-np.log(self.confidence))

    def _check_ranges(self) -> None:
        for name in ("source", "target", "fine_std", "coarse_std", "fine_window"):
            require_px(name, getattr(self, name))
        m, window = self.confidence, self.fine_window
        advice = "Raw scores need a softmax first; give an underflow to 0 a tiny value."
        require("confidence", m, (m > 0) & (m <= 1), "lie in (0, 1]", advice)
        advice = "It is a standard deviation in px; a variance's root."
        for name in ("fine_std", "coarse_std"):
            std = getattr(self, name)
            require(name, std, std >= 0, "not be negative", advice)
        advice = "It names the image whose point was refined."
        require("side", self.side, np.isin(self.side, (0, 1)), "be 0 or 1", advice)
        require("fine_window", window, window > 0, "be positive", "It is a size in px.")
        if self.cell is not None:
            area = np.linalg.det(self.cell[:, :, :2])
            advice = "Its first two columns are half its sides, as vectors in px."
            require("cell", self.cell, area != 0, "have an area", advice)

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: Index | int | list[int] | list[bool]) -> Matches:
        """The matches that a mask, positions, a slice or one position picks."""
        return self.take(np.atleast_1d(np.arange(len(self))[index]))

    def __repr__(self) -> str:
        sides = sorted({*self.side.tolist()})
        refined = f", refined in image {' or '.join(map(str, sides))}" if sides else ""
        sizes = f"{size_text(self.source_size)} to {size_text(self.target_size)} px"
        return f"Matches({counted(len(self), 'match', 'matches')}, {sizes}{refined})"

    def columns(self) -> dict[str, Array]:
        """Each number of the matches as a column, under its name in a CSV file."""
        return columns_of({name: getattr(self, name) for name in _TABLE})

    def to_dataframe(self) -> DataFrame:
        """The matches as a table of pandas, one row a match."""
        return as_dataframe(self.columns())

    def plot(
        self,
        image0: ArrayLike | None = None,
        image1: ArrayLike | None = None,
        *,
        color: ArrayLike | None = None,
    ) -> Any:
        """A matplotlib figure of the matches, on the images where they are given.

        Lines are coloured by `color`, one number a match (px, such as an expected
        error); without it, by the raw standard deviation of the fine stage.
        """
        return from_report("figure_of_matches")(self, image0, image1, color)

    @property
    def refined_size(self) -> FloatArray:
        """Width and height of the refined image, (n, 2) px: the paper's D.

        One row, (1, 2), where the same image was refined throughout.
        """
        sizes = np.array([self.source_size, self.target_size], dtype=np.float64)
        first = self.side[:1]
        return sizes[first if (self.side == first).all() else self.side]

    @property
    def spread(self) -> PerAxis:
        """Coarse std in percent of the refined image's sides, (n, 2)."""
        return self.coarse_std * (100.0 / self.refined_size)

    @property
    def refined(self) -> Points:
        """The refined point of each match, px in its own image."""
        return np.where(self.side[:, None] == 1, self.target, self.source)

    def in_cell(self, points: Points) -> Mask | None:
        """Which points, one for each match, lie in its cell; None without cells."""
        if self.cell is None:
            return None
        offset = (points - self.cell[:, :, 2])[:, :, None]
        inside = np.abs(np.linalg.solve(self.cell[:, :, :2], offset)[:, :, 0])
        return np.asarray((inside <= 1.0 + CELL_EDGE).all(axis=1))

    def shift_px(self, location: tuple[float, float]) -> PerAxis:
        """What a location, in fine windows, is in pixels of each refined point."""
        return self.fine_window[:, None] * np.array(location)

    def take(self, index: Index) -> Matches:
        """The matches that `index` (a mask, a slice or positions) picks."""
        return _taken(self, index)

    def swapped(self) -> Matches:
        """The same matches with images 0 and 1 exchanged."""
        return replace(
            self,
            source=self.target,
            target=self.source,
            source_size=self.target_size,
            target_size=self.source_size,
            side=1 - self.side,
        )

    def shifted(self, shift: PerAxis) -> Matches:
        """The matches with `shift` (n, 2) px added to each refined point."""
        on_target = (self.side == 1)[:, None]
        return replace(
            self,
            source=self.source + np.where(on_target, 0.0, shift),
            target=self.target + np.where(on_target, shift, 0.0),
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
    fine_window: PerMatch = field(default_factory=_window)  # px
    map_error: PerMatch = field(default_factory=lambda: np.array(0.0))  # px
    shift_map: FloatArray = field(default_factory=lambda: np.eye(2))  # (n, 2, 2)

    doubt: PerMatch = field(init=False, repr=False)  # −log m, nats

    def __post_init__(self) -> None:
        # `Matches` checks the arrays that both classes have.
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
        n = len(image)
        world = as_floats("world", self.world, (n, 3))
        near = np.abs(world) <= MAX_WORLD
        require("world", world, near, f"lie within ±{MAX_WORLD:g}", "Use other units.")
        error = as_floats("map_error", np.broadcast_to(self.map_error, (n,)), (n,))
        if (error < 0).any():
            raise InputError("map_error must not be negative; it is a scale in px.")
        maps = np.broadcast_to(self.shift_map, (n, 2, 2))
        maps = as_floats("shift_map", maps, (n, 2, 2))
        put(self, points=image.source, world=world, map_error=error, shift_map=maps)
        for name in ("confidence", "fine_std", "coarse_std", "fine_window", "doubt"):
            put(self, **{name: getattr(image, name)})
        put(self, size=image.source_size)

    def __repr__(self) -> str:
        count = counted(len(self), "match", "matches")
        return f"WorldMatches({count}, query of {size_text(self.size)} px)"

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
        return _taken(self, index)

    def shifted(self, shift: PerAxis) -> WorldMatches:
        """The matches with `shift` (n, 2) px added to each query point."""
        return replace(self, points=self.points + shift)

    @classmethod
    def joined(cls, parts: Sequence[WorldMatches]) -> WorldMatches:
        """All matches of one query, from several database images."""
        if len({part.size for part in parts}) != 1:
            sizes = sorted({part.size for part in parts})
            raise InputError(f"Matches of one query have one size, but have {sizes}.")
        names = [f.name for f in fields(cls) if f.init and f.name != "size"]
        return cls(
            size=parts[0].size,
            **{k: np.concatenate([getattr(part, k) for part in parts]) for k in names},
        )


def _taken(rows: Rows, index: Index) -> Rows:
    """The rows that `index` (a mask, a slice or positions) picks."""
    arrays = {f.name: getattr(rows, f.name) for f in fields(rows) if f.init}
    picked = {k: a[index] for k, a in arrays.items() if isinstance(a, np.ndarray)}
    return replace(rows, **picked)


_ARRAY_SHAPES: dict[str, tuple[int, ...]] = {
    "source": (2,),
    "target": (2,),
    "confidence": (),
    "fine_std": (2,),
    "coarse_std": (2,),
    "side": (),
    "fine_window": (),
    "cell": (2, 3),
}


# The columns of a CSV file and of a table, for each array.
COLUMN_NAMES: dict[str, tuple[str, ...]] = {
    "source": ("x0", "y0"),
    "target": ("x1", "y1"),
    "confidence": ("confidence",),
    "fine_std": ("fine_std_x", "fine_std_y"),
    "coarse_std": ("coarse_std_x", "coarse_std_y"),
    "side": ("side",),
    "fine_window": ("fine_window",),
    "cell": ("cell_xx", "cell_xy", "cell_x", "cell_yx", "cell_yy", "cell_y"),
    "residual": ("residual_x", "residual_y"),
}
_TABLE = ("source", "target", "confidence", "fine_std", "coarse_std", "side")


def columns_of(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays cut into columns, in their order, under the names of a CSV file."""
    columns: dict[str, Array] = {}
    for name, array in arrays.items():
        flat = array.reshape(len(array), int(np.prod(array.shape[1:])))
        names = COLUMN_NAMES.get(name, (name,))
        columns.update(zip(names, flat.T, strict=True))
    return columns


def require_matches(matches: object) -> None:
    """Raise unless they are matches; people pass points, or a file's name."""
    advice = (
        "Read a file with semisure.load_matches(path)."
        if isinstance(matches, str)
        else "It is what a matcher returns, or semisure.Matches(source=…, …)."
    )
    require_kind("matches", matches, Matches, advice)


class Cues(Protocol):
    """The raw cues of n matches, as error laws read them."""

    @property
    def fine_std(self) -> PerAxis: ...
    @property
    def coarse_std(self) -> PerAxis: ...
    @property
    def spread(self) -> PerAxis: ...
    @property
    def doubt(self) -> PerMatch: ...
    def shift_px(self, location: tuple[float, float]) -> PerAxis: ...


@runtime_checkable
class Matcher(Protocol):
    """Anything that turns two images, (h, w) or (h, w, 3) uint8, into matches."""

    def __call__(
        self, image0: NDArray[np.uint8], image1: NDArray[np.uint8]
    ) -> Matches: ...
