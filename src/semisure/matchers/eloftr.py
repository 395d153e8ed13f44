"""EfficientLoFTR: the network of transformers, our own coarse and fine heads.

That library's matching head pairs the wrong rows and loses the sub-pixel part, so only
its layers and names are used; the heads follow the original. Images may differ in size,
as the original allows and the library does not. The refined point is image 1's: the
first fine stage moves both points to a pixel of their windows, the second one image 1's
alone by a 3 × 3 heat map. The fine std adds the variances of both.

Half a pixel is taken off, as for LoFTR: the weights were trained with pixel centres at
(x + 0.5, y + 0.5).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate
from transformers import EfficientLoFTRConfig as Config
from transformers import EfficientLoFTRForKeypointMatching as Matching

from semisure.matchers.checkpoint import load_checkpoint
from semisure.matchers.cues import (
    BORDER,
    CELL,
    SUBPIXEL,
    around_pixel,
    best_pixels,
    cell_corner,
    cell_windows,
    cells_of,
    grid_mean,
    grid_std,
    in_batches,
    mutual_cells,
    row_spread,
    square,
    wide,
)
from semisure.matchers.layers import full_attention, rotated
from semisure.matchers.network import Network

REGRESS_TEMPERATURE = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EfficientLoFTR(Network):
    """EfficientLoFTR; `eloftr(image0, image1)` gives matches refined in image 1.

    `threshold` is the least confidence of a match; the authors use 0.2, and 0.1 for
    MegaDepth. The other settings are those of a
    :class:`~semisure.matchers.network.Network`.
    """

    name = "eloftr"
    min_side = (2 * BORDER + 1) * CELL
    multiple = 32  # attention aggregates 4 × 4 cells

    threshold: float = 0.2

    @classmethod
    def network(cls) -> Any:
        return Matching(Config())

    def load(self, path: Path) -> Any:
        return load_checkpoint(self.network(), path, rename=_library_name)

    def _match(self, image0: Tensor, image1: Tensor) -> dict[str, Tensor]:
        model = self.model
        maps = [model.efficientloftr.backbone(image) for image in (image0, image1)]
        coarse = _transform(model, maps[0][-1], maps[1][-1])
        fine = [
            model.refinement_layer.forward_pyramid(c / c.shape[1] ** 0.5, m[-2::-1])
            for c, m in zip(coarse, maps, strict=True)
        ]
        return _heads(coarse, fine, self.threshold)


# Names of tensors in the original checkpoint, and in the library.
_RENAMED = (
    (r"^matcher\.", ""),
    (r"^backbone\.layer0\.", "efficientloftr.backbone.stages.0.blocks.0."),
    (r"^backbone\.layer(\d)\.(\d+)\.", r"efficientloftr.backbone.stages.\1.blocks.\2."),
    (r"\.rbr_dense\.", ".conv1."),
    (r"\.rbr_1x1\.", ".conv2."),
    (r"\.rbr_identity\.", ".identity."),
    (r"\.(conv[12])\.bn\.", r".\1.norm."),
    (r"^loftr_coarse\.", "efficientloftr.local_feature_transformer."),
    (r"\.aggregate\.", ".aggregation.q_aggregation."),
    (r"\.norm1\.", ".aggregation.norm."),
    (r"\.([qkv]_proj)\.", r".attention.\1."),
    (r"\.merge\.", ".attention.o_proj."),
    (r"\.mlp\.0\.", ".mlp.fc1."),
    (r"\.mlp\.2\.", ".mlp.fc2."),
    (r"\.norm2\.", ".mlp.layer_norm."),
    (r"^fine_preprocess\.layer3_outconv\.", "refinement_layer.out_conv."),
    (r"^fine_preprocess\.layer2_", "refinement_layer.out_conv_layers.0."),
    (r"^fine_preprocess\.layer1_", "refinement_layer.out_conv_layers.1."),
    (r"\.outconv\.", ".out_conv1."),
    (r"\.outconv2\.0\.", ".out_conv2."),
    (r"\.outconv2\.1\.", ".batch_norm."),
    (r"\.outconv2\.3\.", ".out_conv3."),
)


def _library_name(name: str) -> str:
    """The library's name of a tensor of the original checkpoint; its own stay."""
    if name.startswith(("efficientloftr.", "refinement_layer.")):
        return name
    for pattern, replacement in _RENAMED:
        name = re.sub(pattern, replacement, name)
    # Layers alternate there between self and cross attention; here a layer has both.
    attention = ("self_attention", "cross_attention")
    return re.sub(
        r"(transformer\.layers)\.(\d+)\.",
        lambda m: f"{m[1]}.{int(m[2]) // 2}.{attention[int(m[2]) % 2]}.",
        name,
    )


def _heads(
    coarse: list[Tensor], fine: list[Tensor], threshold: float
) -> dict[str, Tensor]:
    """Matches and cues from coarse maps (1, 256, h, w), fine ones (1, 64, 8h, 8w)."""
    cells = cells_of(*coarse)
    index0, index1, confidence = mutual_cells(cells, threshold=threshold)

    def stages(index0: Tensor, index1: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        window0 = cell_windows(fine[0], index0, side=CELL, margin=0)
        return _two_stages(
            window0, cell_windows(fine[1], index1, side=CELL + 2, margin=1)
        )

    moved0, moved1, fine_std = in_batches(stages, index0, index1)
    cell = cell_corner(index1, cells.size1[1]) - 0.5
    return {
        "source": cell_corner(index0, cells.size0[1]) + moved0 - 0.5,
        "target": cell + moved1,
        "cell": cell,
        "confidence": confidence,
        "fine_std": fine_std,
        "coarse_std": CELL * row_spread(cells, index0),
    }


def _transform(model: Any, f0: Tensor, f1: Tensor) -> list[Tensor]:
    """Coarse maps (n, 256, h, w) after self and cross attention."""
    for layer in model.efficientloftr.local_feature_transformer.layers:
        f0 = _attend(layer.self_attention, f0, f0, rotary=True)
        f1 = _attend(layer.self_attention, f1, f1, rotary=True)
        f0 = _attend(layer.cross_attention, f0, f1)
        f1 = _attend(layer.cross_attention, f1, f0)  # the new f0, as it was trained
    return [f0, f1]


def _attend(block: Any, hidden: Tensor, source: Tensor, rotary: bool = False) -> Tensor:
    """One block of aggregated attention from `hidden` (n, c, h, w) to `source`."""
    query, key_value = block.aggregation(hidden, source)
    _, rows, columns, channels = query.shape
    layer = block.attention
    q, k, v = layer.q_proj(query), layer.k_proj(key_value), layer.v_proj(key_value)
    if rotary:
        q, k = rotated(q, rounded=False), rotated(k, rounded=False)
    q, k, v = (t.flatten(1, 2).unflatten(2, (-1, layer.head_dim)) for t in (q, k, v))
    message = layer.o_proj(full_attention(q, k, v, layer.scaling).flatten(2))
    message = message.mT.reshape(len(hidden), channels, rows, columns)
    message = interpolate(message, scale_factor=4, mode="bilinear", align_corners=False)
    both = torch.cat([hidden, message], dim=1).permute(0, 2, 3, 1)
    attended: Tensor = hidden + block.mlp(both).permute(0, 3, 1, 2)
    return attended


def _two_stages(w0: Tensor, w1: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Moves of both points and std in image 1 from windows (m, 64, c), (m, 100, c)."""
    best0, best1, first = best_pixels(w0, w1)
    # The window's middle stands for the cell's corner: the network was trained so.
    grid = square(CELL, w0.device) - CELL // 2 + 0.5
    every = torch.arange(len(w0), device=w0.device)
    middle = w0[every, best0, -SUBPIXEL:]
    around = around_pixel(w1[..., -SUBPIXEL:], best1)
    logits = torch.einsum("mc,mrc->mr", middle, around)
    logits = logits / SUBPIXEL**0.5 / REGRESS_TEMPERATURE
    second, step = logits.softmax(dim=1), square(3, w0.device) - 1
    first_std = grid_std(first, square(CELL + 2, w0.device))
    std = (grid_std(second, step) ** 2 + first_std**2).sqrt()
    return wide(grid[best0]), wide(grid[best1]) + grid_mean(second, step), std
