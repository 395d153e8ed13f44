"""CoMatch: attention weighed by covisibility, sub-pixel points in both images.

Both points of a match leave the grid. The residual is taken in image 1, so `side` is 1:
the fine cue there is the variance over the window's pixels, given the pixel chosen in
image 0, plus that of the 3 × 3 step after it. What image 0's own step adds is left to
the calibration's gain. Module names are the official checkpoint's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, max_pool2d, unfold

from semisure.matchers.cues import (
    CELL,
    SUBPIXEL,
    Cells,
    around_pixel,
    best_pixels,
    cell_corner,
    cell_windows,
    cells_of,
    grid_std,
    in_batches,
    mutual_cells,
    row_spread,
    square,
    wide,
)
from semisure.matchers.layers import (
    EncoderLayer,
    Projections,
    Stem,
    conv,
    doubled,
    full_attention,
    rotated,
)
from semisure.matchers.network import Network

WIDTH = 256
POOL = 4  # coarse cells that share one place in the attention, along each side
WINDOW = CELL + 2  # px: a cell and one pixel around it


@dataclass(frozen=True, slots=True, kw_only=True)
class CoMatch(Network):
    """CoMatch; `comatch(image0, image1)` gives :class:`Matches` with cues in image 1.

    `threshold` is the least confidence of a match; the authors evaluate with 0.1. The
    other settings are those of a :class:`~semisure.matchers.network.Network`.
    """

    name = "comatch"
    min_side = 64  # less is all border
    multiple = 32

    threshold: float = 0.2

    @classmethod
    def network(cls) -> CoMatchNet:
        return CoMatchNet()

    def _match(self, image0: Tensor, image1: Tensor) -> dict[str, Tensor]:
        answer: dict[str, Tensor] = self.model(image0, image1, self.threshold)
        return answer


class Features(NamedTuple):
    """The features of two images for both stages."""

    cells: Cells
    fine0: Tensor  # (1, 64, h, w)
    fine1: Tensor


class Fine(NamedTuple):
    """The fine stages' answer for each match; offsets from the cells' corners, px."""

    offset0: Tensor  # (m, 2)
    offset1: Tensor  # (m, 2)
    std1: Tensor  # (m, 2) of both stages in image 1


class Backbone(Stem):
    """Maps at 1/2, 1/4 and 1/8."""

    def __init__(self) -> None:
        super().__init__(1, (64, 128, 256))
        self.layer3_outconv = conv(256, 256)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        half, quarter, eighth = self.pyramid(image)
        return half, quarter, self.layer3_outconv(eighth)


class CoarseLayer(Projections):
    """Attention between maps (n, c, h, w), pooled by 4 and weighed by covisibility."""

    def __init__(self, rotary: bool) -> None:
        super().__init__(WIDTH, 8, full_attention)
        self.rotary = rotary
        self.aggregate = nn.Conv2d(WIDTH, WIDTH, POOL, POOL, groups=WIDTH, bias=False)
        self.mlp = nn.Sequential(
            nn.Conv2d(2 * WIDTH, WIDTH, 1, bias=False),
            nn.ReLU(inplace=True),
            nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False),
        )

    def forward(
        self,
        x: Tensor,
        source: Tensor,
        seen: Tensor | None = None,
        source_seen: Tensor | None = None,
    ) -> Tensor:
        """`seen` and `source_seen` (n, 1, h, w): the covisibilities so far, if any."""
        query = self.aggregate(x if seen is None else x * seen)
        if source_seen is None:
            pooled = max_pool2d(source, POOL)
        else:
            pooled = _weighed(source, source_seen)
        query, pooled = (self.norm1(t.permute(0, 2, 3, 1)) for t in (query, pooled))
        rows, columns = query.shape[1:3]
        query, key = self.q_proj(query), self.k_proj(pooled)
        value = self.v_proj(pooled)
        if self.rotary:
            query, key = rotated(query), rotated(key)
        if source_seen is not None:
            value = value * max_pool2d(source_seen, POOL).permute(0, 2, 3, 1)
        message = self.attend(*(t.flatten(1, 2) for t in (query, key, value)))
        message = message.mT.reshape(len(x), WIDTH, rows, columns)
        message = interpolate(message, scale_factor=float(POOL), mode="bilinear")
        message = self.mlp(torch.cat([x, message], dim=1)).permute(0, 2, 3, 1)
        return x + self.norm2(message).permute(0, 3, 1, 2)


def _weighed(source: Tensor, seen: Tensor) -> Tensor:
    """Means over blocks of cells, weighed by a softmax of their covisibility."""
    n = len(source)
    weight = torch.softmax(unfold(seen, POOL, stride=POOL), dim=1)  # (n, 16, blocks)
    blocks = unfold(source, POOL, stride=POOL).view(n, WIDTH, POOL**2, -1)
    size = source.shape[2] // POOL, source.shape[3] // POOL
    return (blocks * weight[:, None]).sum(dim=2).view(n, WIDTH, *size)


class CoarseStack(nn.Module):
    """Four pairs of self- and cross-attention; covisibility is read after each pair."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(CoarseLayer(k % 2 == 0) for k in range(8))
        self.matchability_predictor = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(WIDTH, WIDTH, 3, padding=1, groups=WIDTH, bias=False),
                nn.ReLU(inplace=True),
                nn.Conv2d(WIDTH, 1, 1),
            )
            for _ in range(3)
        )

    def forward(self, x0: Tensor, x1: Tensor) -> tuple[Tensor, Tensor]:
        seen0 = seen1 = None
        for k in range(0, len(self.layers), 2):
            within, across = self.layers[k], self.layers[k + 1]
            x0 = within(x0, x0, seen0, seen0)
            x1 = within(x1, x1, seen1, seen1)
            x0 = across(x0, x1, seen0, seen1)
            x1 = across(x1, x0, seen1, seen0)
            if k // 2 < len(self.matchability_predictor):
                predict = self.matchability_predictor[k // 2]
                seen0, seen1 = predict(x0).sigmoid(), predict(x1).sigmoid()
        return x0, x1


class FineMaps(nn.Module):
    """Maps of 64 channels at full size, from the coarse features down."""

    def __init__(self) -> None:
        super().__init__()
        self.layer3_outconv = conv(256, 256)
        self.layer2_outconv = conv(128, 256)
        self.layer2_outconv2 = _merging(256, 128)
        self.layer1_outconv = conv(64, 128)
        self.layer1_outconv2 = _merging(128, 64)

    def forward(self, coarse: Tensor, quarter: Tensor, half: Tensor) -> Tensor:
        x = self.layer2_outconv(quarter) + doubled(self.layer3_outconv(coarse))
        x = self.layer1_outconv(half) + doubled(self.layer2_outconv2(x))
        return doubled(self.layer1_outconv2(x))


def _merging(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        conv(inputs, inputs, 3),
        nn.BatchNorm2d(inputs),
        nn.LeakyReLU(),
        conv(inputs, outputs, 3),
    )


class FineStack(nn.Module):
    """One cross-attention between the windows of a match."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([EncoderLayer(64, 4, full_attention)])

    def forward(self, x0: Tensor, x1: Tensor) -> tuple[Tensor, Tensor]:
        x0 = self.layers[0](x0, x1)
        return x0, self.layers[0](x1, x0)


class FineHead(nn.Module):
    """The best pair of pixels, then the expectation around each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.local_regress_temperature = nn.Parameter(torch.tensor(10.0))

    def forward(self, window0: Tensor, window1: Tensor) -> Fine:
        """Of windows (m, 100, 64) around both cells of each match."""
        pixel0, pixel1, pixels1 = best_pixels(window0, window1)
        around0 = around_pixel(window0[..., -SUBPIXEL:], pixel0)
        around1 = around_pixel(window1[..., -SUBPIXEL:], pixel1)
        middle = (around0[:, 4] + around1[:, 4]) / 2.0
        soften = SUBPIXEL**0.5 * self.local_regress_temperature
        heat0, heat1 = (
            torch.softmax(torch.einsum("mc,mrc->mr", middle, a) / soften, dim=1)
            for a in (around0, around1)
        )
        steps, pixels = _grid(3, heat0), _grid(CELL, heat0)
        first = grid_std(pixels1, _grid(WINDOW, pixels1))
        second = grid_std(heat1, steps)
        return Fine(
            pixels[pixel0] + wide(heat0) @ steps,
            pixels[pixel1] + wide(heat1) @ steps,
            (first**2 + second**2).sqrt(),
        )


def _grid(side: int, like: Tensor) -> Tensor:
    """Offsets (side², 2) px of a square's pixels from its middle, row by row."""
    return wide(square(side, like.device) - (side - 1) / 2)


class CoMatchNet(nn.Module):
    """CoMatch; images are grey (1, 1, h, w) in [0, 1] with sides in multiples of 32."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = Backbone()
        self.loftr_coarse = CoarseStack()
        self.coarse_matching = nn.ParameterDict({"temperature": torch.tensor(0.1)})
        self.fine_preprocess = FineMaps()
        self.loftr_fine = FineStack()
        self.fine_matching = FineHead()

    def features(self, image0: Tensor, image1: Tensor) -> Features:
        """Coarse cells and the two fine maps."""
        half0, quarter0, coarse0 = self.backbone(image0)
        half1, quarter1, coarse1 = self.backbone(image1)
        x0, x1 = self.loftr_coarse(coarse0, coarse1)
        cells = cells_of(x0, x1, self.coarse_matching["temperature"])
        fine0 = self.fine_preprocess(x0 / WIDTH**0.5, quarter0, half0)
        fine1 = self.fine_preprocess(x1 / WIDTH**0.5, quarter1, half1)
        return Features(cells, fine0, fine1)

    def forward(
        self, image0: Tensor, image1: Tensor, threshold: float
    ) -> dict[str, Tensor]:
        """Points and cues in px, pixel centres at integers."""
        features = self.features(image0, image1)
        cells = features.cells
        chosen = mutual_cells(cells, threshold=threshold)
        refine = partial(self.refine, features)
        fine = Fine(*in_batches(refine, chosen.index0, chosen.index1))
        cell0 = cell_corner(chosen.index0, cells.size0[1])
        cell1 = cell_corner(chosen.index1, cells.size1[1])
        return {
            "source": cell0 + fine.offset0 - 0.5,
            "target": cell1 + fine.offset1 - 0.5,
            # A point belongs to the cell whose corner is nearest: the network was
            # trained to round, so that the corner is the middle.
            "cell": cell1 - 0.5,
            "confidence": chosen.confidence,
            "fine_std": fine.std1,
            "coarse_std": CELL * row_spread(cells, chosen.index0),
        }

    def refine(self, features: Features, index0: Tensor, index1: Tensor) -> Fine:
        """Both fine stages for some matches."""
        windows = (
            cell_windows(fine, index, side=WINDOW, margin=1)
            for fine, index in ((features.fine0, index0), (features.fine1, index1))
        )
        return self.fine_matching(*self.loftr_fine(*windows))
