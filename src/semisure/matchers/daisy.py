"""A semi-dense coarse-to-fine matcher in numpy and OpenCV: no network, no download.

`daisy_cells` describes and matches cells of 8 px, `daisy_search` undoes rotation, zoom
and tilt. Here neighbouring matches give each match a local linear map, `fine_match`
moves its target to the peak of a correlation heat map, and :class:`Daisy` is all of it.
Integer coordinates are pixel centres; resizing maps (p + 0.5) * s - 0.5.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import cv2
import numpy as np

from semisure.errors import InputError
from semisure.matchers.daisy_cells import (
    CELL,
    Array,
    Cells,
    Projection,
    cell_centres,
    coarse_match,
    local_support,
)
from semisure.matchers.daisy_search import (
    Frames,
    balanced_frames,
    find_linear,
    make_cells,
    move,
    shrunk_frame,
)
from semisure.types import Matches

Radii = tuple[int, int]
Square = tuple[Array, Array]  # offsets x and y

HALF_RADII, FULL_RADII = (6, 4), (8, 3)  # px of their image: template, search
MIN_SIDE = 4 * CELL  # px; smaller images are narrower than one descriptor
SHARPNESS = 2.0  # nats of heat map per multiple of the mismatch at its peak
NOISE_FLOOR = 0.03  # mismatch granted even to a perfect peak
FINE_BLUR = 0.8  # px
STRIDE = 2  # px between the samples of a template
DAMPING = 15.0  # squared grey levels: a flat patch does not move
CHUNK = 256  # templates correlated at a time


# ---- local maps from neighbouring matches --------------------------------------------


def local_planes(
    moved: Array, weight: Array, sigma: float = 3.0
) -> tuple[Array, Array]:
    """Smoothed displacement (rows, cols, 2) and its gradient [..., i, j] = du_i / dx_j.

    Each cell gets the weighted least-squares plane of its neighbours' displacements; a
    ridge of one squared cell leaves lonely matches with no gradient.
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


def local_linear(cells0: Cells, chosen: Array, target: Array) -> Array:
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
    linear[np.linalg.det(linear) < 0.1] = np.eye(2)  # folded or flat: no use
    return linear


# ---- fine stage ----------------------------------------------------------------------


def heat_map(template: Array, window: Array) -> Array:
    """Zero-mean normalised correlation (s, s, n) of templates (p, p, n) in windows.

    Templates hold every `STRIDE`-th pixel: in a smooth image the rest adds little.
    """
    side, span = len(template), len(window) - STRIDE * (len(template) - 1)
    template = template - template.mean(axis=(0, 1))
    window = window - window.mean(axis=(0, 1))
    product = np.zeros((span, span, window.shape[2]), np.float32)
    term = np.empty_like(product)  # fresh memory for each term would cost more than it
    for i, j in np.ndindex(side, side):
        y, x = STRIDE * i, STRIDE * j
        part = window[y : y + span, x : x + span]
        product += np.multiply(template[i, j], part, out=term)
    spread = _box(window**2, side, span) - _box(window, side, span) ** 2 / side**2
    energy = (template**2).sum(axis=(0, 1))
    return product / np.sqrt(np.maximum(spread, 1) * np.maximum(energy, 1))


def _box(values: Array, side: int, span: int) -> Array:
    """Sums under side x side templates at each of span x span places."""
    starts = range(0, STRIDE * side, STRIDE)
    rows = np.sum([values[k : k + span] for k in starts], axis=0)
    return np.asarray(np.sum([rows[:, k : k + span] for k in starts], axis=0))


def heat_covariance(heat: Array) -> Array:
    """Covariance (n, 2, 2) of the offset, the heat maps read as likelihoods.

    The mismatch 1 - heat at the peak is taken for noise, so an offset is unlikely when
    it mismatches several times more than the best one does.
    """
    flat = heat.reshape(-1, heat.shape[2])
    top = flat.max(axis=0)
    weight = cv2.exp(SHARPNESS * (flat - top) / (1 + NOISE_FLOOR - top))
    x, y = (offset.ravel() for offset in _square(len(heat) // 2))
    sums = np.stack([np.ones_like(x), x, y, x * x, x * y, y * y]) @ weight
    x, y, xx, xy, yy = sums[1:] / sums[0]
    return np.array([[xx - x * x, xy - x * y], [xy - x * y, yy - y * y]]).T


def peak_offset(heat: Array) -> Array:
    """Offset (n, 2) of the largest value, between pixels by a parabola through 3 x 3.

    A soft-argmax is drawn to the middle of its window and, when sharp, to whole pixels;
    this is not. The outermost ring only serves as neighbours.
    """
    inner, n = len(heat) - 2, np.arange(heat.shape[2])
    best = heat[1:-1, 1:-1].reshape(-1, len(n)).argmax(axis=0)
    y, x = np.divmod(best, inner)
    h = {(i, j): heat[y + i, x + j, n] for i in range(3) for j in range(3)}
    dx, dy = (h[1, 2] - h[1, 0]) / 2, (h[2, 1] - h[0, 1]) / 2
    xx, yy = h[1, 2] + h[1, 0] - 2 * h[1, 1], h[2, 1] + h[0, 1] - 2 * h[1, 1]
    xy = (h[2, 2] + h[0, 0] - h[2, 0] - h[0, 2]) / 4
    det = xx * yy - xy**2
    det = np.where((xx < 0) & (det > 1e-9), det, np.inf)  # not a summit: stay put
    shift = np.stack([xy * dy - yy * dx, xy * dx - xx * dy]) / det
    return (np.stack([x, y]) - inner // 2 + np.clip(shift, -1, 1)).T


def newton_step(model: Array, scene: Array) -> Array:
    """Shift (n, 2) of scenes (s, s, n) against models one pixel larger all round.

    One least-squares step on grey values, gain and offset left free. The parabola is
    off by a tenth of a pixel even between equal images, whose heat maps are seldom
    symmetric; this is exact there.
    """
    slopes = model[1:-1, 2:] - model[1:-1, :-2], model[2:, 1:-1] - model[:-2, 1:-1]
    parts = (model[1:-1, 1:-1], scene, slopes[0] / 2, slopes[1] / 2)
    model, scene, gx, gy = (part - part.mean(axis=(0, 1)) for part in parts)
    energy = _dot(model, model) + 1
    gx, gy = (g - model * (_dot(g, model) / energy) for g in (gx, gy))
    xx, xy, yy = _dot(gx, gx) + DAMPING, _dot(gx, gy), _dot(gy, gy) + DAMPING
    gain = energy / np.maximum(_dot(model, scene), 0.1 * energy)
    x, y = gain * _dot(gx, scene), gain * _dot(gy, scene)
    shift = np.stack([xy * y - yy * x, xy * x - xx * y]) / (xx * yy - xy**2)
    return np.clip(shift, -0.5, 0.5).T


def _dot(one: Array, other: Array) -> Array:
    return np.einsum("yxn,yxn->n", one, other)


def _square(radius: int, step: int = 1) -> Square:
    """Offsets x and y (s, s, 1) of a square."""
    side = slice(-radius, radius + 1, step)
    y, x = np.mgrid[side, side].astype(np.float32)
    return x[..., None], y[..., None]


def _sample(image: Array, centre: Array, offset: Square) -> Array:
    """Pixels (s, s, n) at n centres plus offsets."""
    at = [c.astype(np.float32) + o for c, o in zip(centre.T, offset, strict=True)]
    x, y = (part.reshape(-1, len(centre)) for part in at)
    pixels = cv2.remap(image, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return pixels.reshape(at[0].shape)


def _models(image: Array, source: Array, linear: Array, square: Square) -> Array:
    """Templates (s, s, n): image 0 read where `linear` takes it to the square."""
    (xx, xy), (yx, yy) = np.linalg.inv(linear).transpose(1, 2, 0).astype(np.float32)
    x, y = square
    return _sample(image, source, (xx * x + xy * y, yx * x + yy * y))


def refine(
    images: list[Array], source: Array, target: Array, linear: Array, radii: Radii
) -> tuple[Array, Array]:
    """Targets moved to the peaks of their heat maps, and the maps' covariances.

    `linear` (n, 2, 2) maps image 0 to 1 around each match; radii of template and
    search in px.
    """
    moved, covariance = np.empty_like(target), np.empty((len(target), 2, 2))
    small, large = _square(radii[0], STRIDE), _square(sum(radii))
    for k in (slice(a, a + CHUNK) for a in range(0, len(source), CHUNK)):
        model = _models(images[0], source[k], linear[k], small)
        heat = heat_map(model, _sample(images[1], target[k], large))
        moved[k], covariance[k] = target[k] + peak_offset(heat), heat_covariance(heat)
    return moved, covariance


def polish(
    images: list[Array], source: Array, target: Array, linear: Array, radius: int
) -> Array:
    """Targets after one Newton step on the grey values of templates of this radius."""
    moved, small, large = np.empty_like(target), _square(radius), _square(radius + 1)
    for k in (slice(a, a + CHUNK) for a in range(0, len(source), CHUNK)):
        model = _models(images[0], source[k], linear[k], large)
        moved[k] = target[k] + newton_step(model, _sample(images[1], target[k], small))
    return moved


def fine_match(
    frames: Frames, cells0: Cells, chosen: Array, target: Array
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
    linear = local_linear(cells0, chosen, target)
    target = 2 * refine(half, source / 2, target / 2, linear, HALF_RADII)[0]
    linear = local_linear(cells0, chosen, target)
    target, covariance = refine(full, source, target, linear, FULL_RADII)
    return polish(full, source, target, linear, FULL_RADII[0]), covariance


# ---- all of it -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Daisy:
    """The embedded matcher; `daisy(image0, image1)` gives :class:`Matches`.

    Parameters
    ----------
    max_side
        Larger images are reduced to this many px before matching.
    min_confidence
        Weaker matches are dropped; few below 0.02 are right.
    search
        Look for rotation, zoom and tilt; without it, rotations of up to about 15
        degrees are matched.
    projection
        What ``scripts/learn_daisy.py`` learned; by default the shipped one.
    """

    max_side: int = 640
    min_confidence: float = 0.02
    search: bool = True
    projection: Projection = field(default_factory=Projection.load)

    def __post_init__(self) -> None:
        if self.max_side < MIN_SIDE:
            raise InputError(
                f"max_side must be at least {MIN_SIDE} px, but is {self.max_side}."
            )
        if not 0.0 < self.min_confidence < 1.0:
            raise InputError(
                f"min_confidence must lie in (0, 1), but is {self.min_confidence}."
            )

    def __call__(self, image0: Array, image1: Array) -> Matches:
        """Matches of two uint8 images, grey or RGB, of any sizes; side 1 is refined."""
        greys = grey_of(image0), grey_of(image1)
        small = [shrunk_frame(grey, self.max_side) for grey in greys]
        pair = small[0].grey, small[1].grey
        linear = find_linear(*pair, self.projection) if self.search else np.eye(2)
        frames = balanced_frames(*pair, linear, 1.0)
        to0, to1 = (s.to_image @ f.to_image for s, f in zip(small, frames, strict=True))
        (cells0,), (cells1,) = (make_cells(f, self.projection) for f in frames)
        index0, index1, confidence, coarse_std = coarse_match(
            cells0, cells1, move(to1, cells1.centres), self.projection.temperature
        )
        large = min(min(grey.shape) for grey in greys) >= MIN_SIDE
        kept = (confidence >= self.min_confidence) & large
        chosen, target = index0[kept], cells1.centres[index1[kept]]
        cell = _cells(target, to1)
        target, covariance = fine_match(frames, cells0, chosen, target)
        fine_std, window = _in_image(covariance, to1[:2, :2])
        return Matches(
            source=move(to0, cells0.centres[chosen]),
            target=move(to1, target),
            confidence=confidence[kept],
            fine_std=fine_std,
            coarse_std=coarse_std[kept],
            fine_window=window,
            source_size=greys[0].shape[::-1],
            target_size=greys[1].shape[::-1],
            cell=cell,
        )


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


def grey_of(image: Array) -> Array:
    """A uint8 image, grey, RGB or RGBA, as grey levels (h, w)."""
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or not image.size:
        raise InputError(
            "An image must be uint8 of shape (h, w) or (h, w, 1, 3 or 4), but this is "
            f"{image.dtype} of shape {image.shape}."
        )
    if image.ndim == 2 or image.shape[2] == 1:
        return image.reshape(image.shape[:2])
    code = cv2.COLOR_RGBA2GRAY if image.shape[2] == 4 else cv2.COLOR_RGB2GRAY
    return np.asarray(cv2.cvtColor(image, code))
