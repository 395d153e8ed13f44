"""GIM-LoFTR: LoFTR's heads on a ResNet-50 that saw fifty hours of internet video.

The fine windows see no coarse features, as LoFTR's do. Module names are kornia's.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from semisure.io.images import Image
from semisure.matchers.checkpoint import load_checkpoint, plain_name
from semisure.matchers.layers import Bottleneck, conv
from semisure.matchers.loftr import LoFTR
from semisure.matchers.network import rgb


@dataclass(frozen=True, slots=True, kw_only=True)
class GimLoFTR(LoFTR):
    """GIM-LoFTR, with the settings of :class:`~semisure.matchers.loftr.LoFTR`."""

    name = "gim-loftr"
    multiple = 8
    coarse_in_fine = False

    @classmethod
    def network(cls) -> Any:
        network = super(GimLoFTR, cls).network()
        backbone = network.backbone  # a pyramid on basic blocks: these become ResNet-50
        backbone.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        backbone.bn1 = nn.BatchNorm2d(64)
        backbone.layer1 = _stage(64, 64, 1, 3)
        backbone.layer2 = _stage(256, 128, 2, 4)
        backbone.layer3 = _stage(512, 256, 2, 6)
        backbone.layer1_outconv = conv(256, 196)
        backbone.layer2_outconv = conv(512, 256)
        backbone.layer3_outconv = conv(1024, 256)
        return network

    def load(self, path: Path) -> Any:
        return load_checkpoint(self.network(), path, rename=library_name)

    def channels(self, image: Image) -> Image:
        return rgb(image)


def library_name(name: str) -> str:
    """kornia's name of a tensor of the official checkpoint."""
    return plain_name(name).replace("backbone.encode.", "backbone.")


def _stage(inputs: int, width: int, stride: int, blocks: int) -> nn.Sequential:
    rest = (Bottleneck(4 * width, width) for _ in range(blocks - 1))
    return nn.Sequential(Bottleneck(inputs, width, stride), *rest)
