"""Official checkpoints into networks: every tensor by its name, or a refusal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from semisure.errors import FileError, MissingExtraError, SemisureError, in_short
from semisure.types.checks import require_file

Net = TypeVar("Net", bound=nn.Module)


def plain_name(name: str) -> str:
    """The name without what training code put before it."""
    return name.removeprefix("matcher.").removeprefix("model.")


def load_checkpoint(
    network: Net,
    path: Path,
    *,
    rename: Callable[[str], str] = plain_name,
    skipped: tuple[str, ...] = (),
) -> Net:
    """The network with the weights in `path`, loaded strictly.

    The file is safetensors, or torch's own format; there the tensors may lie one level
    down, under ``state_dict``. `rename` gives the network's name for the file's; names
    that begin with `skipped` are left out.
    """
    tensors = {rename(name): tensor for name, tensor in _read(path).items()}
    state = {n: t for n, t in tensors.items() if not n.startswith(skipped)}
    _check(network.state_dict(), state, path)
    network.load_state_dict(state)
    return network


def _read(path: Path) -> dict[str, Tensor]:
    require_file(path, "weights file")
    try:
        stored = _tensors(path)
    except SemisureError:
        raise
    except Exception as error:  # noqa: BLE001 - a damaged pickle can end in any of them
        reason = in_short(error)
        raise FileError(f"{path} cannot be read as a checkpoint: {reason}.") from None
    if not all(isinstance(tensor, Tensor) for tensor in stored.values()):
        raise FileError(f"{path} holds more than named tensors.")
    return {str(name): tensor for name, tensor in stored.items()}


def _tensors(path: Path) -> dict[str, Tensor]:
    """The tensors in a file, by name; nothing that it holds is executed."""
    with path.open("rb") as file:  # by its content, whatever its name ends with
        safetensors = file.read(9)[8:] == b"{"  # eight bytes of length, then JSON
        if not safetensors:
            file.seek(0)
            state = torch.load(file, map_location="cpu", weights_only=True)
    if safetensors:
        try:
            from safetensors.torch import load_file
        except ImportError:
            raise MissingExtraError("safetensors", "torch", str(path)) from None
        return load_file(path)
    if isinstance(state, dict) and isinstance(state.get("state_dict"), dict):
        state = state["state_dict"]
    if not isinstance(state, dict):
        raise TypeError(f"it holds a {type(state).__name__}, not named tensors")
    return state


def _sound(own: Tensor, stored: Tensor) -> bool:
    """Whether a tensor is of the network's kind, and finite."""
    if own.is_floating_point() != stored.is_floating_point():
        return False
    return stored.is_complex() or bool(torch.isfinite(stored).all())


def _check(own: dict[str, Tensor], stored: dict[str, Tensor], path: Path) -> None:
    """Raise with the name of the first tensor that does not fit the network."""
    both = [name for name in own if name in stored]
    for names, fault in (
        ([n for n in own if n not in stored], "lacks the tensor {0}"),
        ([n for n in stored if n not in own], "has a tensor {0} that it does not know"),
        (
            [n for n in both if own[n].shape != stored[n].shape],
            "has the tensor {0} in the shape {2} instead of {1}",
        ),
        (
            [n for n in both if not _sound(own[n], stored[n])],
            "has a tensor {0} that is damaged",
        ),
    ):
        if names:
            first = names[0]
            shapes = [
                tuple(s[first].shape) if first in s else () for s in (own, stored)
            ]
            more = f" (and {len(names) - 1} more such)" if len(names) > 1 else ""
            words = fault.format(first, *shapes)
            raise FileError(
                f"{path} is not this network's checkpoint: it {words}{more}."
            )
