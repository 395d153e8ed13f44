"""What every network's adapter needs of torch: softmax moments and safe loading.

Moments are a few numbers per selected row, in tiles, never a second N × N matrix.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from semisure.errors import FileError, MissingExtraError

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


def load_state(
    network: nn.Module, path: Path, rename: Callable[[str], str] = str
) -> None:
    """Load a state dict strictly, without executing anything that the file holds.

    Safetensors, or torch's own format; there the tensors may lie one level down, under
    ``state_dict``. `rename` gives the network's name for the file's.
    """
    try:
        state = read_tensors(path)
        state = {rename(name): tensor for name, tensor in state.items()}
        network.load_state_dict(state)
    except (RuntimeError, pickle.UnpicklingError, EOFError, TypeError) as error:
        words = " ".join(str(error).split())[:300]
        raise FileError(
            f"{path} does not hold this network's weights: {words}"
        ) from None


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors in a file, by name; nothing that it holds is executed."""
    with path.open("rb") as file:
        start = file.read(9)
    if start[8:] == b"{":  # safetensors: eight bytes of length, then JSON
        try:
            from safetensors import SafetensorError
            from safetensors.torch import load_file
        except ImportError:
            raise MissingExtraError("safetensors", "torch", str(path)) from None
        try:
            return load_file(path)
        except SafetensorError as error:
            raise TypeError(str(error)) from None
    try:
        with path.open("rb") as file:  # by its content, whatever its name ends with
            state = torch.load(file, map_location="cpu", weights_only=True)
    except (ValueError, LookupError, AttributeError) as error:  # of damaged pickles
        raise TypeError(str(error)) from None
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict):
        raise TypeError(f"it holds a {type(state).__name__}, not named tensors")
    return state
