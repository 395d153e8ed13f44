"""What every network's adapter needs of torch: pixels in, softmax moments out.

Moments are a few numbers per selected row, in tiles, never a second N × N matrix.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Rows at a time: with 20,000 candidates a tile of float32 is 20 MB.
TILE_ROWS = 256


def wide(values: Tensor) -> Tensor:
    """The values as float64, on the CPU where the device has none (Apple's)."""
    return (values.cpu() if values.device.type == "mps" else values).double()


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


def grid_moments(probability: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (m, 2) and std (m, 2) of `offsets` (k, 2) under each row, (m, k)."""
    probability, offsets = wide(probability), wide(offsets)
    probability = probability / probability.sum(dim=1, keepdim=True)
    mean = probability @ offsets
    away = offsets - mean[:, None]
    return mean, torch.einsum("mk,mkd->md", probability, away**2).sqrt()


def cell_corner(index: Tensor, columns: int, stride: int) -> Tensor:
    """Corner (m, 2) in px of cells numbered by rows of a grid."""
    corner = torch.stack([index % columns, index // columns], dim=1)
    return wide(corner * stride)


def unit_tensor(image: NDArray[np.uint8], device: str) -> Tensor:
    """Pixels from 0 to 1, (1, channels, h, w)."""
    planes = image[None] if image.ndim == 2 else image.transpose(2, 0, 1)
    pixels = torch.from_numpy(np.ascontiguousarray(planes))[None]
    return pixels.to(device).float() / 255.0
