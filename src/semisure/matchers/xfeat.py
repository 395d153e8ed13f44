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

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import torch
from kornia.feature import XFeat
from torch import Tensor

from semisure.io.images import Image
from semisure.matchers.checkpoint import load_checkpoint
from semisure.matchers.cues import grid_mean, grid_std, in_batches, square, wide
from semisure.matchers.network import Network
from semisure.matchers.stopwatch import extraction

# Sharp enough for single keypoints: of 0.1, 0.05 and 0.02 the law fits best at 0.02.
TEMPERATURE = 0.02
GRID = 8  # the fine head's logits stand for 8 × 8 offsets
FINE_SHARPNESS = 3.0  # the library's factor on those logits
MIN_FINE_PEAK = 0.25  # the library's threshold on their largest probability


@dataclass(frozen=True, slots=True, kw_only=True)
class XFeatStar(Network):
    """XFeat*; `xfeat(image0, image1)` gives :class:`Matches` refined in image 0.

    `top_k` keypoints are kept per image. `temperature` is that of the coarse softmax
    over normalised features; a calibration holds for the one it was fitted with. The
    other settings are those of a :class:`~semisure.matchers.network.Network`.
    """

    name = "xfeat-star"
    min_side = 64  # at 0.6 of less the backbone sees less than one cell of 32 px
    centred: ClassVar[bool] = True  # else points are the library's

    top_k: int = 4096
    temperature: float = TEMPERATURE

    @classmethod
    def network(cls) -> Any:
        return XFeat()

    def load(self, path: Path) -> Any:
        model = self.network()
        load_checkpoint(model.net, path)
        return model

    def channels(self, image: Image) -> Image:
        return image

    def _match(self, image0: Tensor, image1: Tensor) -> dict[str, Tensor]:
        f0, position, scale0 = self._keypoints(image0)
        f1, other, scale1 = self._keypoints(image1)
        index0, index1 = _mutual(f0, f1)
        offset, fine_std, sure = _refine(self.model, f0[index0], f1[index1])
        index0, index1 = index0[sure], index1[sure]
        scale = scale0[index0][:, None]
        if self.centred:
            position, other = _middle(position, scale0), _middle(other, scale1)
            offset = offset + 0.5  # the library's grid runs from −4 to 3
        unit0, unit1 = (torch.nn.functional.normalize(f, dim=1) for f in (f0, f1))
        cues = partial(_coarse_cues, unit0, unit1, self.temperature, position)
        confidence, coarse_std = in_batches(cues, index0, index1)
        return {
            "source": position[index0] + offset[sure] * scale,
            "target": other[index1],
            "confidence": confidence,
            "fine_std": fine_std[sure] * scale,
            "coarse_std": coarse_std,
            "fine_window": GRID * scale[:, 0],
            "cell": position[index0],
            "side": torch.zeros_like(index0),
        }

    def _keypoints(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Descriptors (k, 64), positions (k, 2) and scales (k,) of an image."""
        keypoints = self.model.detectAndComputeDense(image, top_k=self.top_k)
        names = ("descriptors", "keypoints", "scales")
        descriptors, positions, scales = (keypoints[name][0] for name in names)
        return descriptors, positions, scales


@dataclass(frozen=True, slots=True, kw_only=True)
class RawXFeatStar(XFeatStar):
    """The same matches, their points exactly where the library has them."""

    name = "xfeat-star-raw"
    centred: ClassVar[bool] = False


def _middle(keypoint: Tensor, scale: Tensor) -> Tensor:
    """The middle of the cell whose first pixel is the keypoint, px of the view.

    Pixel p of the image that the network saw, of s times the size, is (p + 0.5) / s
    − 0.5 in the view, where the library says p / s; `scale` is 1 / s.
    """
    return keypoint + (GRID / 2 * scale - 0.5)[:, None]


def _mutual(f0: Tensor, f1: Tensor) -> tuple[Tensor, Tensor]:
    """Indices of the keypoints that are each other's best, by raw dot products."""
    similarity = f0 @ f1.T
    best1, best0 = similarity.argmax(dim=1), similarity.argmax(dim=0)
    index0 = torch.arange(len(f0), device=f0.device)
    index0 = index0[best0[best1] == index0]
    return index0, best1[index0]


def _refine(model: Any, f0: Tensor, f1: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Offset and std (m, 2) in cells of image 0, and which the library would keep."""
    logits = model.net.fine_matcher(torch.cat([f0, f1], dim=-1))
    probability = torch.softmax(FINE_SHARPNESS * logits, dim=-1)
    # The library's grid runs from −4 to 3: its centre is half a pixel off.
    offsets = square(GRID, logits.device).float() - GRID // 2
    mean, std = grid_mean(probability, offsets), grid_std(probability, offsets)
    return mean, std, probability.max(dim=-1).values > MIN_FINE_PEAK


@extraction("coarse")
def _coarse_cues(
    f0: Tensor,
    f1: Tensor,
    temperature: float,
    position: Tensor,
    index0: Tensor,
    index1: Tensor,
) -> tuple[Tensor, Tensor]:
    """Dual-softmax entry (m,) and std (m, 2) over image 0's keypoints."""
    rows1, rows0 = f1[index1] / temperature, f0[index0] / temperature
    entry, std = softmax_moments(rows1 @ f0.T, position, index0)
    return entry * softmax_entry(rows0 @ f1.T, index1), std


def softmax_moments(
    logits: Tensor, positions: Tensor, chosen: Tensor
) -> tuple[Tensor, Tensor]:
    """Softmax entry at `chosen` (m,) and std of the positions (m, 2) for each row.

    `logits` is (m, k), a tile of rows over k candidates at `positions` (k, 2) px.
    """
    top = logits.max(dim=1, keepdim=True).values
    # Second moments less squared first ones: float32 would leave few digits.
    weight = wide(torch.exp(logits - top))
    x, y = wide(positions - positions.mean(dim=0)).unbind(dim=1)
    columns = torch.stack([torch.ones_like(x), x, y, x * x, y * y], dim=1)
    sums = weight @ columns
    moments = sums[:, 1:] / sums[:, :1]
    variance = moments[:, 2:] - moments[:, :2] ** 2
    chosen = chosen[:, None].to(weight.device)
    entry = weight.gather(1, chosen)[:, 0] / sums[:, 0]
    return entry, variance.clamp_min(0.0).sqrt()


def softmax_entry(logits: Tensor, chosen: Tensor) -> Tensor:
    """Softmax entry at `chosen` (m,) of each row of `logits` (m, k)."""
    top = logits.max(dim=1, keepdim=True).values
    weight = torch.exp(logits - top)
    return wide(weight.gather(1, chosen[:, None])[:, 0]) / wide(weight.sum(dim=1))
