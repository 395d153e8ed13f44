"""A semi-dense coarse-to-fine matcher in numpy and OpenCV: no network, no download.

`daisy_cells` describes and matches cells of 8 px, `daisy_search` undoes rotation, zoom
and tilt. Here neighbouring matches give each match a local linear map, `fine_match`
moves its target to the peak of a correlation heat map; :class:`Daisy` runs all stages.
Integer coordinates are pixel centres; resizing maps (p + 0.5) * s - 0.5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import cv2
import numpy as np

from semisure.errors import InputError
from semisure.io.images import as_grey
from semisure.matchers.daisy_cells import (
    CELL,
    Array,
    CellSet,
    Projection,
    cell_centres,
    coarse_match,
    local_support,
)
from semisure.matchers.daisy_search import (
    Frames,
    balanced_frames,
    both_cells,
    find_linear,
    move,
    shrunk_frame,
)
from semisure.matchers.full_size import FullSize
from semisure.matchers.patches import polish, refine
from semisure.types import Matches, as_choice

HALF_RADII, FULL_RADII = (6, 4), (8, 3)  # px of their image: template, search
MIN_SIDE = 4 * CELL  # px; smaller images are narrower than one descriptor
MIN_CONFIDENCE = 0.02  # few weaker matches are right
FINE_BLUR = 0.8  # px
MIN_REDUCTION = 1.2  # images reduced by less have nothing to gain
# Heat maps are ten times wider than the errors, stds from grey values are not.
FULL_SIZE = FullSize(reach=2.0, unit=7.0)


# ---- local maps from neighbouring matches --------------------------------------------


def local_planes(
    moved: Array, weight: Array, sigma: float = 3.0
) -> tuple[Array, Array]:
    """Smoothed displacement (rows, cols, 2) and its gradient [..., i, j] = du_i / dx_j.

    Each cell gets the weighted least-squares plane of its neighbours' displacements; a
    ridge of one squared cell gives isolated matches no gradient.
    """
    rows, cols = weight.shape
    line = np.insert(cell_centres(rows, cols), 0, 1, axis=1).reshape(rows, cols, 3)
    both = np.concatenate([line, np.nan_to_num(moved)], axis=2)
    sums = weight[..., None, None] * line[..., None] * both[..., None, :]
    sums = cv2.GaussianBlur(sums.reshape(rows, cols, 15), (0, 0), sigma)
    sums = sums.reshape(rows, cols, 3, 5)
    ridge = np.diag([0.0, CELL**2, CELL**2]) * sums[..., :1, :1] + 1e-9 * np.eye(3)
    plane = np.linalg.solve(sums[..., :3] + ridge, sums[..., 3:])
    return (line[..., None, :] @ plane)[..., 0, :], plane[..., 1:, :].swapaxes(2, 3)


def local_linear(cells0: CellSet, chosen: Array, target: Array) -> Array:
    """The linear map (n, 2, 2) from frame 0 to 1 around each match.

    First only supported matches count, then those that follow their neighbours' plane.
    """
    moved = cells0.on_grid(chosen, target - cells0.centres[chosen])
    matched = np.isfinite(moved[..., 0])
    weight = local_support(moved) + 1e-3 * matched
    for _ in range(2):
        smooth, gradient = local_planes(moved, weight)
        residual = np.nan_to_num(moved - smooth)
        weight = matched / (1 + (residual**2).sum(axis=2) / CELL**2) ** 2
    linear = np.eye(2) + gradient.reshape(-1, 2, 2)[cells0.index[chosen]]
    linear[np.linalg.det(linear) < 0.1] = np.eye(2)  # folded or flat
    return linear


# ---- fine stage ----------------------------------------------------------------------


def fine_match(
    frames: Frames, cells0: CellSet, chosen: Array, target: Array
) -> tuple[Array, Array]:
    """Refined targets and heat covariance in frame 1: at half, then at full size.

    A cell (8 px) is searched at half size; the local map is fitted again before the
    last 3 px, from the refined neighbours, which make it more precise.
    """
    if not len(chosen):
        return target, np.zeros((0, 2, 2))
    source = cells0.centres[chosen]
    greys = (frame.grey.astype(np.float32) for frame in frames)
    full = [cv2.GaussianBlur(grey, (0, 0), FINE_BLUR) for grey in greys]
    half = [cv2.pyrDown(image) for image in full]
    back = np.linalg.inv(local_linear(cells0, chosen, target))
    target = 2 * refine(half, source / 2, target / 2, back, HALF_RADII)[0]
    back = np.linalg.inv(local_linear(cells0, chosen, target))
    target, covariance = refine(full, source, target, back, FULL_RADII)
    return polish(full, source, target, back, FULL_RADII[0]), covariance


# ---- all of it -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Daisy:
    """The embedded matcher; `daisy(image0, image1)` gives :class:`Matches`.

    Parameters
    ----------
    max_side
        Larger images are reduced to this many px before matching. Time grows with its
        fourth power: half a second at 640, seven at 1600.
    refine
        ``full``: matches of images larger than `max_side` are refined at their full
        size; ``none``: they keep their positions from the reduced images.
    """

    name: ClassVar[str] = "daisy"

    max_side: int = 640
    refine: Literal["full", "none"] = "full"
    projection: Projection = field(
        default_factory=Projection.load, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.max_side < MIN_SIDE:
            raise InputError(
                f"max_side must be at least {MIN_SIDE} px, but is {self.max_side}."
            )
        as_choice("refine", self.refine, ("full", "none"))

    def __call__(self, image0: Array, image1: Array) -> Matches:
        """Matches of two uint8 images, grey or RGB, of any sizes; side 1 is refined."""
        greys = as_grey(image0), as_grey(image1)
        small = [shrunk_frame(grey, self.max_side) for grey in greys]
        pair = small[0].grey, small[1].grey
        frames = balanced_frames(*pair, find_linear(*pair, self.projection), 1.0)
        to0, to1 = (s.to_image @ f.to_image for s, f in zip(small, frames, strict=True))
        cells0, cells1 = both_cells(frames, self.projection)
        position1 = move(to1, cells1.centres)
        index0, index1, confidence, coarse_std = coarse_match(
            cells0, cells1, position1, self.projection.temperature
        )
        large = min(min(grey.shape) for grey in greys) >= MIN_SIDE
        strong = (confidence >= MIN_CONFIDENCE) & large
        chosen, target = index0[strong], cells1.centres[index1[strong]]
        cell = _cells(target, to1)
        target, covariance = fine_match(frames, cells0, chosen, target)
        fine_std, window = _in_image(covariance, to1[:2, :2])
        matches = Matches(
            source=move(to0, cells0.centres[chosen]),
            target=move(to1, target),
            confidence=confidence[strong],
            fine_std=fine_std,
            coarse_std=coarse_std[strong],
            fine_window=window,
            source_size=greys[0].shape[::-1],
            target_size=greys[1].shape[::-1],
            cell=cell,
        )
        reductions = small[0].to_image[0, 0], small[1].to_image[0, 0]
        if self.refine == "none" or max(reductions) < MIN_REDUCTION:
            return matches
        return FULL_SIZE(*greys, matches, reductions)


def _cells(centres: Array, to_image: Array) -> Array:
    """Cells of a frame as they lie in its image, [A | c] each, (n, 2, 3).

    A point belongs to the cell whose centre, where it was described, is the nearest.
    """
    maps = np.empty((len(centres), 2, 3))
    maps[:, :, :2] = CELL / 2 * to_image[:2, :2]
    maps[:, :, 2] = move(to_image, centres)
    return maps


def _in_image(covariance: Array, linear: Array) -> tuple[Array, Array]:
    """Per-axis std and window side once the frame's linear map is applied."""
    variance = np.einsum("ij,njk,ik->ni", linear, covariance, linear)
    side = (2 * FULL_RADII[1] + 1) * np.sqrt(abs(np.linalg.det(linear)))
    return np.sqrt(np.maximum(variance, 0)), np.full(len(variance), side)
