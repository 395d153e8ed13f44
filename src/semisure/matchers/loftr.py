"""LoFTR by kornia, with its cues.

The library's modules in the library's order and so its matches, but the dual softmax
in tiles, and the fine stage in batches. The refined point is image 1's; image 0's lies
on the grid of 8 px cells.

The weights were trained with pixel centres at (x + 0.5, y + 0.5), as in COLMAP; half a
pixel is taken off, since centres are at integers here.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
from kornia.feature.loftr.loftr import LoFTR as KorniaLoFTR
from kornia.feature.loftr.loftr import default_cfg
from torch import Tensor

from semisure.matchers.cues import (
    BORDER,
    CELL,
    TEMPERATURE,
    Cells,
    cell_corner,
    grid_mean,
    grid_std,
    in_batches,
    mutual_cells,
    row_spread,
    square,
)
from semisure.matchers.network import Network

FINE_CELL = 2  # px
WINDOW = 5  # fine cells a side, 8 px from the first to the last


@dataclass(frozen=True, slots=True, kw_only=True)
class LoFTR(Network):
    """LoFTR of outdoor scenes; `loftr(image0, image1)` gives :class:`Matches`.

    `threshold` is the least confidence of a match; the authors use 0.2, and 0.1 for
    HPatches. The other settings are those of a
    :class:`~semisure.matchers.network.Network`.
    """

    name = "loftr"
    min_side = (2 * BORDER + 1) * CELL

    encoding_fixed: ClassVar[bool] = False
    coarse_in_fine: ClassVar[bool] = True  # fine windows see the coarse features

    threshold: float = 0.2

    @classmethod
    def network(cls) -> Any:
        config: dict[str, Any] = copy.deepcopy(default_cfg)
        config["coarse"]["temp_bug_fix"] = cls.encoding_fixed
        config["fine_concat_coarse_feat"] = cls.coarse_in_fine
        return KorniaLoFTR(pretrained=None, config=config)

    def _match(self, image0: Tensor, image1: Tensor) -> dict[str, Tensor]:
        cells, coarse, fine = features(self.model, image0, image1)
        index0, index1, confidence = mutual_cells(cells, threshold=self.threshold)
        refine = partial(_refine, self.model, coarse, fine)
        offset, fine_std = in_batches(refine, index0, index1)
        # Cells were numbered by rounding: their corners are the middles of what is
        # nearest to them.
        cell = cell_corner(index1, cells.size1[1]) - 0.5
        return {
            "source": cell_corner(index0, cells.size0[1]) - 0.5,
            "target": cell + offset,
            "cell": cell,
            "confidence": confidence,
            "fine_std": fine_std,
            "coarse_std": CELL * row_spread(cells, index0),
        }


class IndoorLoFTR(LoFTR):
    """The same, trained on ScanNet."""

    name = "loftr-indoor"


class NewIndoorLoFTR(LoFTR):
    """The same, trained on ScanNet with the position encoding corrected."""

    name = "loftr-indoor-new"
    encoding_fixed = True


def features(
    model: Any, image0: Tensor, image1: Tensor
) -> tuple[Cells, list[Tensor], list[Tensor]]:
    """Coarse cells, their tokens (1, n, 256), and the fine maps (1, 128, h, w)."""
    maps = [model.backbone(image) for image in (image0, image1)]
    encoded = [model.pos_encoding(coarse) for coarse, _ in maps]
    size0, size1 = ((c.shape[2], c.shape[3]) for c in encoded)
    c0, c1 = model.loftr_coarse(*(c.flatten(2).mT.contiguous() for c in encoded))
    sharp = c0[0] / (c0.shape[-1] * TEMPERATURE)
    return Cells(sharp, c1[0], size0, size1), [c0, c1], [fine for _, fine in maps]


def _refine(
    model: Any, coarse: list[Tensor], fine: list[Tensor], index0: Tensor, index1: Tensor
) -> tuple[Tensor, Tensor]:
    """Offset and std (m, 2) px in image 1, from the heat map of each match."""
    offsets = FINE_CELL * (square(WINDOW, index0.device) - WINDOW // 2)
    ids = {"b_ids": torch.zeros_like(index0), "i_ids": index0, "j_ids": index1}
    data = {**ids, "stride_c": CELL, "stride_f": FINE_CELL}
    f0, f1 = model.loftr_fine(*model.fine_preprocess(*fine, *coarse, data))
    similarity = torch.einsum("mc,mrc->mr", f0[:, len(offsets) // 2], f1)
    heat = torch.softmax(similarity / f0.shape[-1] ** 0.5, dim=1)
    return grid_mean(heat, offsets), grid_std(heat, offsets)
