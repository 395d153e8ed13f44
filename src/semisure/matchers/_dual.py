"""Dual softmax over coarse cells in tiles: the N × N matrix is never stored.

The confidence of cells i and j is softmax over j times softmax over i of their
similarity s; in logarithms 2 s − rowsum − columnsum. One sweep over tiles of rows
gathers both sums, a second one the mutual maxima.
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
    """Pairs of cells: indices (m,) and dual-softmax confidence (m,)."""

    index0: Tensor
    index1: Tensor
    confidence: Tensor


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
    row_best, row_index, column_best = _maxima(f0, f1)
    # The same numbers were compared both ways, so equality is exact.
    mutual = column_best[row_index] == row_best
    sure = row_best.exp() > max(threshold, 0.0)
    inside0, inside1 = (_off_border(s, border, f0.device) for s in (size0, size1))
    index0 = torch.where(mutual & sure & inside0 & inside1[row_index])[0]
    return CellMatches(index0, row_index[index0], row_best[index0].exp())


@single
def top_cells(f0: Tensor, f1: Tensor, count: int) -> CellMatches:
    """The `count` cells of image 0 with the largest maxima, best first, not mutual."""
    row_best, row_index, _ = _maxima(f0, f1)
    index0 = row_best.topk(min(count, len(f0))).indices
    return CellMatches(index0, row_index[index0], row_best[index0].exp())


def _maxima(f0: Tensor, f1: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log confidence of each row's best (n0,), its column, and each column's best."""
    row_sum, column_sum = _log_sums(f0, f1)
    row_best = f0.new_empty(len(f0))
    row_index = torch.empty(len(f0), dtype=torch.long, device=f0.device)
    column_best = f0.new_full((len(f1),), -torch.inf)
    for k in range(0, len(f0), TILE_ROWS):
        rows = slice(k, k + TILE_ROWS)
        confidence = _similarity(f0[rows], f1).mul_(2.0)
        confidence.sub_(row_sum[rows, None]).sub_(column_sum)
        row_best[rows], row_index[rows] = confidence.max(dim=1)
        torch.maximum(column_best, confidence.amax(dim=0), out=column_best)
    return row_best, row_index, column_best


def _off_border(size: tuple[int, int], border: int, device: torch.device) -> Tensor:
    height, width = size
    inside = torch.zeros(height, width, dtype=torch.bool, device=device)
    inside[border : height - border, border : width - border] = True
    return inside.flatten()


def _similarity(f0: Tensor, f1: Tensor) -> Tensor:
    return f0 @ f1.T


def _log_sums(f0: Tensor, f1: Tensor) -> tuple[Tensor, Tensor]:
    """Log of the sums of exp s over rows (n0,) and over columns (n1,)."""
    row_sum = f0.new_empty(len(f0))
    top = f0.new_full((len(f1),), -torch.inf)
    total = f0.new_zeros(len(f1))
    for k in range(0, len(f0), TILE_ROWS):
        rows = slice(k, k + TILE_ROWS)
        s = _similarity(f0[rows], f1)
        row_sum[rows] = torch.logsumexp(s, dim=1)
        higher = torch.maximum(top, s.amax(dim=0))
        total.mul_((top - higher).exp_()).add_(s.sub_(higher).exp_().sum(dim=0))
        top = higher
    return row_sum, top + total.log()


@extraction("coarse")
@single
def row_spread(f0: Tensor, f1: Tensor, size: tuple[int, int]) -> Tensor:
    """Std (m, 2) in cells, x and y, of each row's softmax over the cells of image 1.

    `f0` holds the m selected rows only; `size` is (height, width) of image 1's grid.
    """
    stds = [wide(f0.new_zeros(0, 2))]
    rows = max(1, min(TILE_ROWS, TILE_ENTRIES // max(len(f1), 1), len(f0)))
    room = f0.new_empty(rows, len(f1))  # one for all tiles: new memory takes longer
    for k in range(0, len(f0), rows):
        tile = f0[k : k + rows]
        s = torch.mm(tile, f1.T, out=room[: len(tile)])
        weight = s.sub_(s.amax(dim=1, keepdim=True)).exp_().view(-1, *size)
        # Sums along one axis lose no digits, so the moments of what is left are exact.
        stds.append(torch.stack([_std(weight.sum(1)), _std(weight.sum(2))], dim=1))
    return torch.cat(stds)


def _std(marginal: Tensor) -> Tensor:
    """Std (m,) of the index under unnormalised weights (m, k)."""
    weight = wide(marginal)
    weight = weight / weight.sum(dim=1, keepdim=True)
    at = torch.arange(weight.shape[1], device=weight.device, dtype=weight.dtype)
    mean = (weight @ at)[:, None]
    return (weight * (at - mean) ** 2).sum(dim=1).sqrt()
