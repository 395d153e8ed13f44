"""What networks share: the dual softmax over coarse cells, and softmax moments.

The confidence of cells i and j is softmax over j times softmax over i of their
similarity s; in logarithms 2 s − rowsum − columnsum. One sweep over tiles of rows
gathers both sums, a second one finds the mutual maxima, and the rows of the matches
give the coarse cue: how far their softmax spreads. The N × N matrix is never stored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from semisure.matchers.stopwatch import extraction

CELL = 8  # px between coarse cells, in all of LoFTR's family
BORDER = 2  # coarse cells without matches along the image's edges
TEMPERATURE = 0.1  # of the coarse softmax
TILE_ROWS = 256  # with 20,000 candidates a tile of float32 is 20 MB
FINE_BATCH = 512  # matches refined at a time
SUBPIXEL = 8  # channels of fine features that only a second fine stage reads


class Cells(NamedTuple):
    """Coarse features, scaled so that products are logits, and the grids they fill."""

    f0: Tensor  # (n0, c)
    f1: Tensor  # (n1, c)
    size0: tuple[int, int]  # rows and columns
    size1: tuple[int, int]


def cells_of(
    map0: Tensor, map1: Tensor, temperature: float | Tensor = TEMPERATURE
) -> Cells:
    """Cells of coarse maps (1, c, h, w)."""
    f0, f1 = (coarse[0].flatten(1).T.contiguous() for coarse in (map0, map1))
    size0, size1 = ((coarse.shape[2], coarse.shape[3]) for coarse in (map0, map1))
    return Cells(f0 / (f0.shape[1] * temperature), f1, size0, size1)


class CellMatches(NamedTuple):
    """Pairs of cells."""

    index0: Tensor  # (m,)
    index1: Tensor  # (m,)
    confidence: Tensor  # (m,) of the dual softmax


def wide(values: Tensor) -> Tensor:
    """The values as float64, on the CPU where the device has none (Apple's)."""
    return (values.cpu() if values.device.type == "mps" else values).double()


# ---- dual softmax --------------------------------------------------------------------


def mutual_cells(cells: Cells, *, threshold: float) -> CellMatches:
    """Mutual maxima of the dual softmax above `threshold`, inside the borders."""
    column, value, column_value = _maxima(cells)
    # The same numbers were compared both ways, so equality is exact.
    mutual = column_value[column] == value
    sure = value.exp() > max(threshold, 0.0)
    inside0 = _off_border(cells.size0, value.device)
    inside1 = _off_border(cells.size1, value.device)
    index0 = torch.where(mutual & sure & inside0 & inside1[column])[0]
    return CellMatches(index0, column[index0], value[index0].exp())


def top_cells(cells: Cells, *, count: int) -> CellMatches:
    """The `count` cells of image 0 with the largest maxima, best first, not mutual."""
    column, value, _ = _maxima(cells)
    index0 = value.topk(min(count, len(value))).indices
    return CellMatches(index0, column[index0], value[index0].exp())


def _maxima(cells: Cells) -> tuple[Tensor, Tensor, Tensor]:
    """Each row's best column and its value, each column's largest value; logarithms."""
    row_sum, column_sum = log_sums(cells)
    column_value = torch.full_like(column_sum, -torch.inf)
    best = []
    for f0, of_row in zip(
        torch.split(cells.f0, TILE_ROWS), torch.split(row_sum, TILE_ROWS), strict=True
    ):
        confidence = 2.0 * (f0 @ cells.f1.T) - of_row[:, None] - column_sum
        best.append(confidence.max(dim=1))
        torch.maximum(column_value, confidence.amax(dim=0), out=column_value)
    value, column = (torch.cat(part) for part in zip(*best, strict=True))
    return column, value, column_value


def _off_border(size: tuple[int, int], device: torch.device) -> Tensor:
    height, width = size
    inside = torch.zeros(height, width, dtype=torch.bool, device=device)
    inside[BORDER : height - BORDER, BORDER : width - BORDER] = True
    return inside.flatten()


def log_sums(cells: Cells) -> tuple[Tensor, Tensor]:
    """Log of the sums of exp s over rows (n0,) and columns (n1,)."""
    rows, columns = [], []
    for f0 in torch.split(cells.f0, TILE_ROWS):
        s = f0 @ cells.f1.T
        rows.append(s.logsumexp(dim=1))
        columns.append(s.logsumexp(dim=0))
    return torch.cat(rows), torch.stack(columns).logsumexp(dim=0)


@extraction("coarse")
def row_spread(cells: Cells, index0: Tensor) -> Tensor:
    """Std (m, 2) in cells, x and y, of the softmax over image 1 for cells of image 0.

    Sums along one axis lose no digits, so the moments of the marginals are exact.
    """
    rows, columns = cells.size1
    places = torch.arange(max(cells.size1), device=index0.device)[:, None]
    parts = []
    for index in torch.split(index0, TILE_ROWS):
        weight = (cells.f0[index] @ cells.f1.T).softmax(dim=1).view(-1, rows, columns)
        x = std_of(weight.sum(dim=1), places[:columns])
        y = std_of(weight.sum(dim=2), places[:rows])
        parts.append(torch.cat([x, y], dim=1))
    return torch.cat(parts)


# ---- fine windows --------------------------------------------------------------------


def grid_mean(probability: Tensor, offsets: Tensor) -> Tensor:
    """Mean (m, 2) of `offsets` (k, 2) under each row, (m, k)."""
    return _unit(probability) @ wide(offsets)


@extraction("fine")
def grid_std(probability: Tensor, offsets: Tensor) -> Tensor:
    """Std (m, 2) of `offsets` (k, 2) under each row, (m, k)."""
    return std_of(probability, offsets)


def std_of(weight: Tensor, offsets: Tensor) -> Tensor:
    """Std (m, d) of `offsets` (k, d) under weights (m, k) of any sum."""
    weight, offsets = _unit(weight), wide(offsets)
    centred = offsets - (weight @ offsets)[:, None]
    return torch.einsum("mk,mkd->md", weight, centred**2).sqrt()


def _unit(probability: Tensor) -> Tensor:
    probability = wide(probability)
    return probability / probability.sum(dim=1, keepdim=True)


def cell_corner(index: Tensor, columns: int) -> Tensor:
    """Corner (m, 2) in px of cells numbered by rows of a grid."""
    return wide(CELL * torch.stack([index % columns, index // columns], dim=1))


def in_batches(
    stage: Callable[[Tensor, Tensor], Iterable[Tensor]], index0: Tensor, index1: Tensor
) -> tuple[Tensor, ...]:
    """The answers of a fine stage for pairs of cells, in batches of FINE_BATCH."""
    if not len(index0):  # some layers take no empty batch
        one = index0.new_zeros(1)
        return tuple(part[:0] for part in stage(one, one))
    batches = zip(*(torch.split(i, FINE_BATCH) for i in (index0, index1)), strict=True)
    parts = [stage(*batch) for batch in batches]
    return tuple(torch.cat(same) for same in zip(*parts, strict=True))


def square(side: int, device: torch.device) -> Tensor:
    """Column and row (side², 2) of each cell of a square, row by row."""
    k = torch.arange(side**2, device=device)
    return torch.stack([k % side, k // side], dim=1)


def cell_windows(
    fine: Tensor, index: Tensor, *, side: int, margin: int, step: int = CELL
) -> Tensor:
    """Windows (m, side², c) of a fine map (1, c, h, w) around the cells at `index`.

    Cells are `step` pixels of the map apart; a window begins `margin` before its cell.
    """
    padded = torch.nn.functional.pad(fine[0], [margin] * 4)
    # A view, one window for each coarse cell: only the chosen ones are copied.
    tiles = padded.unfold(1, side, step).unfold(2, side, step)
    windows = tiles[:, index // tiles.shape[2], index % tiles.shape[2]]
    return windows.flatten(2).permute(1, 2, 0).contiguous()


def best_pixels(window0: Tensor, window1: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Best pairs of pixels (m,) of both cells, and image 1's softmax given image 0's.

    Windows (m, pixels, 64) are a cell, or reach a pixel further all round; all channels
    count for the scale, though the last ones are not used here.
    """
    logits = window0[..., :-SUBPIXEL] @ window1[..., :-SUBPIXEL].mT / window0.shape[2]
    rows = logits.softmax(dim=2)
    dual = logits.softmax(dim=1) * rows
    inner0, inner1 = _cell_of(window0), _cell_of(window1)
    best = dual[:, inner0[:, None], inner1].flatten(1).argmax(dim=1)
    pixel0, pixel1 = best // CELL**2, best % CELL**2
    every = torch.arange(len(best), device=best.device)
    return pixel0, pixel1, rows[every, inner0[pixel0]]


def _cell_of(window: Tensor) -> Tensor:
    """Numbers of the cell's own pixels among the window's."""
    count = window.shape[1]
    side = math.isqrt(count)
    margin = (side - CELL) // 2
    numbers = torch.arange(count, device=window.device).view(side, side)
    return numbers[margin : margin + CELL, margin : margin + CELL].flatten()


def around_pixel(window: Tensor, pixel: Tensor) -> Tensor:
    """The 3 × 3 features (m, 9, c) that a sub-pixel stage reads for a cell's pixel.

    The window begins a pixel before the cell, which the published weights of
    EfficientLoFTR and CoMatch were trained to overlook: the features are those one
    pixel up and to the left, and before the first row or column comes the last.
    """
    side = CELL + 2
    step = square(3, window.device) - 1
    y = (pixel[:, None] // CELL + step[:, 1]) % side
    x = (pixel[:, None] % CELL + step[:, 0]) % side
    index = (y * side + x)[..., None].expand(-1, -1, window.shape[2])
    return window.gather(1, index)
