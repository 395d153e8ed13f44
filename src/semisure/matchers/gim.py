"""GIM-LoFTR: LoFTR's heads on a ResNet-50 that saw fifty hours of internet video.

Image 0's points stay on the grid of 8 px cells; image 1's are refined in a window of
5 × 5 steps of 2 px, so the refined side is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from semisure.io.images import Image
from semisure.matchers._batches import PairNetwork, Views
from semisure.matchers._network import imports_of
from semisure.matchers._view import View, assemble, rgb, view_of
from semisure.matchers._weights import Weights, obtain
from semisure.types import FloatArray, Matches

# The repository's own copy, known by git's name for its content.
WEIGHTS = Weights(
    filename="gim_loftr_50h.ckpt",
    url="https://github.com/xuelunshen/gim/raw/main/weights/gim_loftr_50h.ckpt",
    git_blob="490fcc531b20fc02187eb4bc70976c94eccaa5f3",
    licence="research only (code: MIT)",
    matcher="gim-loftr",
    terms='Its authors say: "This content/model is provided here for research '
    "purposes only. Any use beyond this is your sole responsibility and subject to "
    'your securing the necessary rights for your purpose."',
    about=65_000_000,
)

MULTIPLE = 8  # px
MIN_SIDE = 40  # px: less is all border
FINE_WINDOW_PX = 8.0  # from the first to the last of five steps of 2 px


@dataclass(frozen=True, slots=True, kw_only=True)
class GimLoFTR(PairNetwork):
    """GIM-LoFTR; `gim(image0, image1)` gives :class:`Matches` refined in image 1.

    Parameters
    ----------
    threshold
        Least confidence of a match.
    max_side, device, weights
        As in :class:`~semisure.matchers._network.Network`.
    """

    threshold: float = 0.2

    def _load(self) -> Any:
        with imports_of("torch", "GIM-LoFTR"):
            from semisure.matchers._checkpoint import load_checkpoint
            from semisure.matchers._gim_net import GimNet
        return load_checkpoint(GimNet(), obtain(WEIGHTS, self.weights))

    def _view(self, image: Image) -> View:
        return view_of(image, self.max_side, multiple=MULTIPLE, min_side=MIN_SIDE)

    def _together(self, pairs: Sequence[Views]) -> list[Matches]:
        with self.running():
            raws = self.model(*self.pixels(pairs, rgb), self.threshold)
            found = [_arrays(raw) for raw in raws]
        return [
            assemble(
                views,
                **arrays,
                fine_window=FINE_WINDOW_PX,
                side=1,
                half_cell=FINE_WINDOW_PX / 2,
            )
            for views, arrays in zip(pairs, found, strict=True)
        ]


def _arrays(raw: Any) -> dict[str, FloatArray]:
    """Points and cues in the pixels of the views."""
    from semisure.matchers._cues import as_arrays, points_and_confidence, target_cells
    from semisure.matchers._gim_net import CELL

    return as_arrays(points_and_confidence(raw) | cues(raw) | target_cells(raw, CELL))


def cues(raw: Any) -> dict[str, Any]:
    """Standard deviations (m, 2) in px of image 1 as the network sees it."""
    from semisure.matchers._cues import grid_std
    from semisure.matchers._gim_net import CELL, offsets

    fine_std = grid_std(raw.heat, offsets(raw.heat))
    return {"fine_std": fine_std, "coarse_std": CELL * raw.chosen.spread}
