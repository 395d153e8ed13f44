"""CoMatch: attention weighed by covisibility, sub-pixel points in both images.

Both points of a match leave the grid. The residual is taken in image 1, so `side` is 1:
the fine cue there is the variance over the window's pixels, given the pixel chosen in
image 0, plus that of the 3 × 3 step after it. What image 0's own step adds is left to
the calibration's gain; it is among the extras, as are the covisibilities.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from semisure.errors import InputError, MissingExtraError
from semisure.matchers._stopwatch import extraction
from semisure.matchers._view import View, assemble, grey, view_of
from semisure.matchers._weights import Weights, obtain
from semisure.types import FloatArray, Matches

# The authors' only copy is on a drive that programs cannot fetch from: its page.
WEIGHTS = Weights(
    filename="comatch.ckpt",
    page="https://drive.google.com/file/d/1DHd7LZtNH1vwhoTUA8a8nVIiIpx-38RX/view",
    about=48_000_000,
    licence="MIT",
)

FineStages = Literal["both", "second"]

MULTIPLE = 32  # px
MIN_SIDE = 64  # px: less is all border
FINE_WINDOW_PX = 8.0  # the cell whose pixels the first fine stage compares


@dataclass(frozen=True, slots=True, kw_only=True)
class CoMatch:
    """CoMatch; `comatch(image0, image1)` gives :class:`Matches` with cues in image 1.

    Parameters
    ----------
    max_side
        Larger images are reduced to this many px; None takes them as they are.
    threshold
        On the confidence of a match; the authors evaluate with 0.1.
    fine_stages
        Whose variance the fine std is: of ``both`` stages, added, or of the ``second``
        alone.
    device
        Any torch device.
    weights
        A file to use instead of the official weights.
    """

    max_side: int | None = 1280
    threshold: float = 0.2
    fine_stages: FineStages = "both"
    device: str = "cpu"
    weights: Path | None = None
    model: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.fine_stages not in ("both", "second"):
            raise InputError(
                f"fine_stages must be both or second, but is {self.fine_stages!r}."
            )
        object.__setattr__(self, "model", _load(self.weights, self.device))

    def __call__(self, image0: NDArray[np.uint8], image1: NDArray[np.uint8]) -> Matches:
        return self.with_extras(image0, image1)[0]

    def with_extras(
        self, image0: NDArray[np.uint8], image1: NDArray[np.uint8]
    ) -> tuple[Matches, dict[str, FloatArray]]:
        """The matches, and what else the network says.

        `covisibility` (n, 2) of the two cells of each match; `covisibility0` and
        `covisibility1`, maps of all cells; `source_std` (n, 2) px, the fine std that
        image 0's point has by itself.
        """
        view0, view1 = (
            view_of(image, self.max_side, multiple=MULTIPLE, min_side=MIN_SIDE)
            for image in (image0, image1)
        )
        found, extras = _match(self, view0, view1)
        extras["source_std"] = extras["source_std"] * view0.scale
        matches = assemble(view0, view1, **found, fine_window=FINE_WINDOW_PX, side=1)
        return matches, extras


def _load(path: Path | None, device: str) -> Any:
    try:
        from semisure.matchers._checkpoint import load_checkpoint
        from semisure.matchers._comatch_net import CoMatchNet
    except ImportError:
        raise MissingExtraError("torch", "torch", "CoMatch") from None
    network = CoMatchNet()
    load_checkpoint(network, obtain(WEIGHTS, path))
    return network.eval().to(device)


def _match(
    comatch: CoMatch, view0: View, view1: View
) -> tuple[dict[str, FloatArray], dict[str, FloatArray]]:
    """Points and cues in the pixels of the views, and extras."""
    import torch

    from semisure.matchers._cues import unit_tensor

    with torch.inference_mode():
        pixels = (unit_tensor(grey(v), comatch.device) for v in (view0, view1))
        found = comatch.model(*pixels, comatch.threshold)
        named = {
            "source": found.source - 0.5,
            "target": found.target - 0.5,
            "confidence": found.chosen.confidence,
            **cues(found, comatch.fine_stages),
        }
        more = extra_cues(found, comatch.fine_stages)
    named, more = (
        {name: t.cpu().double().numpy() for name, t in group.items()}
        for group in (named, more)
    )
    return named, more


def cues(found: Any, stages: FineStages = "both") -> dict[str, Any]:
    """Standard deviations (m, 2) in px of image 1 as the network sees it."""
    from semisure.matchers._comatch_net import CELL
    from semisure.matchers._dual import row_spread

    cells = found.cells
    spread = row_spread(cells.f0[found.chosen.index0], cells.f1, cells.size1)
    fine_std = _fine_std(found.fine.pixels1, found.fine.heat1, stages)
    return {"fine_std": fine_std, "coarse_std": CELL * spread}


def extra_cues(found: Any, stages: FineStages = "both") -> dict[str, Any]:
    """Covisibilities, and the fine std of image 0's points."""
    import torch

    seen0, seen1 = found.cells.covisible0, found.cells.covisible1
    at_matches = [seen0[found.chosen.index0], seen1[found.chosen.index1]]
    return {
        "covisibility": torch.stack(at_matches, dim=1),
        "covisibility0": seen0.view(found.cells.size0),
        "covisibility1": seen1.view(found.cells.size1),
        "source_std": _fine_std(found.fine.pixels0, found.fine.heat0, stages),
    }


@extraction
def _fine_std(pixels: Any, heat: Any, stages: FineStages) -> Any:
    """The std (m, 2) px of the second stage, or of the variances of both, added."""
    from semisure.matchers._comatch_net import WINDOW, grid
    from semisure.matchers._cues import grid_moments

    _, second = grid_moments(heat, grid(3, heat))
    if stages == "second":
        return second
    _, first = grid_moments(pixels, grid(WINDOW, pixels))
    return (first**2 + second**2).sqrt()
