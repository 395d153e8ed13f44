"""GIM-LoFTR's network: LoFTR on the first three stages of a ResNet-50 that sees RGB.

Module names are the official checkpoint's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from semisure.matchers._batches import first_layers, stacked
from semisure.matchers._cues import cell_corner, cell_windows, square, wide
from semisure.matchers._dual import CellMatches, Cells, mutual_cells
from semisure.matchers._resnet import Bottleneck, conv, doubled, merging
from semisure.matchers._strips import doubled_rows, in_strips
from semisure.matchers._transformer import EncoderLayer, Stack, linear_attention

CELL = 8  # px between coarse cells
TEMPERATURE = 0.1
WINDOW = 5  # cells of the fine map along each side of the fine window
FINE_CELL = 2  # px
BORDER = 2  # coarse cells without matches along the image's edges
FINE_BATCH = 1024  # matches refined at a time


class RawMatches(NamedTuple):
    """Matches in px whose origin is the image's corner, and what they came from."""

    source: Tensor  # (m, 2)
    target: Tensor  # (m, 2)
    chosen: CellMatches
    heat: Tensor  # (m, 25) over the fine window in image 1
    cells: Cells


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
        x = self.bn1(self.conv1(image)).relu_()
        # Three blocks, each with one 3 × 3 convolution.
        half = in_strips(lambda rows: self.layer1(x[:, :, rows]), x.shape[2], halo=3)
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
        del quarter, eighth, above

        def fine(rows: slice) -> Tensor:
            above = doubled_rows(x, rows)
            return self.layer1_outconv2(self.layer1_outconv(half[:, :, rows]) + above)

        return coarse, in_strips(fine, half.shape[2], halo=2)


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

    def features(
        self, images0: Sequence[Tensor], images1: Sequence[Tensor]
    ) -> list[tuple[Cells, Tensor, Tensor]]:
        """Coarse cells and the two fine maps (1, 128, h / 2, w / 2) of each pair."""
        both = first_layers(self.backbone, images0, images1)
        coarse0, coarse1 = (stacked([coarse for coarse, _ in maps]) for maps in both)
        size0, size1 = ((c.shape[2], c.shape[3]) for c in (coarse0, coarse1))
        x0, x1 = (_encoded(c).flatten(2).transpose(1, 2) for c in (coarse0, coarse1))
        x0, x1 = self.loftr_coarse(x0, x1)
        sharp = x0 / (x0.shape[2] * TEMPERATURE)
        return [
            (Cells(f0, f1, size0, size1), fine0, fine1)
            for f0, f1, (_, fine0), (_, fine1) in zip(sharp, x1, *both, strict=True)
        ]

    def forward(
        self, images0: Sequence[Tensor], images1: Sequence[Tensor], threshold: float
    ) -> list[RawMatches]:
        """The matches of each pair."""
        pairs = self.features(images0, images1)
        return [self._matches(*features, threshold) for features in pairs]

    def _matches(
        self, cells: Cells, fine0: Tensor, fine1: Tensor, threshold: float
    ) -> RawMatches:
        chosen = mutual_cells(*cells, threshold=threshold, border=BORDER)
        heats = [fine0.new_zeros(0, WINDOW**2)]
        for k in range(0, len(chosen.index0), FINE_BATCH):
            batch = slice(k, k + FINE_BATCH)
            window0 = _windows(fine0, chosen.index0[batch])
            window1 = _windows(fine1, chosen.index1[batch])
            heats.append(self._heat(*self.loftr_fine(window0, window1)))
        heat = torch.cat(heats)
        source = cell_corner(chosen.index0, cells.size0[1], CELL)
        target = cell_corner(chosen.index1, cells.size1[1], CELL)
        target = target + wide(heat) @ wide(offsets(heat))
        return RawMatches(source, target, chosen, heat, cells)

    @staticmethod
    def _heat(window0: Tensor, window1: Tensor) -> Tensor:
        centre = window0[:, WINDOW**2 // 2]
        logits = torch.einsum("mc,mrc->mr", centre, window1) / centre.shape[1] ** 0.5
        return torch.softmax(logits, dim=1)


def _windows(fine: Tensor, index: Tensor) -> Tensor:
    """The chosen cells' windows of the fine map, (m, 25, 128)."""
    step = CELL // FINE_CELL
    return cell_windows(fine, index, side=WINDOW, step=step, margin=WINDOW // 2)


def offsets(like: Tensor) -> Tensor:
    """Offsets (25, 2) px of the fine window's cells from its centre."""
    steps = square(WINDOW, like.device) - WINDOW // 2
    return (steps * FINE_CELL).to(like.dtype)
