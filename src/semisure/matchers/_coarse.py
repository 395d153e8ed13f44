"""Matches between coarse cells by dual softmax, in tiles of rows.

In logarithms the dual softmax of similarities s is 2 s − rowsum − columnsum: one sweep
over tiles gathers the sums, another the maxima, and no N × N matrix is ever kept.
Features carry the temperature already.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from semisure.matchers._cues import TILE_ROWS, softmax_moments

CELL = 8  # px between coarse cells


class CellMatches(NamedTuple):
    """Pairs of cells (m,) and their dual-softmax entries (m,)."""

    index0: Tensor
    index1: Tensor
    confidence: Tensor


def off_border(height: int, width: int, border: int, device: torch.device) -> Tensor:
    """Which cells, (height · width,), are at least `border` cells from the edge."""
    inside = torch.zeros(height, width, dtype=torch.bool, device=device)
    inside[border : height - border, border : width - border] = True
    return inside.flatten()


def mutual_cells(
    f0: Tensor, f1: Tensor, inside0: Tensor, inside1: Tensor, threshold: float
) -> CellMatches:
    """Pairs that are each other's best, above `threshold` and off the border."""
    best, index1, column_best = _maxima(f0, f1)
    mutual = (best == column_best[index1]) & (best.exp() > threshold)
    index0 = torch.where(mutual & inside0 & inside1[index1])[0]
    return CellMatches(index0, index1[index0], best[index0].exp())


def top_rows(f0: Tensor, f1: Tensor, count: int) -> CellMatches:
    """The `count` rows with the largest entries, each with its best column."""
    best, index1, _ = _maxima(f0, f1)
    index0 = best.topk(min(count, len(best))).indices
    return CellMatches(index0, index1[index0], best[index0].exp())


def _maxima(f0: Tensor, f1: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Log of each row's largest entry, where it is, and of each column's largest."""
    row_sums = [(tile @ f1.T).logsumexp(dim=1) for tile in _tiles(f0)]
    column_sum = torch.cat([(tile @ f0.T).logsumexp(dim=1) for tile in _tiles(f1)])
    column_best = torch.full_like(column_sum, -torch.inf)
    rows = []
    for tile, row_sum in zip(_tiles(f0), row_sums, strict=True):
        entry = 2.0 * (tile @ f1.T) - row_sum[:, None] - column_sum
        rows.append(entry.max(dim=1))
        column_best = torch.maximum(column_best, entry.amax(dim=0))
    best, index = (torch.cat(parts) for parts in zip(*rows, strict=True))
    return best, index, column_best


def row_spread(f0: Tensor, f1: Tensor, size: tuple[int, int]) -> Tensor:
    """Std (m, 2) in cells of each row's softmax over the other image's cells.

    `f0` holds the chosen rows; `size` is (height, width) of the grid that `f1` fills.
    """
    every = torch.arange(len(f1), device=f1.device)
    at = torch.stack([every % size[1], every // size[1]], dim=1).to(f1.dtype)
    stds = [at.new_zeros((0, 2), dtype=torch.float64)]
    for tile in _tiles(f0):
        stds.append(softmax_moments(tile @ f1.T, at, every[: len(tile)])[1])
    return torch.cat(stds)


def cell_corner(index: Tensor, columns: int) -> Tensor:
    """Corner (m, 2) in px of cells numbered by rows of a grid."""
    return torch.stack([index % columns, index // columns], dim=1) * CELL


def _tiles(x: Tensor) -> list[Tensor]:
    return [x[k : k + TILE_ROWS] for k in range(0, len(x), TILE_ROWS)]
