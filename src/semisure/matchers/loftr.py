"""LoFTR by kornia, with its cues.

The library's modules in the library's order and so its matches, but the dual softmax
in tiles, and the fine stage in batches: 1280 × 960 fits in 2 GB. The refined point is
image 1's; image 0's lies on the grid of 8 px cells.

The weights were trained with pixel centres at (x + 0.5, y + 0.5), as in COLMAP; half a
pixel is taken off, since centres are at integers here.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from semisure.io.images import Image
from semisure.matchers._batches import (
    PairNetwork,
    Views,
    first_layers,
    stacked,
)
from semisure.matchers._network import imports_of
from semisure.matchers._view import View, assemble, grey, view_of
from semisure.matchers._weights import Weights, obtain
from semisure.types import FloatArray, Matches, as_choice

Variant = Literal["outdoor", "indoor", "indoor-new"]
FILES: dict[Variant, str] = {
    "outdoor": "loftr_outdoor.ckpt",
    "indoor": "loftr_indoor.ckpt",
    "indoor-new": "loftr_indoor_ds_new.ckpt",
}
WEIGHTS: dict[str, Weights] = {
    variant: Weights(
        filename=name, hub="kornia/loftr", licence="Apache-2.0", about=46_000_000
    )
    for variant, name in FILES.items()
}

STRIDE_COARSE, STRIDE_FINE = 8, 2  # px
WINDOW = 5  # fine cells a side, 8 px from the first to the last
BORDER = 2  # cells
TEMPERATURE = 0.1
MIN_SIDE = (2 * BORDER + 1) * STRIDE_COARSE
FINE_BATCH = 1024  # matches; 25 × 256 floats each, several times over


@dataclass(frozen=True, slots=True, kw_only=True)
class LoFTR(PairNetwork):
    """LoFTR; `loftr(image0, image1)` gives :class:`Matches` refined in image 1.

    Parameters
    ----------
    variant
        The training data: ``outdoor`` (MegaDepth), ``indoor`` or ``indoor-new``
        (ScanNet; the latter with the position encoding corrected).
    threshold
        Least confidence of a match; the authors use 0.2, and 0.1 for HPatches.
    max_side, device, weights
        As in :class:`~semisure.matchers._network.Network`.
    """

    variant: Variant = "outdoor"
    threshold: float = 0.2

    def _load(self) -> Any:
        variant = as_choice("variant", self.variant, tuple(FILES))
        with imports_of("kornia", "LoFTR"):
            from kornia.feature.loftr.loftr import LoFTR as KorniaLoFTR
            from kornia.feature.loftr.loftr import default_cfg

            from semisure.matchers._checkpoint import load_checkpoint
        config: dict[str, Any] = copy.deepcopy(default_cfg)
        config["coarse"]["temp_bug_fix"] = variant == "indoor-new"
        model = KorniaLoFTR(pretrained=None, config=config)
        return load_checkpoint(model, obtain(WEIGHTS[variant], self.weights))

    def _view(self, image: Image) -> View:
        return view_of(image, self.max_side, min_side=MIN_SIDE)

    def _together(self, pairs: Sequence[Views]) -> list[Matches]:
        with self.running():
            found = _match(self, *self.pixels(pairs, grey))
        return [
            assemble(
                views,
                **arrays,
                fine_window=float(STRIDE_COARSE),
                side=1,
                half_cell=STRIDE_COARSE / 2,
            )
            for views, arrays in zip(pairs, found, strict=True)
        ]


def _match(
    loftr: LoFTR, images0: Sequence[Any], images1: Sequence[Any]
) -> list[dict[str, FloatArray]]:
    """Points and cues in the pixels of the views, of each pair."""
    from semisure.matchers._cues import as_arrays

    model = loftr.model
    both = first_layers(partial(_features, model), images0, images1)
    tokens = []
    for maps in both:
        coarse = stacked([coarse for coarse, _ in maps])
        tokens.append(coarse.flatten(2).mT.contiguous())
    c0, c1 = model.loftr_coarse(*tokens)
    return [
        as_arrays(_heads(loftr, (c0[k : k + 1], c1[k : k + 1]), maps))
        for k, maps in enumerate(zip(*both, strict=True))
    ]


def _heads(loftr: LoFTR, cells: tuple[Any, Any], maps: Any) -> dict[str, Any]:
    """Matches and cues from the cells (1, n, 256) and the maps of one pair."""
    from semisure.matchers._cues import cell_corner
    from semisure.matchers._dual import mutual_cells

    size0, size1 = (tuple(coarse.shape[2:]) for coarse, _ in maps)
    f0, f1 = cells[0][0] / (cells[0].shape[-1] * TEMPERATURE), cells[1][0]
    index0, index1, confidence, spread = mutual_cells(
        f0, f1, size0, size1, threshold=loftr.threshold, border=BORDER
    )
    fine = [at_half for _, at_half in maps]
    offset, fine_std = _refine(loftr.model, fine, cells, index0, index1)
    # Cells were numbered by rounding: their corners are the middles of what is
    # nearest to them.
    cell = cell_corner(index1, size1[1], STRIDE_COARSE) - 0.5
    return {
        "source": cell_corner(index0, size0[1], STRIDE_COARSE) - 0.5,
        "target": cell + offset,
        "cell": cell,
        "confidence": confidence,
        "fine_std": fine_std,
        "coarse_std": STRIDE_COARSE * spread,
    }


def _features(model: Any, image: Any) -> tuple[Any, Any]:
    """Coarse and fine map of images (n, 1, h, w), as `extract_features` gives them.

    A pair's images one after the other, and the last layers in strips: nothing is
    larger than maps at half size, of which the library's own way holds six.
    """
    from semisure.matchers._strips import in_strips

    backbone = model.backbone
    half = backbone.relu(backbone.bn1(backbone.conv1(image)))
    half = backbone.layer1(half)
    quarter = backbone.layer2(half)
    coarse = backbone.layer3_outconv(backbone.layer3(quarter))
    quarter = backbone.layer2_outconv(quarter)
    quarter = backbone.layer2_outconv2(quarter + _doubled(coarse, quarter))
    above = _doubled(quarter, half)

    def last(rows: slice) -> Any:  # two convolutions of 3 × 3
        strip = backbone.layer1_outconv(half[:, :, rows]) + above[:, :, rows]
        return backbone.layer1_outconv2(strip)

    fine = in_strips(last, half.shape[2], halo=2)
    return model.pos_encoding(coarse), fine


def _doubled(small: Any, large: Any) -> Any:
    """The small map at twice its size, cut to that of the large one."""
    from torch.nn.functional import interpolate

    twice = interpolate(small, scale_factor=2.0, mode="bilinear", align_corners=True)
    return twice[..., : large.shape[2], : large.shape[3]]


def _refine(
    model: Any, fine: list[Any], coarse: tuple[Any, Any], index0: Any, index1: Any
) -> tuple[Any, Any]:
    """Offset and std (m, 2) px in image 1, from the heat map of each match."""
    import torch

    from semisure.matchers._cues import grid_mean, grid_std, square, wide

    cells = square(WINDOW, index0.device).float() - WINDOW // 2
    means = [wide(cells[:0])]
    stds = [wide(cells[:0])]
    for start in range(0, len(index0), FINE_BATCH):
        batch = slice(start, start + FINE_BATCH)
        data = {
            "b_ids": torch.zeros_like(index0[batch]),
            "i_ids": index0[batch],
            "j_ids": index1[batch],
            "stride_c": STRIDE_COARSE,
            "stride_f": STRIDE_FINE,
        }
        f0, f1 = model.loftr_fine(*model.fine_preprocess(*fine, *coarse, data))
        similarity = torch.einsum("mc,mrc->mr", f0[:, len(cells) // 2], f1)
        heat = torch.softmax(similarity / f0.shape[-1] ** 0.5, dim=1)
        means.append(grid_mean(heat, STRIDE_FINE * cells))
        stds.append(grid_std(heat, STRIDE_FINE * cells))
    return torch.cat(means), torch.cat(stds)
