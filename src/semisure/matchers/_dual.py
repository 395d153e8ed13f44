"""Dual softmax over coarse cells in tiles: the N × N matrix is never stored.

The confidence of cells i and j is softmax over j times softmax over i of their
similarity s; in logarithms 2 s − rowsum − columnsum. One sweep over tiles of rows
gathers both sums, and on the way how far each row's softmax spreads over image 1, which
is the coarse cue; a second sweep finds the mutual maxima.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from semisure.matchers._cues import TILE_ENTRIES, TILE_ROWS, single, wide
from semisure.matchers._stopwatch import extraction


class Cells(NamedTuple):
    """Coarse features, scaled so that products are logits, and the grids they fill."""

    f0: Tensor  # (n0, c)
    f1: Tensor  # (n1, c)
    size0: tuple[int, int]  # rows and columns
    size1: tuple[int, int]


class CellMatches(NamedTuple):
    """Pairs of cells."""

    index0: Tensor  # (m,)
    index1: Tensor  # (m,)
    confidence: Tensor  # (m,) of the dual softmax
    spread: Tensor  # (m, 2) std in cells, x and y, of the softmax over image 1


def taken(matches: CellMatches, which: Tensor) -> CellMatches:
    """Some of the pairs, by mask or index; the spread may be on another device."""
    return CellMatches(*(t[which.to(t.device)] for t in matches))


class _Best(NamedTuple):
    """The dual softmax seen from image 0's cells, and the best of image 1's."""

    value: Tensor  # (n0,) log confidence of each row's best
    column: Tensor  # (n0,) where that is
    spread: Tensor  # (n0, 2) of each row's softmax, cells
    column_value: Tensor  # (n1,) log confidence of each column's best

    def at(self, index0: Tensor) -> CellMatches:
        spread = self.spread[index0.to(self.spread.device)]
        confidence = self.value[index0].exp()
        return CellMatches(index0, self.column[index0], confidence, spread)


@single
def mutual_cells(
    f0: Tensor,
    f1: Tensor,
    size0: tuple[int, int],
    size1: tuple[int, int],
    *,
    threshold: float,
    border: int,
) -> CellMatches:
    """Mutual maxima of the dual softmax of f0 f1ᵀ above `threshold`, off the border.

    `f0` (n0, c) and `f1` (n1, c) carry the temperature already; sizes are those of the
    grids, (height, width), and `border` is counted in cells.
    """
    best = _maxima(f0, f1, size1)
    # The same numbers were compared both ways, so equality is exact.
    mutual = best.column_value[best.column] == best.value
    sure = best.value.exp() > max(threshold, 0.0)
    inside0, inside1 = (_off_border(s, border, f0.device) for s in (size0, size1))
    return best.at(torch.where(mutual & sure & inside0 & inside1[best.column])[0])


@single
def top_cells(
    f0: Tensor, f1: Tensor, size1: tuple[int, int], *, count: int
) -> CellMatches:
    """The `count` cells of image 0 with the largest maxima, best first, not mutual."""
    best = _maxima(f0, f1, size1)
    return best.at(best.value.topk(min(count, len(f0))).indices)


def _maxima(f0: Tensor, f1: Tensor, size1: tuple[int, int]) -> _Best:
    row_sum, column_sum, spread = _log_sums(f0, f1, size1)
    value = f0.new_empty(len(f0))
    index = torch.empty(len(f0), dtype=torch.long, device=f0.device)
    column_value = f0.new_full((len(f1),), -torch.inf)
    room = _room(f0, f1)
    for k in range(0, len(f0), TILE_ROWS):
        rows = slice(k, k + TILE_ROWS)
        confidence = _similarity(f0[rows], f1, room).mul_(2.0)
        confidence.sub_(row_sum[rows, None]).sub_(column_sum)
        value[rows], index[rows] = confidence.max(dim=1)
        torch.maximum(column_value, confidence.amax(dim=0), out=column_value)
    return _Best(value, index, spread, column_value)


def _off_border(size: tuple[int, int], border: int, device: torch.device) -> Tensor:
    height, width = size
    inside = torch.zeros(height, width, dtype=torch.bool, device=device)
    inside[border : height - border, border : width - border] = True
    return inside.flatten()


def _room(f0: Tensor, f1: Tensor, rows: int = TILE_ROWS) -> Tensor:
    """Memory for one tile, the same for all: new memory takes longer."""
    return f0.new_empty(min(rows, len(f0)), len(f1))


def _similarity(tile: Tensor, f1: Tensor, room: Tensor) -> Tensor:
    return torch.mm(tile, f1.T, out=room[: len(tile)])


def _log_sums(
    f0: Tensor, f1: Tensor, size1: tuple[int, int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Log of the sums of exp s over rows (n0,) and columns (n1,); rows' spread."""
    row_sum = f0.new_empty(len(f0))
    spread = wide(f0.new_empty(0)).new_empty(len(f0), 2)
    top = f0.new_full((len(f1),), -torch.inf)
    total = f0.new_zeros(len(f1))
    room, other = _room(f0, f1), _room(f0, f1)
    for k in range(0, len(f0), TILE_ROWS):
        rows = slice(k, k + TILE_ROWS)
        s = _similarity(f0[rows], f1, room)
        best = s.amax(dim=1, keepdim=True)
        weight = torch.sub(s, best, out=other[: len(s)]).exp_().view(-1, *size1)
        down = weight.sum(dim=2)
        row_sum[rows] = best[:, 0] + down.sum(dim=1).log()
        spread[rows] = _spread(weight, down)
        higher = torch.maximum(top, s.amax(dim=0))
        total.mul_((top - higher).exp_()).add_(s.sub_(higher).exp_().sum(dim=0))
        top = higher
    return row_sum, top + total.log(), spread


@extraction("coarse")
@single
def row_spread(f0: Tensor, f1: Tensor, size: tuple[int, int]) -> Tensor:
    """Std (m, 2) in cells, x and y, of each row's softmax over the cells of image 1.

    `f0` holds the m selected rows only; `size` is (height, width) of image 1's grid.
    """
    stds = [wide(f0.new_zeros(0, 2))]
    rows = max(1, min(TILE_ROWS, TILE_ENTRIES // max(len(f1), 1)))
    room = _room(f0, f1, rows)
    for k in range(0, len(f0), rows):
        s = _similarity(f0[k : k + rows], f1, room)
        weight = s.sub_(s.amax(dim=1, keepdim=True)).exp_().view(-1, *size)
        stds.append(_spread(weight, weight.sum(dim=2)))
    return torch.cat(stds)


@extraction("coarse")
def _spread(weight: Tensor, down: Tensor) -> Tensor:
    """Std (m, 2) of column and row under weights (m, h, w); `down` is their sum over w.

    Sums along one axis lose no digits, so the moments of what is left are exact.
    """
    return torch.stack([_std(weight.sum(dim=1)), _std(down)], dim=1)


def _std(marginal: Tensor) -> Tensor:
    """Std (m,) of the index under unnormalised weights (m, k)."""
    weight = wide(marginal)
    weight = weight / weight.sum(dim=1, keepdim=True)
    at = torch.arange(weight.shape[1], device=weight.device, dtype=weight.dtype)
    mean = (weight @ at)[:, None]
    return (weight * (at - mean) ** 2).sum(dim=1).sqrt()
