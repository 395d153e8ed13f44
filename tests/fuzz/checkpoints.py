"""Damaged checkpoints of all formats: this network's tensors, or a refusal."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.hostile import chosen, damaged, require

FORMATS = ("zip", "legacy", "safetensors")


def prepare() -> None:
    """Import what takes longer than a case may; interrupted, it is broken for good."""
    with suppress(ImportError):
        import torch  # noqa: F401


def attack(rng: np.random.Generator, folder: Path) -> str:
    """One checkpoint, damaged and loaded."""
    try:
        import torch
    except ImportError:
        return "no torch"
    from semisure.matchers.checkpoint import load_checkpoint

    kind = chosen(rng, FORMATS)
    path = folder / ("net.safetensors" if kind == "safetensors" else "net.pt")
    path.write_bytes(damaged(rng, _sound(kind)))
    back = load_checkpoint(_network(), path).state_dict()
    for name, tensor in _network().state_dict().items():
        require(back[name].shape == tensor.shape, "another shape")
        require(bool(torch.isfinite(back[name]).all()), "not finite")
    return "read"


def _network() -> Any:
    from torch import nn

    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3))


@cache
def _sound(kind: str) -> bytes:
    import tempfile

    import torch

    state = _network().state_dict()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net"
        if kind == "safetensors":
            from safetensors.torch import save_file

            save_file(state, path)
        else:
            torch.save(state, path, _use_new_zipfile_serialization=kind == "zip")
        return path.read_bytes()
