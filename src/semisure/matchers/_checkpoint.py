"""Official checkpoints into our networks: every tensor by its name, or a refusal."""

from __future__ import annotations

import pickle
from pathlib import Path

from torch import Tensor, nn

from semisure.errors import FileError
from semisure.matchers._cues import read_tensors

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
        held = read_tensors(path)
    except (RuntimeError, pickle.UnpicklingError, EOFError, TypeError) as error:
        words = " ".join(str(error).split())[:200]
        raise FileError(f"{path} cannot be read as a checkpoint: {words}") from None
    if not all(isinstance(tensor, Tensor) for tensor in held.values()):
        raise FileError(f"{path} holds more than named tensors.")
    return {_plain(str(name)): tensor for name, tensor in held.items()}


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
