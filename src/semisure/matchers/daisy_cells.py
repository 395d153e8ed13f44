"""Cells: dense gradient-orientation descriptors and their coarse matching in tiles.

`describe` puts 200 slopes (8 directions at 25 ring positions) on an 8 px grid,
`project` takes them to 64 learned dimensions, `coarse_match` finds mutual maxima with
dual-softmax confidence without ever holding the whole similarity matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from semisure.matchers.threads import by_threads

Array = NDArray[Any]

SHIPPED = Path(__file__).parents[1] / "data" / "daisy.npz"

CELL = 8  # px between descriptors
TURNS = 8  # directions, and samples per ring: so 45 degrees is a mere permutation
PRE_BLUR = 1.8  # px
RINGS = ((4.5, 0.0), (4.5, 9.0), (9.0, 18.0), (13.5, 27.0))  # px: blur, radius
AGREE_PX = 2.0 * CELL  # displacements that differ by less agree
MIN_CONTRAST = 0.5  # grey levels per px; a flatter cell has no descriptor
TILE_ROWS = 128  # cells of image 0 matched at a time: few MB, which stay in the cache


@dataclass(frozen=True)
class Projection:
    """What ``scripts/learn_daisy.py`` learns: a map of descriptors, a temperature."""

    mean: Array  # (200,)
    basis: Array  # (200, 64)
    temperature: float

    @classmethod
    def load(cls) -> Projection:
        with np.load(SHIPPED, allow_pickle=False) as stored:
            return cls(stored["mean"], stored["basis"], float(stored["temperature"]))


# ---- descriptors ---------------------------------------------------------------------


def orientation_maps(grey: Array) -> Array:
    """Rectified slopes in 8 directions at half resolution, (8, h/2, w/2).

    pyrDown keeps even pixels, so half-resolution index k is exactly pixel 2k.
    """
    smooth = cv2.GaussianBlur(grey.astype(np.float32), (0, 0), PRE_BLUR)
    dx = cv2.Scharr(smooth, cv2.CV_32F, 1, 0, scale=1 / 32)
    dy = cv2.Scharr(smooth, cv2.CV_32F, 0, 1, scale=1 / 32)
    angles = (np.arange(TURNS // 2) * 2 * np.pi / TURNS).astype(np.float32)
    slopes = [np.cos(a) * dx + np.sin(a) * dy for a in angles]
    return np.stack(
        [cv2.pyrDown(np.maximum(way * s, 0)) for way in (1, -1) for s in slopes]
    )


def _ring_samples(
    maps: Array, pixel: int, radius: float, shape: tuple[int, int]
) -> Iterator[Array]:
    """The maps, `pixel` px apart, at each ring position of the cells: (8, *shape)."""
    pad, step = int(np.ceil(radius / pixel)) + 2, CELL // pixel
    padded = np.pad(maps, ((0, 0), (pad, pad), (pad, pad)), "edge")
    for k in range(TURNS if radius else 1):
        x = pad + step // 2 + round(radius * np.cos(2 * np.pi * k / TURNS) / pixel)
        y = pad + step // 2 + round(radius * np.sin(2 * np.pi * k / TURNS) / pixel)
        yield padded[:, y::step, x::step][:, : shape[0], : shape[1]]


def describe(grey: Array) -> tuple[Array, Array]:
    """Descriptors (25, 8, cells) of a grey image, row by row, and their contrast.

    Each entry is the mean slope in one direction under a Gaussian at one ring position;
    the square root damps the few strong edges that would dominate inner products.
    """
    shape = grey.shape[0] // CELL, grey.shape[1] // CELL
    maps, pixel, blur = orientation_maps(grey), 2, 1.0
    samples: list[Array] = []
    for ring_blur, radius in RINGS:
        if ring_blur > 8 > blur:  # smooth enough to go on at quarter resolution
            maps, pixel = np.stack([cv2.pyrDown(m) for m in maps]), 4
            blur = np.hypot(blur, 2)  # pyrDown blurs by one of its pixels
        if ring_blur > blur:
            extra = np.sqrt(ring_blur**2 - blur**2) / pixel
            maps = np.stack([cv2.GaussianBlur(m, (0, 0), extra) for m in maps])
            blur = ring_blur
        samples += _ring_samples(maps, pixel, radius, shape)
    raw = np.stack(samples).reshape(len(samples), TURNS, shape[0] * shape[1])
    np.maximum(raw, 0, out=raw)
    contrast = np.sqrt(np.einsum("som,som->m", raw, raw))
    raw /= np.maximum(contrast, 1e-6)
    return np.sqrt(raw, out=raw), contrast


def turn(descriptors: Array, eighths: int) -> Array:
    """Descriptors of the image turned by multiples of 45 degrees (x towards y)."""
    turned = np.roll(descriptors, eighths, axis=1)
    for start in range(1, len(turned), TURNS):
        ring = slice(start, start + TURNS)
        turned[ring] = np.roll(turned[ring], eighths, axis=0)
    return turned


def project(descriptors: Array, projection: Projection, eighths: int = 0) -> Array:
    """Unit vectors (cells, 64) in the learned space, of the image turned by eighths.

    Turning the basis back instead of each descriptor forth is the same product.
    """
    mean, basis = projection.mean, projection.basis
    turned = turn(basis.reshape(-1, TURNS, basis.shape[1]), -eighths)
    flat = descriptors.reshape(len(mean), descriptors.shape[-1])
    vectors = flat.T @ turned.reshape(basis.shape) - mean @ basis
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def cell_centres(rows: int, cols: int) -> Array:
    """Pixel coordinates (rows * cols, 2) of the cells, row by row."""
    y, x = np.mgrid[:rows, :cols]
    return np.stack([x, y], axis=-1).reshape(-1, 2) * float(CELL) + CELL // 2


# ---- coarse stage --------------------------------------------------------------------


@dataclass(frozen=True)
class CellSet:
    """The cells of one frame that have texture and show the image."""

    vectors: Array  # (m, 64)
    centres: Array  # (m, 2) px of the frame
    index: Array  # (m,) place in the grid
    shape: tuple[int, int]  # rows, cols of the grid

    def on_grid(self, chosen: Array, values: Array) -> Array:
        """Values (n, 2) of the chosen cells laid out on the grid, NaN elsewhere."""
        grid = np.full((self.shape[0] * self.shape[1], 2), np.nan)
        grid[self.index[chosen]] = values
        return grid.reshape(*self.shape, 2)


def coarse_match(
    cells0: CellSet, cells1: CellSet, position1: Array, temperature: float
) -> tuple[Array, Array, Array, Array]:
    """Mutual maxima: indices of both sides, confidence, row-softmax std of positions.

    Cosines are at most 1, so exp((cos - 1) / temperature) cannot overflow, and a single
    pass over tiles of rows gives sums, maxima and moments with no running maximum.
    """
    count0, count1 = len(cells0.vectors), len(cells1.vectors)
    if not count0 or not count1:
        return np.zeros(0, int), np.zeros(0, int), np.zeros(0), np.zeros((0, 2))
    # Columns 1, x, y, x^2, y^2 about the mean, so that one product sums them all.
    local = position1 - position1.mean(axis=0)
    columns = np.column_stack([np.ones(count1), local, local**2]).astype(np.float32)

    def tile(rows: slice) -> tuple[Array, ...]:
        logits = (cells0.vectors[rows] / np.float32(temperature)) @ cells1.vectors.T
        logits -= np.float32(1 / temperature)
        weight = cv2.exp(logits, logits)  # several times faster than np.exp
        best = weight.argmax(axis=1)
        top = np.take_along_axis(weight, best[:, None], axis=1)[:, 0]
        return best, top, weight @ columns, weight.sum(axis=0), weight.max(axis=0)

    tiles = (slice(k, k + TILE_ROWS) for k in range(0, count0, TILE_ROWS))
    *rows, totals, highest = zip(*by_threads(tile, tiles), strict=True)
    best, top, sums = (np.concatenate(part) for part in rows)
    column_sum = np.sum(totals, axis=0, dtype=float)
    column_top = np.max(highest, axis=0)
    mutual = np.flatnonzero((top > 0) & (top == column_top[best]))
    first = np.unique(best[mutual], return_index=True)[1]  # of equals, the first
    index0 = mutual[np.sort(first)]
    index1, sums = best[index0], sums[index0].astype(float)
    confidence = top[index0].astype(float) ** 2 / (sums[:, 0] * column_sum[index1])
    moments = sums[:, 1:] / sums[:, :1]
    std = np.sqrt(np.maximum(moments[:, 2:] - moments[:, :2] ** 2, 0))
    return index0, index1, np.minimum(confidence, 1), std


def mutual_nearest(cells0: CellSet, cells1: CellSet) -> tuple[Array, Array]:
    """The indices of mutual maxima alone, for few cells: no softmax, no tiles."""
    cosine = cells0.vectors @ cells1.vectors.T
    if not cosine.size:
        return np.zeros(0, int), np.zeros(0, int)
    best, back = cosine.argmax(axis=1), cosine.argmax(axis=0)
    index0 = np.flatnonzero(back[best] == np.arange(len(best)))
    return index0, best[index0]


def local_support(moved: Array, radius: int = 2) -> Array:
    """How many neighbours of each cell moved alike (NaN never agrees)."""
    rows, cols = moved.shape[:2]
    planes = moved.transpose(2, 0, 1).astype(np.float32)
    edge = ((0, 0), (radius, radius), (radius, radius))
    padded = np.pad(planes, edge, constant_values=np.nan)
    count = np.full((rows, cols), -1)  # a cell agrees with itself
    for y, x in product(range(2 * radius + 1), repeat=2):
        near = np.abs(padded[:, y : y + rows, x : x + cols] - planes) < AGREE_PX
        count += near[0] & near[1]
    return np.maximum(count, 0)
