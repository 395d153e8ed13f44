"""GIM-LoFTR: LoFTR's heads on a ResNet-50 that saw fifty hours of internet video.

The fine windows see no coarse features, as LoFTR's do. Module names are the official
checkpoint's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from semisure.io.images import Image
from semisure.matchers.layers import Bottleneck, Pyramid
from semisure.matchers.loftr import LoFTR
from semisure.matchers.network import rgb


@dataclass(frozen=True, slots=True, kw_only=True)
class GimLoFTR(LoFTR):
    """GIM-LoFTR; `gim(image0, image1)` gives :class:`Matches` refined in image 1.

    Parameters
    ----------
    threshold, max_side, device, weights
        As in :class:`~semisure.matchers.loftr.LoFTR`.
    """

    name = "gim-loftr"
    multiple = 8
    coarse_in_fine = False

    @classmethod
    def network(cls) -> Any:
        network = super(GimLoFTR, cls).network()
        network.backbone = Backbone()
        return network

    def channels(self, image: Image) -> Image:
        return rgb(image)


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


class Backbone(Pyramid):
    """Coarse features (256 channels at 1/8) and fine ones (128 at 1/2) of an image."""

    def __init__(self) -> None:
        super().__init__((256, 512, 1024), (128, 196, 256), align_corners=True)
        self.encode = Encoder()

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        half, quarter, eighth = self.encode(image)
        coarse = self.layer3_outconv(eighth)
        return coarse, self.merged(coarse, quarter, half)
