"""CoMatch: attention weighed by covisibility, sub-pixel points in both images.

Both points of a match leave the grid. The residual is taken in image 1, so `side` is 1:
the fine cue there is the variance over the window's pixels, given the pixel chosen in
image 0, plus that of the 3 × 3 step after it. What image 0's own step adds is left to
the calibration's gain; it is among the extras, as are the covisibilities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from semisure.io.images import Image
from semisure.matchers._batches import PairNetwork, Views
from semisure.matchers._network import FINE_STAGES, FineStages, imports_of
from semisure.matchers._stopwatch import extraction
from semisure.matchers._view import View, assemble, grey, view_of
from semisure.matchers._weights import Weights, obtain
from semisure.types import FloatArray, Matches, as_choice

# The authors' only copy is on a drive that programs cannot fetch from: its page.
WEIGHTS = Weights(
    filename="comatch.ckpt",
    page="https://drive.google.com/file/d/1DHd7LZtNH1vwhoTUA8a8nVIiIpx-38RX/view",
    about=48_000_000,
    licence="MIT",
)

MULTIPLE = 32  # px
MIN_SIDE = 64  # px: less is all border
FINE_WINDOW_PX = 8.0  # the cell whose pixels the first fine stage compares


@dataclass(frozen=True, slots=True, kw_only=True)
class CoMatch(PairNetwork):
    """CoMatch; `comatch(image0, image1)` gives :class:`Matches` with cues in image 1.

    Parameters
    ----------
    threshold
        Least confidence of a match; the authors evaluate with 0.1.
    fine_stages
        The stages that the fine std covers: ``both``, their variances added, or the
        ``second`` alone.
    max_side, device, weights
        As in :class:`~semisure.matchers._network.Network`.
    """

    threshold: float = 0.2
    fine_stages: FineStages = "both"

    def _load(self) -> Any:
        as_choice("fine_stages", self.fine_stages, FINE_STAGES)
        with imports_of("torch", "CoMatch"):
            from semisure.matchers._checkpoint import load_checkpoint
            from semisure.matchers._comatch_net import CoMatchNet
        return load_checkpoint(CoMatchNet(), obtain(WEIGHTS, self.weights))

    def with_extras(
        self, image0: Image, image1: Image
    ) -> tuple[Matches, dict[str, FloatArray]]:
        """The matches, and what else the network predicts.

        `covisibility` (n, 2) of the two cells of each match; `covisibility0` and
        `covisibility1`, maps of all cells; `source_std` (n, 2) px, the fine std that
        image 0's point has by itself.
        """
        from semisure.matchers._cues import as_arrays

        views = self._view(image0), self._view(image1)
        with self.running():
            (raw,) = self.model(*self.pixels([views], grey), self.threshold)
            arrays = _arrays(raw, self.fine_stages)
            extras = as_arrays(extra_cues(raw, self.fine_stages))
        extras["source_std"] = extras["source_std"] * views[0].scale
        return _assembled(views, arrays), extras

    def _view(self, image: Image) -> View:
        return view_of(image, self.max_side, multiple=MULTIPLE, min_side=MIN_SIDE)

    def _together(self, pairs: Sequence[Views]) -> list[Matches]:
        with self.running():
            raws = self.model(*self.pixels(pairs, grey), self.threshold)
            found = [_arrays(raw, self.fine_stages) for raw in raws]
        return [_assembled(*answer) for answer in zip(pairs, found, strict=True)]


def _arrays(raw: Any, stages: FineStages) -> dict[str, FloatArray]:
    """Points and cues in the pixels of the views."""
    from semisure.matchers._comatch_net import CELL
    from semisure.matchers._cues import as_arrays, points_and_confidence, target_cells

    named = points_and_confidence(raw) | cues(raw, stages)
    return as_arrays(named | target_cells(raw, CELL))


def _assembled(views: Views, arrays: dict[str, FloatArray]) -> Matches:
    return assemble(
        views,
        **arrays,
        fine_window=FINE_WINDOW_PX,
        side=1,
        half_cell=FINE_WINDOW_PX / 2,
    )


def cues(raw: Any, stages: FineStages = "both") -> dict[str, Any]:
    """Standard deviations (m, 2) in px of image 1 as the network sees it."""
    from semisure.matchers._comatch_net import CELL

    fine_std = _fine_std(raw.fine.pixels1, raw.fine.heat1, stages)
    return {"fine_std": fine_std, "coarse_std": CELL * raw.chosen.spread}


def extra_cues(raw: Any, stages: FineStages = "both") -> dict[str, Any]:
    """Covisibilities, and the fine std of image 0's points."""
    import torch

    seen0, seen1 = raw.covisible0, raw.covisible1
    at_matches = [seen0[raw.chosen.index0], seen1[raw.chosen.index1]]
    return {
        "covisibility": torch.stack(at_matches, dim=1),
        "covisibility0": seen0.view(raw.cells.size0),
        "covisibility1": seen1.view(raw.cells.size1),
        "source_std": _fine_std(raw.fine.pixels0, raw.fine.heat0, stages),
    }


@extraction("fine")
def _fine_std(pixels: Any, heat: Any, stages: FineStages) -> Any:
    """The std (m, 2) px of the second stage, or of the variances of both, added."""
    from semisure.matchers._comatch_net import WINDOW, grid
    from semisure.matchers._cues import grid_std

    second = grid_std(heat, grid(3, heat))
    if stages == "second":
        return second
    first = grid_std(pixels, grid(WINDOW, pixels))
    return (first**2 + second**2).sqrt()
