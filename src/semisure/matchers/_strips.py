"""Convolutions on strips of rows, for maps whose copies would fill the memory.

A strip has some rows more on either side than it gives: as many as the convolutions
reach. What they see beyond those is not kept, so that the answer is that of the whole.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import interpolate

STRIP_ROWS = 64


def in_strips(
    layers: Callable[[slice], Tensor],
    height: int,
    *,
    halo: int,
    strip_rows: int = STRIP_ROWS,
) -> Tensor:
    """The map (n, c, height, w) that `layers` give for some of its rows at a time.

    `layers` reach `halo` rows up and down.
    """
    whole: Tensor | None = None
    for top in range(0, height, strip_rows):
        end = min(top + strip_rows, height)
        first, last = max(top - halo, 0), min(end + halo, height)
        strip = layers(slice(first, last))
        if whole is None:
            whole = strip.new_empty((*strip.shape[:2], height, strip.shape[3]))
        whole[:, :, top:end] = strip[:, :, top - first : end - first]
    assert whole is not None
    return whole


def doubled_rows(x: Tensor, rows: slice) -> Tensor:
    """Some rows of the map (n, c, h, w) at twice its size, its corners aligned."""
    height, width = x.shape[2:]
    pace = (height - 1) / (2 * height - 1)
    place = torch.arange(2.0 * height, device=x.device)[rows] * pace  # as torch does
    above = place.floor().long()
    below = (above + 1).clamp_max(height - 1)
    share = (place - above).to(x)[:, None]
    between = torch.lerp(x[:, :, above], x[:, :, below], share)
    size = (len(place), 2 * width)
    return interpolate(between, size=size, mode="bilinear", align_corners=True)
