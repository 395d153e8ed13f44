"""EDM's network: a lean ResNet, attention at 1/32 only, offsets read off two axes.

Module names are the official checkpoint's. Its tensors under `fine_matching.flow`, a
density that only the training loss uses, have no counterpart here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from semisure.matchers._batches import first_layers, stacked
from semisure.matchers._cues import cell_corner, wide
from semisure.matchers._dual import CellMatches, Cells, taken, top_cells
from semisure.matchers._resnet import Stem, basic_stage, conv, doubled
from semisure.matchers._transformer import Projections, Stack, rotated

CELL = 8  # px between coarse cells
TRAINING_ONLY = ("fine_matching.flow.",)
DIMS = (32, 64, 128, 256, 256)  # channels at 1/2 … 1/32
WIDTH = DIMS[-1]
TEMPERATURE = 0.1
SHARPNESS = 20.0  # of the cosine attention
BINS = 17  # offsets from −4 to 4 px along each axis
BIN_PX = CELL / (BINS - 1)
MIN_SCORE = 1e-6


class RawMatches(NamedTuple):
    """Matches in px whose origin is the image's corner, and what they came from."""

    source: Tensor  # (m, 2)
    target: Tensor  # (m, 2)
    chosen: CellMatches
    side: Tensor  # (m,) the image whose point was moved
    heat: Tensor  # (m, 2, 17) over the offsets along x and y
    sigma: Tensor  # (m, 2) px, the head's own scale
    cells: Cells


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


class Backbone(Stem):
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
    q, k = (nn.functional.normalize(x.transpose(1, 2), dim=-1) for x in (query, key))
    v = value.transpose(1, 2)
    out = nn.functional.scaled_dot_product_attention(q, k, v, scale=SHARPNESS)
    return out.transpose(1, 2)


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
        self.loftr_32 = Stack(NeckLayer(rotary=k % 2 == 0) for k in range(4))

    @staticmethod
    def _mixing() -> nn.Sequential:
        depthwise = _unit(WIDTH, WIDTH, 3, groups=WIDTH, act=nn.GELU())
        return nn.Sequential(depthwise, _unit(WIDTH, WIDTH))

    def informed(self, f0: Tensor, f1: Tensor) -> tuple[Tensor, Tensor]:
        """Maps at 1/32 after self, cross, self and cross attention."""
        x0, x1 = (self.fc32(f).permute(0, 2, 3, 1) for f in (f0, f1))
        x0, x1 = self.loftr_32(x0, x1)
        return x0.permute(0, 3, 1, 2), x1.permute(0, 3, 1, 2)

    def injected(self, f8: Tensor, f16: Tensor, f32: Tensor) -> Tensor:
        """The map at 1/8, gated and lifted by the coarser ones."""
        gate, lift = doubled(self.att32(f32)), doubled(f32)
        f16 = self.dwconv16(self.fc16(f16) * gate + lift)
        gate, lift = doubled(self.att16(f16)), doubled(f16)
        return self.dwconv8(self.fc8(f8) * gate + lift)


class FineHead(nn.Module):
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
        self.backbone = Backbone()
        self.neck = Neck()
        self.fine_matching = FineHead()

    def features(
        self, images0: Sequence[Tensor], images1: Sequence[Tensor]
    ) -> list[tuple[Cells, Tensor, Tensor]]:
        """Coarse cells, and what the fine stage reads of each, (n, 256), by pair."""
        both = first_layers(self.backbone, images0, images1)
        maps0, maps1 = ([stacked(m) for m in zip(*maps, strict=True)] for maps in both)
        maps0[2], maps1[2] = self.neck.informed(maps0[2], maps1[2])
        c0, c1 = self.neck.injected(*maps0[:3]), self.neck.injected(*maps1[:3])
        size0, size1 = ((c.shape[2], c.shape[3]) for c in (c0, c1))
        flat0, flat1, fine0, fine1 = (
            m.flatten(2).mT for m in (c0, c1, maps0[3], maps1[3])
        )
        sharp = flat0 / (WIDTH * TEMPERATURE)
        fine0, fine1 = fine0 + flat0, fine1 + flat1
        return [
            (Cells(f0, f1, size0, size1), at0, at1)
            for f0, f1, at0, at1 in zip(sharp, flat1, fine0, fine1, strict=True)
        ]

    def forward(
        self,
        images0: Sequence[Tensor],
        images1: Sequence[Tensor],
        threshold: float,
        share: float,
    ) -> list[RawMatches]:
        """Of each pair the best `share` of image 0's cells, moved on the surer side."""
        found = []
        pairs = zip(images0, images1, self.features(images0, images1), strict=True)
        for image0, image1, features in pairs:
            raw = self._matches(*features, threshold, share)
            found.append(_plausible(raw, image0, image1))
        return found

    def _matches(
        self,
        cells: Cells,
        fine0: Tensor,
        fine1: Tensor,
        threshold: float,
        share: float,
    ) -> RawMatches:
        best = top_cells(
            cells.f0, cells.f1, cells.size1, count=int(len(cells.f0) * share)
        )
        best = taken(best, best.confidence > threshold)
        index0, index1 = best.index0, best.index1
        heat1, sigma1 = self.fine_matching(fine0[index0], fine1[index1])
        heat0, sigma0 = self.fine_matching(fine1[index1], fine0[index0])
        moves1 = sigma1.mean(dim=1) < sigma0.mean(dim=1)
        # Those that move in image 1 come first, as in the official order.
        order = torch.cat([torch.where(moves1)[0], torch.where(~moves1)[0]])
        side = moves1[order].long()
        on1 = moves1[order, None]
        heat = torch.where(on1[..., None], heat1[order], heat0[order])
        sigma = torch.where(on1, sigma1[order], sigma0[order])
        chosen = taken(best, order)
        moved = (wide(heat) @ wide(offsets(heat)))[:, None] * torch.stack(
            [~on1, on1], dim=1
        )
        source = cell_corner(chosen.index0, cells.size0[1], CELL) + moved[:, 0]
        target = cell_corner(chosen.index1, cells.size1[1], CELL) + moved[:, 1]
        return RawMatches(source, target, chosen, side, heat, sigma, cells)


def _plausible(raw: RawMatches, image0: Tensor, image1: Tensor) -> RawMatches:
    """The matches that lie in both images and whose scale is not the largest."""
    kept = wide(1.0 - raw.sigma.mean(dim=1) / CELL) > MIN_SCORE
    for points, image in ((raw.source, image0), (raw.target, image1)):
        end = points.new_tensor([image.shape[3], image.shape[2]])
        kept &= ((points >= 0) & (points <= end)).all(dim=1)
    source, target, chosen, *rest, cells = raw
    chosen = taken(chosen, kept)
    side, heat, sigma = (t[kept.to(t.device)] for t in rest)
    return RawMatches(source[kept], target[kept], chosen, side, heat, sigma, cells)


def offsets(like: Tensor) -> Tensor:
    """Offsets (17,) px of the bins."""
    k = torch.arange(BINS, device=like.device, dtype=like.dtype)
    return k * BIN_PX - CELL / 2
