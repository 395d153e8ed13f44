"""GIM-LoFTR: LoFTR's heads on a ResNet-50 that saw fifty hours of internet video.

Image 0's points stay on the grid of 8 px cells; image 1's are refined in a window of
5 × 5 steps of 2 px, so the refined side is 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semisure.errors import MissingExtraError
from semisure.matchers._view import View, assemble, rgb, view_of
from semisure.matchers._weights import Weights, obtain
from semisure.types import Matches

# The repository's own copy, git blob 490fcc531b20fc02187eb4bc70976c94eccaa5f3. Its
# README gives content and model "for research purposes only"; the code is under MIT.
WEIGHTS = Weights(
    filename="gim_loftr_50h.ckpt",
    page="https://github.com/xuelunshen/gim/raw/main/weights/gim_loftr_50h.ckpt",
    licence="research only (code: MIT)",
    about=65_000_000,
)

MULTIPLE = 8  # px
MIN_SIDE = 40  # px: less is all border
FINE_WINDOW_PX = 8.0  # from the first to the last of five steps of 2 px


@dataclass(frozen=True, slots=True, kw_only=True)
class GimLoFTR:
    """GIM-LoFTR; `gim(image0, image1)` gives :class:`Matches` refined in image 1.

    Parameters
    ----------
    max_side
        Larger images are reduced to this many px; None takes them as they are.
    threshold
        On the confidence of a match.
    device
        Any torch device.
    weights
        A file to use instead of the official weights.
    """

    max_side: int | None = 1280
    threshold: float = 0.2
    device: str = "cpu"
    weights: Path | None = None
    model: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", _load(self.weights, self.device))

    def __call__(self, image0: NDArray[np.uint8], image1: NDArray[np.uint8]) -> Matches:
        view0, view1 = (
            view_of(image, self.max_side, multiple=MULTIPLE, min_side=MIN_SIDE)
            for image in (image0, image1)
        )
        found = _match(self.model, [view0, view1], self.threshold, self.device)
        return assemble(view0, view1, **found, fine_window=FINE_WINDOW_PX, side=1)


def _load(path: Path | None, device: str) -> Any:
    try:
        from semisure.matchers._checkpoint import load_checkpoint
        from semisure.matchers._gim_net import GimNet
    except ImportError:
        raise MissingExtraError("torch", "torch", "GIM-LoFTR") from None
    network = GimNet()
    load_checkpoint(network, obtain(WEIGHTS, path))
    return network.eval().to(device)


def _match(
    model: Any, views: list[View], threshold: float, device: str
) -> dict[str, NDArray[np.float64]]:
    """Points and cues in the pixels of the views."""
    import torch

    from semisure.matchers._cues import unit_tensor

    with torch.inference_mode():
        found = model(*(unit_tensor(rgb(v), device) for v in views), threshold)
        named = {
            "source": found.source - 0.5,
            "target": found.target - 0.5,
            "confidence": found.chosen.confidence,
            **cues(found),
        }
    return {name: t.cpu().double().numpy() for name, t in named.items()}


def cues(found: Any) -> dict[str, Any]:
    """Standard deviations (m, 2) in px of image 1 as the network sees it."""
    from semisure.matchers._cues import grid_moments
    from semisure.matchers._dual import row_spread
    from semisure.matchers._gim_net import CELL, offsets

    cells = found.cells
    spread = row_spread(cells.f0[found.chosen.index0], cells.f1, cells.size1)
    _, fine_std = grid_moments(found.heat, offsets(found.heat))
    return {"fine_std": fine_std, "coarse_std": CELL * spread}
