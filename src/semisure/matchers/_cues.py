"""What every network's adapter does in torch: pixels in, softmax moments out.

Moments are a few numbers per selected row, in tiles, never a second N × N matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor

from semisure.io.images import Image
from semisure.matchers._stopwatch import extraction
from semisure.types import FloatArray

# Rows at a time: with 20,000 candidates a tile of float32 is 20 MB.
TILE_ROWS = 256
TILE_ENTRIES = 2**21  # of a tile that only cues need: 8 MB of float32


def wide(values: Tensor) -> Tensor:
    """The values as float64, on the CPU where the device has none (Apple's)."""
    return (values.cpu() if values.device.type == "mps" else values).double()


P = ParamSpec("P")
T = TypeVar("T")


def single(function: Callable[P, T]) -> Callable[P, T]:
    """`function` computed in single precision or better, whatever the network runs in.

    A softmax over thousands of cells has no digits to lose.
    """

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        device = next(a.device.type for a in args if isinstance(a, Tensor))
        half = torch.bfloat16, torch.float16
        full: Any = [
            a.float() if isinstance(a, Tensor) and a.dtype in half else a for a in args
        ]
        with torch.autocast(device, enabled=False):
            return function(*full, **kwargs)

    return run


def softmax_moments(
    logits: Tensor, positions: Tensor, chosen: Tensor
) -> tuple[Tensor, Tensor]:
    """Softmax entry at `chosen` (m,) and std of the positions (m, 2) for each row.

    `logits` is (m, k), a tile of rows over k candidates at `positions` (k, 2) px.
    """
    top = logits.max(dim=1, keepdim=True).values
    # Second moments less squared first ones: float32 would leave few digits.
    weight = wide(torch.exp(logits - top))
    x, y = wide(positions - positions.mean(dim=0)).unbind(dim=1)
    columns = torch.stack([torch.ones_like(x), x, y, x * x, y * y], dim=1)
    sums = weight @ columns
    moments = sums[:, 1:] / sums[:, :1]
    variance = moments[:, 2:] - moments[:, :2] ** 2
    chosen = chosen[:, None].to(weight.device)
    entry = weight.gather(1, chosen)[:, 0] / sums[:, 0]
    return entry, variance.clamp_min(0.0).sqrt()


def softmax_entry(logits: Tensor, chosen: Tensor) -> Tensor:
    """Softmax entry at `chosen` (m,) of each row of `logits` (m, k)."""
    top = logits.max(dim=1, keepdim=True).values
    weight = torch.exp(logits - top)
    return wide(weight.gather(1, chosen[:, None])[:, 0]) / wide(weight.sum(dim=1))


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


def points_and_confidence(raw: Any) -> dict[str, Tensor]:
    """Of a network's raw matches; pixel centres move from half numbers to integers."""
    return {
        "source": raw.source - 0.5,
        "target": raw.target - 0.5,
        "confidence": raw.chosen.confidence,
    }


def target_cells(raw: Any, side: int) -> dict[str, Tensor]:
    """Centres (m, 2) of image 1's chosen cells of `side` px, centres at integers.

    A point belongs to the cell whose corner is nearest: networks of LoFTR's family were
    trained to round, so that the corner is the middle.
    """
    columns = raw.cells.size1[1]
    return {"cell": cell_corner(raw.chosen.index1, columns, side) - 0.5}


def as_arrays(tensors: Mapping[str, Tensor]) -> dict[str, FloatArray]:
    """The tensors as float64 arrays."""
    return {name: t.cpu().double().numpy() for name, t in tensors.items()}


def unit_tensor(image: Image, device: str) -> Tensor:
    """Pixels from 0 to 1, (1, channels, h, w)."""
    planes = image[None] if image.ndim == 2 else image.transpose(2, 0, 1)
    pixels = torch.from_numpy(np.ascontiguousarray(planes))[None]
    return pixels.to(device).float() / 255.0
