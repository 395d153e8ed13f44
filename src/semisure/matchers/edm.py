"""EDM: the best rows without a mutual check, offsets along x and y on the surer side.

A lean ResNet, attention at 1/32 only, offsets read off two axes. Each match is refined
in image 1 or in image 0, whichever its head is surer of; `side` says which, and the
coarse cue is the softmax over that image's cells. Module names are the official
checkpoint's. Its tensors under `fine_matching.flow`, a density that only the training
loss uses, have no counterpart here.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from semisure.matchers.checkpoint import load_checkpoint
from semisure.matchers.cues import (
    CELL,
    Cells,
    cell_corner,
    cells_of,
    grid_std,
    row_spread,
    top_cells,
    wide,
)
from semisure.matchers.layers import (
    Projections,
    Stem,
    basic_stage,
    conv,
    doubled,
    full_attention,
    rotated,
)
from semisure.matchers.network import Network

TRAINING_ONLY = ("fine_matching.flow.",)
DIMS = (32, 64, 128, 256, 256)  # channels at 1/2 … 1/32
WIDTH = DIMS[-1]
SHARPNESS = 20.0  # of the cosine attention
SHARE = 0.35  # of image 0's cells that are refined, the most confident first
BINS = 17  # offsets from −4 to 4 px along each axis
MIN_SCORE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Edm(Network):
    """EDM; `edm(image0, image1)` gives :class:`Matches` refined on either side.

    `threshold` is the least confidence of a match; the authors use 0.05 outdoors. The
    other settings are those of a :class:`~semisure.matchers.network.Network`.
    """

    name = "edm"
    min_side = 32
    multiple = 32

    threshold: float = 0.05

    @classmethod
    def network(cls) -> EdmNet:
        return EdmNet()

    def load(self, path: Path) -> EdmNet:
        return load_checkpoint(self.network(), path, skipped=TRAINING_ONLY)

    def _match(self, image0: Tensor, image1: Tensor) -> dict[str, Tensor]:
        answer: dict[str, Tensor]
        answer = self.model(image0, image1, self.threshold)
        return answer


def _unit(
    inputs: int,
    outputs: int,
    kernel: int = 1,
    groups: int = 1,
    act: nn.Module | None = None,
) -> nn.Sequential:
    """A convolution and its normalisation, and maybe an activation, over a map."""
    c = nn.Conv2d(
        inputs, outputs, kernel, padding=kernel // 2, groups=groups, bias=False
    )
    parts: OrderedDict[str, nn.Module] = OrderedDict(c=c, bn=nn.BatchNorm2d(outputs))
    return nn.Sequential(parts | ({} if act is None else {"a": act}))


def _dense(width: int) -> nn.Sequential:
    """The same over a sequence of matches, always with GELU."""
    c = nn.Conv1d(width, width, 1, bias=False)
    return nn.Sequential(OrderedDict(c=c, bn=nn.BatchNorm1d(width), a=nn.GELU()))


class EdmBackbone(Stem):
    """Maps at 1/8, 1/16 and 1/32, and one at 1/8 for the fine stage."""

    def __init__(self) -> None:
        super().__init__(1, DIMS)
        self.fine_conv = nn.Sequential(
            basic_stage(DIMS[2], DIMS[2], 1),
            conv(DIMS[2], WIDTH),
            nn.BatchNorm2d(WIDTH),
        )

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        _, _, f8, f16, f32 = self.pyramid(image)
        return f8, f16, f32, self.fine_conv(f8)


def cosine_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention by the angle; all arguments (n, cells, heads, d)."""
    q, k = (nn.functional.normalize(x, dim=-1) for x in (query, key))
    return full_attention(q, k, value, SHARPNESS)


class NeckLayer(Projections):
    """Attention between maps (n, h, w, c); rotary positions in self-attention only."""

    def __init__(self, rotary: bool) -> None:
        super().__init__(WIDTH, 8, cosine_attention)
        self.rotary = rotary
        self.mlp = nn.Sequential(
            nn.Linear(2 * WIDTH, 2 * WIDTH, bias=False),
            nn.LeakyReLU(inplace=True),
            nn.Linear(2 * WIDTH, WIDTH, bias=False),
        )

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        normed, source = self.norm1(x), self.norm1(source)
        query, key = self.q_proj(normed), self.k_proj(source)
        value = self.v_proj(source)
        if self.rotary:
            query, key = rotated(query), rotated(key)
        message = self.attend(*(t.flatten(1, 2) for t in (query, key, value)))
        message = self.mlp(torch.cat([x, message.view_as(x)], dim=-1))
        return x + self.norm2(message)


class Neck(nn.Module):
    """Attention between the images at 1/32, injected into their maps at 1/8."""

    def __init__(self) -> None:
        super().__init__()
        self.fc32 = _unit(DIMS[4], WIDTH)
        self.fc16 = _unit(DIMS[3], WIDTH)
        self.fc8 = _unit(DIMS[2], WIDTH)
        self.att32 = _unit(WIDTH, WIDTH, act=nn.Sigmoid())
        self.att16 = _unit(WIDTH, WIDTH, act=nn.Sigmoid())
        self.dwconv16 = self._mixing()
        self.dwconv8 = self._mixing()
        layers = nn.ModuleList(NeckLayer(rotary=k % 2 == 0) for k in range(4))
        self.loftr_32 = nn.ModuleDict({"layers": layers})

    @staticmethod
    def _mixing() -> nn.Sequential:
        depthwise = _unit(WIDTH, WIDTH, 3, groups=WIDTH, act=nn.GELU())
        return nn.Sequential(depthwise, _unit(WIDTH, WIDTH))

    def informed(self, f0: Tensor, f1: Tensor) -> tuple[Tensor, Tensor]:
        """Maps at 1/32 after self, cross, self and cross attention."""
        x0, x1 = (self.fc32(f).permute(0, 2, 3, 1) for f in (f0, f1))
        for k, layer in enumerate(self.loftr_32["layers"].children()):
            x0 = layer(x0, x1 if k % 2 else x0)
            x1 = layer(x1, x0 if k % 2 else x1)  # attends to the updated image 0
        return x0.permute(0, 3, 1, 2), x1.permute(0, 3, 1, 2)

    def injected(self, f8: Tensor, f16: Tensor, f32: Tensor) -> Tensor:
        """The map at 1/8, gated and lifted by the coarser ones."""
        gate, lift = doubled(self.att32(f32)), doubled(f32)
        f16 = self.dwconv16(self.fc16(f16) * gate + lift)
        gate, lift = doubled(self.att16(f16)), doubled(f16)
        return self.dwconv8(self.fc8(f8) * gate + lift)


class EdmFineHead(nn.Module):
    """Logits over the offsets along x and y, and a scale for each, of every match."""

    def __init__(self) -> None:
        super().__init__()
        self.query_encoder = nn.Sequential(_dense(WIDTH), _dense(WIDTH))
        self.reference_encoder = nn.Sequential(_dense(WIDTH), _dense(WIDTH))
        self.merge_qr = nn.Sequential(_dense(2 * WIDTH), _dense(2 * WIDTH))
        self.x_head = nn.Sequential(
            _dense(2 * WIDTH), nn.Conv1d(2 * WIDTH, BINS + 1, 1)
        )
        self.y_head = nn.Sequential(
            _dense(2 * WIDTH), nn.Conv1d(2 * WIDTH, BINS + 1, 1)
        )

    def forward(self, query: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
        """Softmax (m, 2, 17) and scale (m, 2) px of the reference's offset."""
        q = self.query_encoder(query[..., None])
        r = self.reference_encoder(reference[..., None])
        merged = self.merge_qr(torch.cat([q, r], dim=1))
        out = torch.stack([self.x_head(merged), self.y_head(merged)], dim=1)[..., 0]
        return torch.softmax(out[..., :BINS], dim=-1), CELL * out[..., -1].sigmoid()


class EdmNet(nn.Module):
    """EDM; images are grey (1, 1, h, w) in [0, 1] with sides in multiples of 32."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = EdmBackbone()
        self.neck = Neck()
        self.fine_matching = EdmFineHead()

    def features(self, image0: Tensor, image1: Tensor) -> tuple[Cells, Tensor, Tensor]:
        """Coarse cells, and what the fine stage reads of each, (n, 256)."""
        *maps0, fine0 = self.backbone(image0)
        *maps1, fine1 = self.backbone(image1)
        maps0[2], maps1[2] = self.neck.informed(maps0[2], maps1[2])
        c0, c1 = self.neck.injected(*maps0), self.neck.injected(*maps1)
        flat0, flat1, fine0, fine1 = (
            m[0].flatten(1).mT for m in (c0, c1, fine0, fine1)
        )
        return cells_of(c0, c1), fine0 + flat0, fine1 + flat1

    def forward(
        self, image0: Tensor, image1: Tensor, threshold: float
    ) -> dict[str, Tensor]:
        """Points and cues in px, pixel centres at integers; `side` was refined."""
        cells, fine0, fine1 = self.features(image0, image1)
        best = top_cells(cells, count=int(len(cells.f0) * SHARE))
        sure = best.confidence > threshold
        index0, index1 = best.index0[sure], best.index1[sure]
        heat1, sigma1 = self.fine_matching(fine0[index0], fine1[index1])
        heat0, sigma0 = self.fine_matching(fine1[index1], fine0[index0])
        moves1 = sigma1.mean(dim=1) < sigma0.mean(dim=1)
        heat = torch.where(moves1[:, None, None], heat1, heat0)
        sigma = torch.where(moves1[:, None], sigma1, sigma0).mean(dim=1)
        offsets = torch.linspace(-CELL / 2, CELL / 2, BINS).to(heat)
        offset = wide(heat) @ wide(offsets)
        corner0 = cell_corner(index0, cells.size0[1])
        corner1 = cell_corner(index1, cells.size1[1])
        in1 = moves1.to(offset.device)[:, None]
        source, target = corner0 + offset * ~in1, corner1 + offset * in1
        # The coarse cue is the spread over the image whose point was moved.
        back = Cells(cells.f1, cells.f0, cells.size1, cells.size0)
        spread = torch.where(in1, row_spread(cells, index0), row_spread(back, index1))
        answer = {
            "source": source - 0.5,
            "target": target - 0.5,
            "cell": torch.where(in1, corner1, corner0) - 0.5,
            "confidence": wide(best.confidence[sure]),
            "fine_std": grid_std(heat.flatten(0, 1), offsets[:, None]).view(-1, 2),
            "coarse_std": CELL * spread,
            "side": in1[:, 0],
        }
        # Matches in both images, whose scale is not the largest.
        valid = wide(1.0 - sigma / CELL) > MIN_SCORE
        for points, image in ((source, image0), (target, image1)):
            end = points.new_tensor([image.shape[3], image.shape[2]])
            valid &= ((points >= 0) & (points <= end)).all(dim=1)
        # Those that move in image 1 come first, as in the official order.
        order = torch.cat(
            [torch.where(valid & which)[0] for which in (in1[:, 0], ~in1[:, 0])]
        )
        return {name: values[order] for name, values in answer.items()}
