"""What networks share: the dual softmax over coarse cells, and softmax moments.

The confidence of cells i and j is softmax over j times softmax over i of their
similarity s; in logarithms 2 s − rowsum − columnsum. One sweep over tiles of rows
gathers both sums, and on the way how far each row's softmax spreads over image 1, which
is the coarse cue; a second sweep finds the mutual maxima. The N × N matrix is never
stored.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from semisure.matchers.stopwatch import extraction

# Rows at a time: with 20,000 candidates a tile of float32 is 20 MB.
TILE_ROWS = 256


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

    def take(self, which: Tensor) -> CellMatches:
        """Some of the pairs, by mask or index; the spread may be on another device."""
        return CellMatches(*(t[which.to(t.device)] for t in self))


def wide(values: Tensor) -> Tensor:
    """The values as float64, on the CPU where the device has none (Apple's)."""
    return (values.cpu() if values.device.type == "mps" else values).double()


# ---- dual softmax --------------------------------------------------------------------


def mutual_cells(cells: Cells, *, threshold: float, border: int) -> CellMatches:
    """Mutual maxima of the dual softmax above `threshold`, `border` cells off edges."""
    best, column_value = _maxima(cells)
    value, column = best.confidence, best.index1
    # The same numbers were compared both ways, so equality is exact.
    mutual = column_value[column] == value
    sure = value.exp() > max(threshold, 0.0)
    inside0 = _off_border(cells.size0, border, value.device)
    inside1 = _off_border(cells.size1, border, value.device)
    chosen = best.take(torch.where(mutual & sure & inside0 & inside1[column])[0])
    return chosen._replace(confidence=chosen.confidence.exp())


def top_cells(cells: Cells, *, count: int) -> CellMatches:
    """The `count` cells of image 0 with the largest maxima, best first, not mutual."""
    best, _ = _maxima(cells)
    chosen = best.take(best.confidence.topk(min(count, len(cells.f0))).indices)
    return chosen._replace(confidence=chosen.confidence.exp())


def _maxima(cells: Cells) -> tuple[CellMatches, Tensor]:
    """Each row's best column, and each column's largest value, both in logarithms."""
    f0, f1 = cells.f0, cells.f1
    row_sum, column_sum, spread = _log_sums(cells)
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
    every = torch.arange(len(f0), device=f0.device)
    return CellMatches(every, index, value, spread), column_value


def _off_border(size: tuple[int, int], border: int, device: torch.device) -> Tensor:
    height, width = size
    inside = torch.zeros(height, width, dtype=torch.bool, device=device)
    inside[border : height - border, border : width - border] = True
    return inside.flatten()


def _room(f0: Tensor, f1: Tensor) -> Tensor:
    """Memory for one tile, the same for all: new memory takes longer."""
    return f0.new_empty(min(TILE_ROWS, len(f0)), len(f1))


def _similarity(tile: Tensor, f1: Tensor, room: Tensor) -> Tensor:
    return torch.mm(tile, f1.T, out=room[: len(tile)])


def _log_sums(cells: Cells) -> tuple[Tensor, Tensor, Tensor]:
    """Log of the sums of exp s over rows (n0,) and columns (n1,); rows' spread."""
    f0, f1 = cells.f0, cells.f1
    row_sum = f0.new_empty(len(f0))
    spread = wide(f0.new_empty(0)).new_empty(len(f0), 2)
    top = f0.new_full((len(f1),), -torch.inf)
    total = f0.new_zeros(len(f1))
    room, other = _room(f0, f1), _room(f0, f1)
    for k in range(0, len(f0), TILE_ROWS):
        rows = slice(k, k + TILE_ROWS)
        s = _similarity(f0[rows], f1, room)
        best = s.amax(dim=1, keepdim=True)
        weight = torch.sub(s, best, out=other[: len(s)]).exp_().view(-1, *cells.size1)
        down = weight.sum(dim=2)
        row_sum[rows] = best[:, 0] + down.sum(dim=1).log()
        with extraction("coarse"):
            spread[rows] = _spread(weight, down)
        higher = torch.maximum(top, s.amax(dim=0))
        total.mul_((top - higher).exp_()).add_(s.sub_(higher).exp_().sum(dim=0))
        top = higher
    return row_sum, top + total.log(), spread


@extraction("coarse")
def row_spread(f0: Tensor, f1: Tensor, size: tuple[int, int]) -> Tensor:
    """Std (m, 2) in cells, x and y, of each row's softmax over the cells of image 1.

    `f0` holds the m selected rows only; `size` is (height, width) of image 1's grid.
    """
    stds = [wide(f0.new_zeros(0, 2))]
    room = _room(f0, f1)
    for k in range(0, len(f0), TILE_ROWS):
        s = _similarity(f0[k : k + TILE_ROWS], f1, room)
        weight = s.sub_(s.amax(dim=1, keepdim=True)).exp_().view(-1, *size)
        stds.append(_spread(weight, weight.sum(dim=2)))
    return torch.cat(stds)


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


# ---- fine windows --------------------------------------------------------------------


def grid_mean(probability: Tensor, offsets: Tensor) -> Tensor:
    """Mean (m, 2) of `offsets` (k, 2) under each row, (m, k)."""
    return _unit(probability) @ wide(offsets)


@extraction("fine")
def grid_std(probability: Tensor, offsets: Tensor) -> Tensor:
    """Std (m, 2) of `offsets` (k, 2) under each row, (m, k)."""
    offsets = wide(offsets)
    stds = [offsets.new_zeros(0, 2)]
    for k in range(0, len(probability), TILE_ROWS):
        weight = _unit(probability[k : k + TILE_ROWS])
        away = offsets - (weight @ offsets)[:, None]
        stds.append(torch.einsum("mk,mkd->md", weight, away**2).sqrt())
    return torch.cat(stds)


def _unit(probability: Tensor) -> Tensor:
    probability = wide(probability)
    return probability / probability.sum(dim=1, keepdim=True)


def cell_corner(index: Tensor, columns: int, stride: int) -> Tensor:
    """Corner (m, 2) in px of cells numbered by rows of a grid."""
    corner = torch.stack([index % columns, index // columns], dim=1)
    return wide(corner * stride)


def square(side: int, device: torch.device) -> Tensor:
    """Column and row (side², 2) of each cell of a square, row by row."""
    k = torch.arange(side**2, device=device)
    return torch.stack([k % side, k // side], dim=1)


def cell_windows(
    fine: Tensor, index: Tensor, *, side: int, step: int, margin: int
) -> Tensor:
    """Windows (m, side², c) of a fine map (1, c, h, w) around the cells at `index`.

    Cells are `step` pixels of the map apart; a window begins `margin` before its cell.
    """
    padded = torch.nn.functional.pad(fine[0], [margin] * 4)
    # A view, one window for each coarse cell: only the chosen ones are copied.
    tiles = padded.unfold(1, side, step).unfold(2, side, step)
    windows = tiles[:, index // tiles.shape[2], index % tiles.shape[2]]
    return windows.flatten(2).permute(1, 2, 0).contiguous()


def around_pixel(window: Tensor, pixel: Tensor, cell: int) -> Tensor:
    """The 3 × 3 features (m, 9, c) that a sub-pixel stage reads for a cell's pixel.

    The window begins a pixel before the cell, which the published weights of
    EfficientLoFTR and CoMatch were trained to overlook: the features are those one
    pixel up and to the left, and before the first row or column comes the last.
    """
    side = cell + 2
    step = square(3, window.device) - 1
    y = (pixel[:, None] // cell + step[:, 1]) % side
    x = (pixel[:, None] % cell + step[:, 0]) % side
    index = (y * side + x)[..., None].expand(-1, -1, window.shape[2])
    return window.gather(1, index)
