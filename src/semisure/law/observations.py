"""What a law is fitted to: matches whose true error is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

import numpy as np

from semisure.errors import InputError
from semisure.geometry.homography import capped
from semisure.types import Index, Labels, Matches, PerAxis, PerMatch
from semisure.types.checks import MAX_PX, as_reals, within_px
from semisure.types.matches import require_matches

BLOCK_ROWS = 8_192  # matches whose temporaries stay in a core's cache


@dataclass(frozen=True, slots=True, eq=False)
class Observations:
    """Matches whose true error is known, stacked over image pairs."""

    residual: PerAxis  # px, predicted − reference
    fine_std: PerAxis  # px
    coarse_std: PerAxis  # px
    spread: PerAxis  # % of the image side
    doubt: PerMatch  # nats
    fine_window: PerMatch  # px
    pair: Labels  # index of the image pair

    def __len__(self) -> int:
        return len(self.residual)

    def shift_px(self, location: tuple[float, float]) -> PerAxis:
        """What a location, in fine windows, is in pixels of each refined point."""
        return np.outer(location, self.fine_window).T

    def take(self, index: Index) -> Observations:
        """A view of the rows that `index` picks."""
        return Observations(*(getattr(self, f.name)[index] for f in fields(self)))

    def blocks(self, rows: int = BLOCK_ROWS) -> Iterator[Observations]:
        """Views of consecutive rows, so that a pass needs no n-sized temporaries."""
        for begin in range(0, len(self), rows):
            yield self.take(slice(begin, begin + rows))


def observe(pairs: Iterable[tuple[Matches, PerAxis]]) -> Observations:
    """Stack (matches, residual) of each pair; an infinite residual raises.

    Residuals longer than the image's diagonal are cut to it.
    """
    parts = [_observe_one(i, *_parted(pair)) for i, pair in enumerate(pairs)]
    if not parts:
        raise InputError("A calibration needs at least one image pair, but got none.")
    names = [f.name for f in fields(Observations)]
    return Observations(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in names)
    )


def _parted(pair: tuple[Matches, PerAxis]) -> tuple[Matches, PerAxis]:
    """Matches and residual of a pair; raises for matches alone, which people pass."""
    if isinstance(pair, tuple | list) and len(pair) == 2:
        require_matches(pair[0])
        return pair[0], pair[1]
    raise InputError(
        "pairs must be a list of (matches, residual), one for each image pair, but "
        f"holds a {type(pair).__name__}. For one pair: fit([(matches, residual)])."
    )


def _observe_one(index: int, matches: Matches, residual: PerAxis) -> Observations:
    residual = as_reals(f"residual of pair {index}", residual)
    if residual.shape != matches.target.shape:
        raise InputError(
            f"residual of pair {index} must have shape {matches.target.shape}, "
            f"one row per match, but has {residual.shape}."
        )
    bad = ~within_px(residual)
    if bad.any():
        raise InputError(
            f"residual of pair {index} must be finite and within ±{MAX_PX:g} px, but "
            f"{int(bad.sum())} of {len(bad)} rows are not; first: match "
            f"{int(np.flatnonzero(bad)[0])}. Leave out matches without ground truth."
        )
    return Observations(
        np.asfortranarray(capped(residual, matches)),  # as matches' arrays are
        matches.fine_std,
        matches.coarse_std,
        matches.spread,
        matches.doubt,
        matches.fine_window,
        np.full(len(matches), index, dtype=np.int64),
    )
