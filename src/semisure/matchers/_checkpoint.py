"""Official checkpoints into our networks: every tensor by its name, or a refusal."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from semisure.errors import FileError

# Training code keeps the network under one of these names.
PREFIXES = ("matcher.", "model.")


def load_checkpoint(
    network: nn.Module, path: Path, training_only: tuple[str, ...] = ()
) -> None:
    """Load `path` strictly; names that begin with `training_only` are passed over."""
    state = {
        name: tensor
        for name, tensor in _read(path).items()
        if not name.startswith(training_only)
    }
    _check(network.state_dict(), state, path)
    network.load_state_dict(state)


def _read(path: Path) -> dict[str, Tensor]:
    try:
        held = _safetensors(path) if path.suffix == ".safetensors" else _pickled(path)
    except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError) as error:
        words = " ".join(str(error).split())[:200]
        raise FileError(f"{path} cannot be read as a checkpoint: {words}") from None
    if isinstance(held, dict) and isinstance(held.get("state_dict"), dict):
        held = held["state_dict"]
    if not isinstance(held, dict) or not all(
        isinstance(v, Tensor) for v in held.values()
    ):
        raise FileError(f"{path} holds no state dict of tensors.")
    return {_plain(str(name)): tensor for name, tensor in held.items()}


def _pickled(path: Path) -> Any:
    # Only tensors and plain containers: nothing that the file holds is run.
    return torch.load(path, map_location="cpu", weights_only=True)


def _safetensors(path: Path) -> Any:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(str(error)) from None


def unit_tensor(image: NDArray[np.uint8], device: str) -> Tensor:
    """Pixels from 0 to 1, (1, channels, h, w)."""
    planes = image[None] if image.ndim == 2 else image.transpose(2, 0, 1)
    pixels = torch.from_numpy(np.ascontiguousarray(planes))[None]
    return pixels.to(device).float() / 255.0


def _plain(name: str) -> str:
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name


def _check(own: dict[str, Tensor], held: dict[str, Tensor], path: Path) -> None:
    """Raise with the name of the first tensor that is missing, extra or misshapen."""
    misshapen = [n for n in own if n in held and own[n].shape != held[n].shape]
    for names, fault in (
        ([n for n in own if n not in held], "lacks the tensor {0}"),
        ([n for n in held if n not in own], "has a tensor {0} that it does not know"),
        (misshapen, "has the tensor {0} in the shape {2} instead of {1}"),
    ):
        if names:
            first = names[0]
            shapes = [tuple(s[first].shape) if first in s else () for s in (own, held)]
            more = f" (and {len(names) - 1} more such)" if len(names) > 1 else ""
            words = fault.format(first, *shapes)
            raise FileError(
                f"{path} is not this network's checkpoint: it {words}{more}."
            )
