"""GIM-LoFTR: LoFTR's heads on a ResNet-50 that saw fifty hours of internet video.

Image 0's points stay on the grid of 8 px cells; image 1's are refined in a window of
5 × 5 steps of 2 px, so the refined side is 1. Module names are the official
checkpoint's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from semisure.io.images import Image
from semisure.matchers.checkpoint import load_checkpoint
from semisure.matchers.cues import (
    BORDER,
    CELL,
    TEMPERATURE,
    Cells,
    cell_corner,
    cell_windows,
    grid_std,
    in_batches,
    mutual_cells,
    square,
    wide,
)
from semisure.matchers.layers import (
    Bottleneck,
    EncoderLayer,
    Stack,
    conv,
    doubled,
    linear_attention,
    merging,
)
from semisure.matchers.network import Network, rgb

WINDOW = 5  # cells of the fine map along each side of the fine window
FINE_CELL = 2  # px


@dataclass(frozen=True, slots=True, kw_only=True)
class GimLoFTR(Network):
    """GIM-LoFTR; `gim(image0, image1)` gives :class:`Matches` refined in image 1.

    Parameters
    ----------
    threshold
        Least confidence of a match.
    max_side, device, weights
        As in :class:`~semisure.matchers.network.Network`.
    """

    name = "gim-loftr"
    min_side = (2 * BORDER + 1) * CELL
    multiple = 8

    threshold: float = 0.2

    def _load(self, path: Path) -> Any:
        return load_checkpoint(GimNet(), path)

    def channels(self, image: Image) -> Image:
        return rgb(image)

    def _match(self, image0: Tensor, image1: Tensor) -> dict[str, Tensor]:
        answer: dict[str, Tensor] = self.model(image0, image1, self.threshold)
        return answer


class Encoder(nn.Module):
    """ResNet-50 up to 1/8, without its max pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = _stage(64, 64, 1, 3)
        self.layer2 = _stage(256, 128, 2, 4)
        self.layer3 = _stage(512, 256, 2, 6)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        half = self.layer1(self.bn1(self.conv1(image)).relu_())
        quarter = self.layer2(half)
        return half, quarter, self.layer3(quarter)


def _stage(inputs: int, width: int, stride: int, blocks: int) -> nn.Sequential:
    rest = (Bottleneck(4 * width, width) for _ in range(blocks - 1))
    return nn.Sequential(Bottleneck(inputs, width, stride), *rest)


class Pyramid(nn.Module):
    """Coarse features (256 channels at 1/8) and fine ones (128 at 1/2) of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = Encoder()
        self.layer3_outconv = conv(1024, 256)
        self.layer2_outconv = conv(512, 256)
        self.layer2_outconv2 = merging(256, 196)
        self.layer1_outconv = conv(256, 196)
        self.layer1_outconv2 = merging(196, 128)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        half, quarter, eighth = self.encode(image)
        coarse = self.layer3_outconv(eighth)
        above = doubled(coarse, align_corners=True)
        x = self.layer2_outconv2(self.layer2_outconv(quarter) + above)
        x = self.layer1_outconv(half) + doubled(x, align_corners=True)
        return coarse, self.layer1_outconv2(x)


def _encoded(x: Tensor) -> Tensor:
    """`x` (n, c, h, w) plus sines of its columns and rows.

    The frequencies fall by e per step: LoFTR's published weights were trained with this
    slip of operator precedence, and so were these.
    """
    _, channels, height, width = x.shape
    pace = torch.exp(-torch.arange(0.0, channels // 2, 2.0, device=x.device))
    across = torch.arange(1.0, width + 1, device=x.device) * pace[:, None]
    down = torch.arange(1.0, height + 1, device=x.device) * pace[:, None]
    table = x.new_zeros((channels, height, width))
    table[0::4], table[1::4] = across.sin()[:, None], across.cos()[:, None]
    table[2::4], table[3::4] = down.sin()[..., None], down.cos()[..., None]
    return x + table


class GimNet(nn.Module):
    """GIM-LoFTR; images are RGB (1, 3, h, w) in [0, 1], sides in multiples of 8."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = Pyramid()
        self.loftr_coarse = Stack(
            EncoderLayer(256, 8, linear_attention) for _ in range(8)
        )
        self.loftr_fine = Stack(
            EncoderLayer(128, 8, linear_attention) for _ in range(2)
        )

    def features(self, image0: Tensor, image1: Tensor) -> tuple[Cells, Tensor, Tensor]:
        """Coarse cells and the two fine maps (1, 128, h / 2, w / 2)."""
        coarse0, fine0 = self.backbone(image0)
        coarse1, fine1 = self.backbone(image1)
        size0, size1 = ((c.shape[2], c.shape[3]) for c in (coarse0, coarse1))
        x0, x1 = (_encoded(c).flatten(2).transpose(1, 2) for c in (coarse0, coarse1))
        x0, x1 = self.loftr_coarse(x0, x1)
        sharp = x0[0] / (x0.shape[2] * TEMPERATURE)
        return Cells(sharp, x1[0], size0, size1), fine0, fine1

    def forward(
        self, image0: Tensor, image1: Tensor, threshold: float
    ) -> dict[str, Tensor]:
        """Points and cues in px, pixel centres at integers."""
        cells, fine0, fine1 = self.features(image0, image1)
        chosen = mutual_cells(cells, threshold=threshold)

        def stage(index0: Tensor, index1: Tensor) -> tuple[Tensor]:
            window0, window1 = self.loftr_fine(
                _windows(fine0, index0), _windows(fine1, index1)
            )
            centre = window0[:, WINDOW**2 // 2]
            logits = torch.einsum("mc,mrc->mr", centre, window1)
            return (torch.softmax(logits / centre.shape[1] ** 0.5, dim=1),)

        (heat,) = in_batches(stage, chosen.index0, chosen.index1)
        offsets = (square(WINDOW, heat.device) - WINDOW // 2) * FINE_CELL
        offsets = offsets.to(heat.dtype)
        # A point belongs to the cell whose corner is nearest: networks of LoFTR's
        # family were trained to round, so that the corner is the middle.
        cell = cell_corner(chosen.index1, cells.size1[1])
        return {
            "source": cell_corner(chosen.index0, cells.size0[1]) - 0.5,
            "target": cell + wide(heat) @ wide(offsets) - 0.5,
            "cell": cell - 0.5,
            "confidence": chosen.confidence,
            "fine_std": grid_std(heat, offsets),
            "coarse_std": CELL * chosen.spread,
        }


def _windows(fine: Tensor, index: Tensor) -> Tensor:
    """The chosen cells' windows of the fine map, (m, 25, 128)."""
    step = CELL // FINE_CELL
    return cell_windows(fine, index, side=WINDOW, step=step, margin=WINDOW // 2)
