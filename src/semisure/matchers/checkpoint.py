"""Official checkpoints into networks: every tensor by its name, or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from semisure.errors import FileError, in_short

Net = TypeVar("Net", bound=nn.Module)


def plain_name(name: str) -> str:
    """The name without the prefixes of training code."""
    return name.removeprefix("matcher.").removeprefix("model.")


def load_checkpoint(
    network: Net,
    path: Path,
    *,
    rename: Callable[[str], str] = plain_name,
    skipped: tuple[str, ...] = (),
) -> Net:
    """The network with the weights in `path`, loaded strictly.

    The file is ``.safetensors``, or torch's own format; there the tensors may lie one
    level down, under ``state_dict``. `rename` gives the network's name for the file's;
    names that begin with `skipped` are left out.
    """
    tensors = {rename(str(name)): tensor for name, tensor in _read(path).items()}
    state = {n: t for n, t in tensors.items() if not n.startswith(skipped)}
    try:
        network.load_state_dict(state)
    except RuntimeError as error:  # below its headline
        fault = in_short(RuntimeError(str(error).partition("\n")[2]))
        raise FileError(f"{path} is not this network's checkpoint: {fault}.") from None
    for name, tensor in network.state_dict().items():
        if not torch.isfinite(tensor).all():
            raise FileError(f"{path} is damaged: not all of {name} is finite.")
    return network


def _read(path: Path) -> dict[str, Tensor]:
    """The tensors in a file, by name; nothing that it holds is executed."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # noqa: BLE001 - a damaged pickle can end in any of them
        reason = in_short(error)
        raise FileError(f"{path} cannot be read as a checkpoint: {reason}.") from None
    if isinstance(state, dict):
        state = state.get("state_dict", state)
    if not isinstance(state, dict) or not all(
        isinstance(tensor, Tensor) for tensor in state.values()
    ):
        raise FileError(f"{path} holds something else than named tensors.")
    return state
