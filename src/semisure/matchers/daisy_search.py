"""Frames, and the search for the rotation, zoom and tilt between two images.

A *frame* is a resampled image with the map from its pixels to the original.
`find_linear` looks at low resolution for the linear map on which most coarse matches
agree; `balanced_frames` undoes it, so that the later stages see two upright images.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from semisure.io.images import resized
from semisure.matchers.daisy_cells import (
    AGREE_PX,
    CELL,
    MIN_CONTRAST,
    TURNS,
    Array,
    CellSet,
    Projection,
    cell_centres,
    describe,
    local_support,
    mutual_nearest,
    project,
)
from semisure.matchers.threads import by_threads

SEARCH_SIDE = 256  # px, the low resolution at which rotation and zoom are sought
ZOOMS = (1.0, 0.6, 1 / 0.6, 0.38, 1 / 0.38)
MIN_SUPPORT = 3  # neighbours that must agree with a match
ENOUGH_SHARE = 0.15  # of cells that agree on one affine map: the search may end
CHANCE_SHARE = 0.1  # 130 unrelated pairs stayed below 0.08
NEAR_IDENTITY = 0.15  # rotation, zoom or tilt that the descriptors tolerate


# ---- frames --------------------------------------------------------------------------


@dataclass(frozen=True)
class Frame:
    """A resampled image and the affine map (3 x 3) from its pixels to the image's."""

    grey: Array
    to_image: Array
    image_size: tuple[int, int]  # width, height


Frames = tuple[Frame, Frame]


def move(affine: Array, points: Array) -> Array:
    """Points (n, 2) under a 3 x 3 affine map."""
    return points @ affine[:2, :2].T + affine[:2, 2]


def _about_corner(linear: Array, low: Array | float = 0.0) -> Array:
    """The map q + 0.5 = linear (p + 0.5) - low: corners of pixels, not centres."""
    affine = np.eye(3)
    affine[:2, :2], affine[:2, 2] = linear, linear @ [0.5, 0.5] - low - 0.5
    return affine


def scaled_frame(grey: Array, scale: float) -> Frame:
    """The image resized, each axis by the ratio of the rounded sizes."""
    height, width = grey.shape
    size = max(1, round(width * scale)), max(1, round(height * scale))
    back = np.diag([width / size[0], height / size[1]])
    return Frame(resized(grey, size), _about_corner(back), (width, height))


def shrunk_frame(grey: Array, max_side: int) -> Frame:
    """The image reduced to at most `max_side` px."""
    return scaled_frame(grey, min(1.0, max_side / max(grey.shape)))


def warped_frame(grey: Array, linear: Array) -> Frame:
    """The whole image under a linear map, supersampled where the map shrinks it."""
    height, width = grey.shape
    corners = np.array([[0, 0], [width, 0], [0, height], [width, height]]) @ linear.T
    low = corners.min(axis=0)
    size = np.maximum(np.ceil(corners.max(axis=0) - low), 1).astype(int)
    finer = int(np.clip(np.ceil(1 / np.linalg.svd(linear)[1].min() - 0.2), 1, 4))
    to_frame = _about_corner(linear, low)
    warp = (_about_corner(np.eye(2) * finer) @ to_frame)[:2]
    large = (size * finer).tolist()
    dense = cv2.warpAffine(grey, warp, large, borderMode=cv2.BORDER_REPLICATE)
    if finer > 1:
        dense = cv2.resize(dense, size.tolist(), interpolation=cv2.INTER_AREA)
    return Frame(dense, np.linalg.inv(to_frame), (width, height))


def balanced_frames(grey0: Array, grey1: Array, linear: Array, scale: float) -> Frames:
    """Frames in which `linear` (image 0 to 1) is undone.

    Zoom is shared between them, so the cost of matching does not depend on it.
    """
    if np.array_equal(linear, np.eye(2)):
        return scaled_frame(grey0, scale), scaled_frame(grey1, scale)
    own = scale * abs(np.linalg.det(linear)) ** 0.25
    return scaled_frame(grey0, own), warped_frame(grey1, own * np.linalg.inv(linear))


def make_cells(
    frame: Frame, projection: Projection, turns: tuple[int, ...] = (0,)
) -> list[CellSet]:
    """The textured cells of a frame that show the image, once for each turn."""
    shape = frame.grey.shape[0] // CELL, frame.grey.shape[1] // CELL
    centres = cell_centres(*shape)
    descriptors, contrast = describe(frame.grey)
    image = move(frame.to_image, centres)
    shown = ((image >= 0) & (image <= np.subtract(frame.image_size, 1))).all(axis=1)
    index = np.flatnonzero(shown & (contrast > MIN_CONTRAST))
    vectors = (project(descriptors, projection, k)[index] for k in turns)
    return [CellSet(v, centres[index], index, shape) for v in vectors]


def both_cells(frames: Frames, projection: Projection) -> tuple[CellSet, CellSet]:
    """The upright cells of two frames."""
    (cells0,), (cells1,) = by_threads(lambda f: make_cells(f, projection), frames)
    return cells0, cells1


# ---- search for rotation, zoom and tilt ----------------------------------------------


@dataclass(frozen=True)
class Consensus:
    """The share of cells that agree on one affine map, and that map's linear part."""

    share: float
    linear: Array  # (2, 2), image 0 to image 1


def supported(cells0: CellSet, cells1: CellSet, linear: Array) -> tuple[Array, Array]:
    """Mutual matches that move like their neighbours once `linear` is taken out."""
    index0, index1 = mutual_nearest(cells0, cells1)
    source, target = cells0.centres[index0], cells1.centres[index1]
    support = local_support(cells0.on_grid(index0, target - source @ linear.T))
    sure = support.ravel()[cells0.index[index0]] >= MIN_SUPPORT
    return source[sure], target[sure]


def weigh(frames: Frames, source: Array, target: Array) -> Consensus:
    """The affine map with most inliers, and their share of the cells.

    The geometric mean of both cell counts is the same for every zoom, so shares of
    different zooms compare.
    """
    affine = agree = None
    if len(source) >= 2 * MIN_SUPPORT:
        affine, agree = cv2.estimateAffine2D(
            source, target, ransacReprojThreshold=AGREE_PX, maxIters=500
        )
    if affine is None or agree is None:
        return Consensus(0.0, np.eye(2))
    cells = np.sqrt(float(frames[0].grey.size) * frames[1].grey.size) / CELL**2
    to0, to1 = (frame.to_image[:2, :2] for frame in frames)
    linear = to1 @ affine[:, :2] @ np.linalg.inv(to0)
    return Consensus(float(agree.sum()) / cells, linear)


def find_linear(grey0: Array, grey1: Array, projection: Projection) -> Array:
    """The linear part of the map from image 0 to 1 that most cells agree on.

    Upright pairs pass at the first try; others cost 8 turns at each zoom. The identity
    where it is near enough, or where nothing beats chance.
    """
    small0, small1 = (shrunk_frame(grey, 2 * SEARCH_SIDE) for grey in (grey0, grey1))
    best = _search(small0.grey, small1.grey, projection)
    to0, to1 = (small.to_image[:2, :2] for small in (small0, small1))
    linear = to1 @ best.linear @ np.linalg.inv(to0)
    good = best.share > CHANCE_SHARE and _worthwhile(linear)
    return linear if good else np.eye(2)


def _search(grey0: Array, grey1: Array, projection: Projection) -> Consensus:
    """The largest consensus over turns and zooms, the three largest sharpened."""
    scale0, scale1 = (min(1.0, SEARCH_SIDE / max(g.shape)) for g in (grey0, grey1))
    frames = scaled_frame(grey0, scale0), scaled_frame(grey1, scale1)
    candidates = _try_turns(frames, (0,), projection)
    for root in np.sqrt(ZOOMS):
        if candidates[0].share >= ENOUGH_SHARE:
            break
        frames = scaled_frame(grey0, scale0 * root), scaled_frame(grey1, scale1 / root)
        candidates += _try_turns(frames, tuple(range(TURNS)), projection)
        candidates = sorted(candidates, key=lambda e: -e.share)[:3]
    best, scale = candidates[0], np.sqrt(scale0 * scale1)
    for candidate in candidates:
        sharp = _sharpen(grey0, grey1, candidate, scale, projection)
        best = max(best, sharp, key=lambda e: e.share)
        if best.share >= ENOUGH_SHARE:
            break
    return best


def _try_turns(
    frames: Frames, turns: tuple[int, ...], projection: Projection
) -> list[Consensus]:
    """The consensus of the likeliest turns of image 0."""
    tasks = (frames[0], turns), (frames[1], (0,))
    first, (cells1,) = by_threads(lambda t: make_cells(t[0], projection, t[1]), tasks)
    turned = dict(zip(turns, first, strict=True))

    def matches(k: int) -> tuple[Array, Array]:
        c, s = np.cos(2 * np.pi * k / TURNS), np.sin(2 * np.pi * k / TURNS)
        return supported(turned[k], cells1, np.array([[c, -s], [s, c]]))

    ranked = sorted(by_threads(matches, turns), key=lambda m: -len(m[0]))
    return [weigh(frames, *m) for m in ranked[:3]]


def _sharpen(
    grey0: Array, grey1: Array, best: Consensus, scale: float, projection: Projection
) -> Consensus:
    """Undo the best map, tilt included, for as long as more cells agree.

    True maps gain much by this, chance maps nothing, which distinguishes them.
    """
    for _ in range(3):
        if not _worthwhile(best.linear):
            break
        frames = balanced_frames(grey0, grey1, best.linear, scale)
        cells = both_cells(frames, projection)
        tried = weigh(frames, *supported(*cells, np.eye(2)))
        if tried.share <= best.share:
            break
        best = tried
    return best


def _worthwhile(linear: Array) -> bool:
    """Neither degenerate nor so near the identity that the descriptors tolerate it."""
    large, small = np.linalg.svd(linear)[1]
    sound = np.linalg.det(linear) > 0 and small > 0.15 and large < min(7, 6 * small)
    return bool(sound and np.linalg.norm(linear - np.eye(2), 2) > NEAR_IDENTITY)
