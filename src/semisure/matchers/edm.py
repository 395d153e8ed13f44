"""EDM: the best rows without a mutual check, offsets along x and y on the surer side.

Each match is refined in image 1 or in image 0, whichever its head is surer of; `side`
says which, and the coarse cue is the softmax over that image's cells. The head's own
scale, trained as that of a Laplace law through a flow, is kept as an extra.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from semisure.io.images import Image
from semisure.matchers._batches import PairNetwork, Views
from semisure.matchers._network import imports_of
from semisure.matchers._stopwatch import extraction
from semisure.matchers._view import View, assemble, grey, view_of
from semisure.matchers._weights import Weights, obtain
from semisure.types import FloatArray, Labels, Matches

# The authors' own file, edm_outdoor.ckpt, is on drives only (github.com/chicleee/EDM);
# this is the same network's state dict on the hub.
WEIGHTS = Weights(
    filename="edm.safetensors",
    hub="vismatch/edm",
    about=41_000_000,
    licence="Apache-2.0",
)

MULTIPLE = 32  # px
FINE_WINDOW_PX = 8.0  # offsets from −4 to 4 px


@dataclass(frozen=True, slots=True, kw_only=True)
class Edm(PairNetwork):
    """EDM; `edm(image0, image1)` gives :class:`Matches` refined on either side.

    Parameters
    ----------
    threshold
        Least confidence of a match; 0.05 is the authors' for outdoor scenes.
    share
        Share of image 0's cells that are refined, the most confident first.
    max_side, device, weights
        As in :class:`~semisure.matchers._network.Network`.
    """

    threshold: float = 0.05
    share: float = 0.35

    def _load(self) -> Any:
        with imports_of("torch", "EDM"):
            from semisure.matchers._checkpoint import load_checkpoint
            from semisure.matchers._edm_net import TRAINING_ONLY, EdmNet
        path = obtain(WEIGHTS, self.weights)
        return load_checkpoint(EdmNet(), path, training_only=TRAINING_ONLY)

    def with_extras(
        self, image0: Image, image1: Image
    ) -> tuple[Matches, dict[str, FloatArray]]:
        """The matches, and `native_scale` (n, 2): the head's own, px on `side`."""
        views = self._view(image0), self._view(image1)
        ((matches, native),) = self._answers([views])
        return matches, {"native_scale": native}

    def _view(self, image: Image) -> View:
        return view_of(image, self.max_side, multiple=MULTIPLE, min_side=MULTIPLE)

    def _together(self, pairs: Sequence[Views]) -> list[Matches]:
        return [matches for matches, _ in self._answers(pairs)]

    def _answers(self, pairs: Sequence[Views]) -> list[tuple[Matches, FloatArray]]:
        with self.running():
            raws = self.model(*self.pixels(pairs, grey), self.threshold, self.share)
            found = [_arrays(raw) for raw in raws]
        return [_assembled(v, *answer) for v, answer in zip(pairs, found, strict=True)]


def _arrays(raw: Any) -> tuple[dict[str, FloatArray], Labels]:
    """Points and cues in the pixels of the views, and the side of each match."""
    from semisure.matchers._cues import as_arrays, points_and_confidence

    named = points_and_confidence(raw) | cues(raw) | {"native_scale": raw.sigma}
    return as_arrays(named | _cells(raw)), raw.side.cpu().numpy()


def _assembled(
    views: Views, arrays: dict[str, FloatArray], side: Labels
) -> tuple[Matches, FloatArray]:
    """The matches, and the head's own scale."""
    native = arrays.pop("native_scale")
    native = native * np.stack([view.scale for view in views])[side]
    matches = assemble(
        views,
        **arrays,
        fine_window=FINE_WINDOW_PX,
        side=side,
        half_cell=FINE_WINDOW_PX / 2,
    )
    return matches, native


def _cells(raw: Any) -> dict[str, Any]:
    """Centres (m, 2) of the chosen cells on the refined side, centres at integers."""
    import torch

    from semisure.matchers._cues import cell_corner
    from semisure.matchers._edm_net import CELL

    cells, chosen = raw.cells, raw.chosen
    on0 = cell_corner(chosen.index0, cells.size0[1], CELL)
    on1 = cell_corner(chosen.index1, cells.size1[1], CELL)
    refined1 = (raw.side == 1)[:, None].to(on1.device)
    return {"cell": torch.where(refined1, on1, on0) - 0.5}


def cues(raw: Any) -> dict[str, Any]:
    """Standard deviations (m, 2) in px of the refined image as the network sees it."""
    import torch

    from semisure.matchers._cues import wide
    from semisure.matchers._dual import row_spread
    from semisure.matchers._edm_net import CELL, offsets

    cells, on1 = raw.cells, raw.side == 1
    spread = torch.empty_like(wide(raw.sigma))
    there = on1.to(spread.device)
    # Without a mutual check, several cells of image 0 choose the same one of image 1.
    once, which = raw.chosen.index1[~on1].unique(return_inverse=True)
    spread[there] = raw.chosen.spread[there]
    of_image1 = row_spread(cells.f1[once], cells.f0, cells.size0)
    spread[~there] = of_image1[which.to(spread.device)]
    fine_std = _axis_std(raw.heat, offsets(raw.heat))
    return {"fine_std": fine_std, "coarse_std": CELL * spread}


@extraction("fine")
def _axis_std(heat: Any, offsets: Any) -> Any:
    """Std (m, 2) of the offsets (k,) under the softmax of each axis, (m, 2, k)."""
    from semisure.matchers._cues import wide

    heat, at = wide(heat), wide(offsets)
    return (heat * (at - (heat @ at)[..., None]) ** 2).sum(dim=-1).sqrt()
