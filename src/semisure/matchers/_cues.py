"""What every network's adapter needs of torch: softmax moments and safe loading.

Moments are a few numbers per selected row, in tiles, never a second N × N matrix.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import torch
from torch import Tensor, nn

from semisure.errors import FileError

# Rows at a time: with 20,000 candidates a tile of float32 is 20 MB.
TILE_ROWS = 256


def softmax_moments(
    logits: Tensor, positions: Tensor, chosen: Tensor
) -> tuple[Tensor, Tensor]:
    """Softmax entry at `chosen` (m,) and std of the positions (m, 2) for each row.

    `logits` is (m, k), a tile of rows over k candidates at `positions` (k, 2) px.
    """
    top = logits.max(dim=1, keepdim=True).values
    weight = torch.exp(logits - top)
    # Second moments less squared first ones: float32 would leave few digits.
    weight = weight.double()
    x, y = (positions - positions.mean(dim=0)).double().unbind(dim=1)
    columns = torch.stack([torch.ones_like(x), x, y, x * x, y * y], dim=1)
    sums = weight @ columns
    moments = sums[:, 1:] / sums[:, :1]
    variance = moments[:, 2:] - moments[:, :2] ** 2
    entry = weight.gather(1, chosen[:, None])[:, 0] / sums[:, 0]
    return entry, variance.clamp_min(0.0).sqrt()


def softmax_entry(logits: Tensor, chosen: Tensor) -> Tensor:
    """Softmax entry at `chosen` (m,) of each row of `logits` (m, k)."""
    top = logits.max(dim=1, keepdim=True).values
    weight = torch.exp(logits - top)
    return weight.gather(1, chosen[:, None])[:, 0].double() / weight.sum(dim=1).double()


def grid_moments(probability: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (m, 2) and std (m, 2) of `offsets` (k, 2) under each row, (m, k)."""
    probability, offsets = probability.double(), offsets.double()
    mean = probability @ offsets
    variance = probability @ offsets**2 - mean**2
    return mean, variance.clamp_min(0.0).sqrt()


def load_state(network: nn.Module, path: Path) -> None:
    """Load a state dict strictly, without executing anything that the file holds."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        network.load_state_dict(state)
    except (RuntimeError, pickle.UnpicklingError, EOFError, TypeError) as error:
        words = " ".join(str(error).split())[:300]
        raise FileError(
            f"{path} does not hold this network's weights: {words}"
        ) from None
