"""EDM: the best rows without a mutual check, offsets along x and y on the surer side.

Each match is refined in image 1 or in image 0, whichever its head is surer of; `side`
says which, and the coarse cue is the softmax over that image's cells. The head's own
scale, trained as that of a Laplace law through a flow, is kept as an extra.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semisure.errors import MissingExtraError
from semisure.matchers._view import View, assemble, grey, view_of
from semisure.matchers._weights import Weights, obtain
from semisure.types import FloatArray, Matches

# The authors' own file, edm_outdoor.ckpt, is on drives only (github.com/chicleee/EDM);
# this is the same network's state dict on the hub.
WEIGHTS = Weights(
    filename="edm.safetensors",
    hub="vismatch/edm",
    about=41_000_000,
    licence="Apache-2.0",
)

MULTIPLE = 32  # px
FINE_WINDOW_PX = 8.0  # offsets from −4 to 4 px


@dataclass(frozen=True, slots=True, kw_only=True)
class Edm:
    """EDM; `edm(image0, image1)` gives :class:`Matches` refined on either side.

    Parameters
    ----------
    max_side
        Larger images are reduced to this many px; None takes them as they are.
    threshold
        On the confidence of a match; 0.05 is the authors' for outdoor scenes.
    share
        Of image 0's cells that are looked at, best first.
    device
        Any torch device.
    weights
        A file to use instead of the official weights.
    """

    max_side: int | None = 1280
    threshold: float = 0.05
    share: float = 0.35
    device: str = "cpu"
    weights: Path | None = None
    model: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", _load(self.weights, self.device))

    def __call__(self, image0: NDArray[np.uint8], image1: NDArray[np.uint8]) -> Matches:
        return self.with_extras(image0, image1)[0]

    def with_extras(
        self, image0: NDArray[np.uint8], image1: NDArray[np.uint8]
    ) -> tuple[Matches, dict[str, FloatArray]]:
        """The matches, and `native_scale` (n, 2): the head's own, px on `side`."""
        view0, view1 = (
            view_of(image, self.max_side, multiple=MULTIPLE, min_side=MULTIPLE)
            for image in (image0, image1)
        )
        found, side = _match(self, view0, view1)
        native = found.pop("native_scale")
        native = native * np.stack([view0.scale, view1.scale])[side]
        matches = assemble(view0, view1, **found, fine_window=FINE_WINDOW_PX, side=side)
        return matches, {"native_scale": native}


def _load(path: Path | None, device: str) -> Any:
    try:
        from semisure.matchers._checkpoint import load_checkpoint
        from semisure.matchers._edm_net import TRAINING_ONLY, EdmNet
    except ImportError:
        raise MissingExtraError("torch", "torch", "EDM") from None
    network = EdmNet()
    load_checkpoint(network, obtain(WEIGHTS, path), training_only=TRAINING_ONLY)
    return network.eval().to(device)


def _match(
    edm: Edm, view0: View, view1: View
) -> tuple[dict[str, NDArray[np.float64]], NDArray[np.int64]]:
    """Points and cues in the pixels of the views, and the side of each match."""
    import torch

    from semisure.matchers._cues import unit_tensor

    with torch.inference_mode():
        pixels = (unit_tensor(grey(v), edm.device) for v in (view0, view1))
        found = edm.model(*pixels, edm.threshold, edm.share)
        named = {
            "source": found.source - 0.5,
            "target": found.target - 0.5,
            "confidence": found.chosen.confidence,
            "native_scale": found.sigma,
            **cues(found),
        }
    arrays = {name: t.cpu().double().numpy() for name, t in named.items()}
    return arrays, found.side.cpu().numpy()


def cues(found: Any) -> dict[str, Any]:
    """Standard deviations (m, 2) in px of the refined image as the network sees it."""
    import torch

    from semisure.matchers._cues import wide
    from semisure.matchers._dual import row_spread
    from semisure.matchers._edm_net import CELL, offsets

    cells, on1 = found.cells, found.side == 1
    spread = torch.empty_like(wide(found.sigma))
    there = on1.to(spread.device)
    rows0 = cells.f0[found.chosen.index0[on1]]
    rows1 = cells.f1[found.chosen.index1[~on1]]
    spread[there] = row_spread(rows0, cells.f1, cells.size1)
    spread[~there] = row_spread(rows1, cells.f0, cells.size0)
    heat, at = wide(found.heat), wide(offsets(found.heat))
    variance = (heat * (at - (heat @ at)[..., None]) ** 2).sum(dim=-1)
    return {"fine_std": variance.sqrt(), "coarse_std": CELL * spread}
