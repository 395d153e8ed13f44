"""Patches of two images compared: correlation heat maps, Newton steps on grey values.

A template is read from image 0 through the linear map of its match, so that it lies in
image 1 as the other patch does. Patches are arrays (side, side, n), matches last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import cv2
import numpy as np

from semisure.matchers.daisy_cells import Array
from semisure.matchers.threads import by_threads

Radii = tuple[int, int]
Square = tuple[Array, Array]  # offsets x and y

SHARPNESS = 2.0  # nats of heat map per multiple of the mismatch at its peak
NOISE_FLOOR = 0.03  # mismatch granted even to a perfect peak
STRIDE = 2  # px between the samples of a template
_FRACTION_BITS = 7  # of uint16 images
DAMPING = 15.0  # squared grey levels: a flat patch does not move
CHUNK = 256  # matches at a time, whose patches stay in the cache


def heat_map(template: Array, window: Array) -> Array:
    """Zero-mean normalised correlation (s, s, n) of templates (p, p, n) in windows.

    Templates hold every `STRIDE`-th pixel: in a smooth image the rest adds little.
    """
    side, span = len(template), len(window) - STRIDE * (len(template) - 1)
    template = template - template.mean(axis=(0, 1))
    window = window - window.mean(axis=(0, 1))
    common = np.zeros((span, span, window.shape[2]), np.float32)
    term = np.empty_like(common)  # to allocate one each time costs more
    for i, j in product(range(side), repeat=2):
        y, x = STRIDE * i, STRIDE * j
        part = window[y : y + span, x : x + span]
        common += np.multiply(template[i, j], part, out=term)
    spread = _box(window**2, side, span) - _box(window, side, span) ** 2 / side**2
    energy = (template**2).sum(axis=(0, 1))
    return common / np.sqrt(np.maximum(spread, 1) * np.maximum(energy, 1))


def _box(values: Array, side: int, span: int) -> Array:
    """Sums under side x side templates at each of span x span places."""
    rows = values[:span].copy()
    for k in range(STRIDE, STRIDE * side, STRIDE):
        rows += values[k : k + span]
    both = rows[:, :span].copy()
    for k in range(STRIDE, STRIDE * side, STRIDE):
        both += rows[:, k : k + span]
    return both


def heat_covariance(heat: Array) -> Array:
    """Covariance (n, 2, 2) of the offset, the heat maps read as likelihoods.

    The mismatch 1 - heat at the peak is taken for noise, so an offset is unlikely when
    it mismatches several times more than the best one does.
    """
    flat = heat.reshape(-1, heat.shape[2])
    top = flat.max(axis=0)
    weight = cv2.exp(SHARPNESS * (flat - top) / (1 + NOISE_FLOOR - top))
    x, y = (offset.ravel() for offset in square(len(heat) // 2))
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
    det = np.where((xx < 0) & (det > 1e-9), det, np.inf)  # not a summit: no shift
    shift = np.stack([xy * dy - yy * dx, xy * dx - xx * dy]) / det
    return (np.stack([x, y]) - inner // 2 + np.clip(shift, -1, 1)).T


@dataclass(frozen=True)
class GreyModel:
    """Templates (s, s, n) that scenes are compared with, with what steps need of them.

    Slopes are free of the template itself, so that gain and offset are left free.
    """

    grey: Array  # about its mean
    slopes: tuple[Array, Array]
    energy: Array  # (n,)
    normal: tuple[Array, Array, Array]  # xx, xy, yy of the slopes, (n,) each

    @classmethod
    def of(cls, read: Array) -> GreyModel:
        """From patches one pixel larger all round, which it may overwrite."""
        gx, gy = read[1:-1, 2:] - read[1:-1, :-2], read[2:, 1:-1] - read[:-2, 1:-1]
        gx /= 2
        gy /= 2
        return cls._of(read[1:-1, 1:-1], gx, gy)

    @classmethod
    def of_blocks(cls, read: Array) -> GreyModel:
        """From patches of twice the side: a sample is the mean of 2 x 2 pixels."""
        left, right = (read[::2, k::2] + read[1::2, k::2] for k in (0, 1))
        top, bottom = (read[k::2, ::2] + read[k::2, 1::2] for k in (0, 1))
        return cls._of((left + right) / 4, (right - left) / 2, (bottom - top) / 2)

    @classmethod
    def _of(cls, grey: Array, gx: Array, gy: Array) -> GreyModel:
        """From grey values and their slopes, which become the model's own."""
        for part in (grey, gx, gy):
            part -= part.mean(axis=(0, 1))
        energy = _dot(grey, grey) + 1
        for slope in (gx, gy):
            slope -= grey * (_dot(slope, grey) / energy)
        normal = _dot(gx, gx) + DAMPING, _dot(gx, gy), _dot(gy, gy) + DAMPING
        return cls(grey, (gx, gy), energy, normal)

    def step(self, scene: Array) -> tuple[Array, Array, Array]:
        """Shift (n, 2) of scenes (s, s, n) by one least-squares step on grey values.

        The parabola is off by a tenth of a pixel even between equal images, whose heat
        maps are seldom symmetric; this is exact there. Also the correlation (n,) before
        the step, and the shift's variances (n, 2) if what remains of the grey values is
        independent noise.
        """
        scene = scene - scene.mean(axis=(0, 1))
        common, energy, (xx, xy, yy) = _dot(self.grey, scene), self.energy, self.normal
        gain = energy / np.maximum(common, 0.1 * energy)
        x, y = (gain * _dot(slope, scene) for slope in self.slopes)
        det = xx * yy - xy**2
        shift = np.stack([xy * y - yy * x, xy * x - xx * y]) / det
        other = _dot(scene, scene) + 1
        likeness = common / np.sqrt(energy * other)
        unlike = 1 - np.minimum(likeness, 1) ** 2
        noise = gain**2 * other * unlike / scene[..., 0].size
        variance = np.stack([yy, xx]) * (noise / det)
        return np.clip(shift, -0.5, 0.5).T, likeness, variance.T


def _dot(one: Array, other: Array) -> Array:
    return np.einsum("yxn,yxn->n", one, other)


def square(radius: int, step: int = 1) -> Square:
    """Offsets x and y (s, s, 1) of a square."""
    return _grid(np.arange(-radius, radius + 1, step))


def blocks(radius: int, count: int) -> tuple[Square, Square]:
    """Centres (count, count, 1) of blocks that fill a square, and their 2 x 2 pixels.

    Blocks that do not touch leave pixels out, which in a smooth image add little.
    """
    axis = (np.arange(count) + 0.5) * (2 * radius / count) - radius
    pixels = np.stack([axis - 0.5, axis + 0.5], axis=1).ravel()
    return _grid(axis), _grid(pixels)


def _grid(axis: Array) -> Square:
    y, x = np.meshgrid(axis, axis, indexing="ij")
    return x[..., None].astype(np.float32), y[..., None].astype(np.float32)


def sample(image: Array, centre: Array, offset: Square) -> Array:
    """Pixels (s, s, n) at n centres plus offsets."""
    x, y = (c.astype(np.float32) + o for c, o in zip(centre.T, offset, strict=True))
    return _read(image, x, y)


def templates(image: Array, source: Array, back: Array, square: Square) -> Array:
    """Templates (s, s, n): image 0 where `back` (n, 2, 2) takes the square to."""
    x, y = square[0][:1], square[1][:, :1]  # x of all rows, y of all columns
    at = []
    for (of_x, of_y), centre in zip(back.transpose(1, 2, 0), source.T, strict=True):
        part = of_x.astype(np.float32) * x + of_y.astype(np.float32) * y
        part += centre.astype(np.float32)
        at.append(part)
    return _read(image, *at)


def _read(image: Array, x: Array, y: Array) -> Array:
    """Values float32 between the pixels of an image."""
    flat = (-1, x.shape[-1])
    pixels = cv2.remap(
        image,
        x.reshape(flat),
        y.reshape(flat),
        cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REPLICATE,
    )
    values = np.asarray(pixels, np.float32).reshape(x.shape)
    if image.dtype == np.uint16:
        values *= np.float32(0.5**_FRACTION_BITS)
    return values


def in_fractions(grey: Array) -> Array:
    """A photo of bytes as uint16, in 128ths of a grey level.

    What OpenCV reads between bytes it rounds to bytes, which costs a twentieth of a
    pixel where contrast is low; floats would take twice the memory and more time.
    """
    return np.left_shift(grey, _FRACTION_BITS, dtype=np.uint16)


def chunks(work: Callable[[slice], None], count: int) -> None:
    """Call `work` with slices of the matches, by threads."""
    starts = range(0, count, CHUNK)
    list(by_threads(work, (slice(k, k + CHUNK) for k in starts)))


def refine(
    images: list[Array], source: Array, target: Array, back: Array, radii: Radii
) -> tuple[Array, Array]:
    """Targets moved to the peaks of their heat maps, and the maps' covariances.

    `back` (n, 2, 2) maps image 1 to 0 around each match; radii of template and search
    in px.
    """
    moved, covariance = np.empty_like(target), np.empty((len(target), 2, 2))
    small, large = square(radii[0], STRIDE), square(sum(radii))

    def work(k: slice) -> None:
        model = templates(images[0], source[k], back[k], small)
        heat = heat_map(model, sample(images[1], target[k], large))
        moved[k], covariance[k] = target[k] + peak_offset(heat), heat_covariance(heat)

    chunks(work, len(source))
    return moved, covariance


def polish(
    images: list[Array], source: Array, target: Array, back: Array, radius: int
) -> Array:
    """Targets after one Newton step on the grey values of templates of this radius."""
    moved, small, large = np.empty_like(target), square(radius), square(radius + 1)

    def work(k: slice) -> None:
        model = templates(images[0], source[k], back[k], large)
        scene = sample(images[1], target[k], small)
        moved[k] = target[k] + GreyModel.of(model).step(scene)[0]

    chunks(work, len(source))
    return moved
