"""Learn the embedded matcher's projection from a folder of photos: a minute of CPU.

Random views of every photo are described; cells that show the same point give the
within-pair covariance W, all cells the total covariance T. The generalised eigenvectors
T v = λ W v with the largest λ are the basis. The temperature is that at which the true
cells are likeliest under the row softmax.

    python scripts/learn_daisy.py PHOTOS -o src/semisure/data/daisy.npz
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar

from semisure.calibrate.random_views import WarpSettings, random_pair
from semisure.geometry.homography import project as project_points
from semisure.io.atomic import appearing_whole
from semisure.io.images import find_images, read_image, reduced
from semisure.matchers.daisy_cells import (
    CELL,
    MIN_CONTRAST,
    Array,
    Projection,
    cell_centres,
    describe,
    project,
)

WARPS = WarpSettings(max_occluders=0)
MIN_SIDE_PX = 12 * CELL
MAX_SIDE_PX = 640


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--dimensions", type=int, default=64)
    parser.add_argument("--held-out", type=float, default=0.2, help="share left out")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    photos = find_images(options.photos)
    order = np.random.default_rng(options.seed).permutation(len(photos))
    used = [photos[i] for i in order[round(options.held_out * len(photos)) :]]
    mean, basis = learn_basis(used, options.dimensions, options.seed)
    start = Projection(mean.astype(np.float32), basis.astype(np.float32), 0.1)
    temperature = learn_temperature(used[:40], start, options.seed + 1)
    arrays = {
        "mean": start.mean,
        "basis": start.basis,
        "temperature": np.float32(temperature),
    }
    with appearing_whole(options.output) as part, part.open("wb") as file:
        np.savez(file, **arrays)
    print(f"{options.output}: {len(used)} photos, temperature {temperature:.4f}")


def learn_basis(photos: list[Path], dimensions: int, seed: int) -> tuple[Array, Array]:
    """Mean and basis; each direction weighs the fourth root of its eigenvalue."""
    total: Array | float = 0.0
    within: Array | float = 0.0
    mean: Array | float = 0.0
    cells = pairs = 0
    for flat0, flat1, i, j in cell_pairs(photos, seed):
        difference = (flat0[i] - flat1[j]).astype(np.float64)
        within, pairs = within + difference.T @ difference, pairs + len(i)
        every = np.concatenate([flat0, flat1]).astype(np.float64)
        total, mean = total + every.T @ every, mean + every.sum(axis=0)
        cells += len(every)
    center = np.asarray(mean) / cells
    spread = np.asarray(total) / cells - np.outer(center, center)
    noise = np.asarray(within) / (2 * pairs)
    noise += 1e-3 * np.trace(noise) / len(noise) * np.eye(len(noise))
    value, vector = eigh(spread, noise)
    return center, (vector * value**0.25)[:, ::-1][:, :dimensions]


def learn_temperature(photos: list[Path], projection: Projection, seed: int) -> float:
    """The temperature at which the true cells are likeliest under the row softmax."""
    held = []
    for flat0, flat1, i, j in cell_pairs(photos, seed):
        some = slice(None, None, max(1, len(i) // 200))
        mine, true = i[some], j[some]
        cosine = project(flat0[mine].T, projection) @ project(flat1.T, projection).T
        held.append((cosine - 1, cosine[np.arange(len(mine)), true] - 1))

    def loss(log_temperature: float) -> float:
        sharp = np.exp(-log_temperature)
        rows = [np.log(np.exp(sharp * c).sum(axis=1)) - sharp * t for c, t in held]
        return float(np.concatenate(rows).mean())

    # Below 0.025 the least similar cell would underflow in float32.
    bounds = float(np.log(0.025)), float(np.log(0.3))
    best = minimize_scalar(loss, bounds=bounds, method="bounded")
    return float(np.exp(best.x))


def cell_pairs(
    photos: list[Path], seed: int
) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Textured descriptors of both views, and the indices of those that correspond."""
    rng = np.random.default_rng(seed)
    for path in photos:
        photo = cv2.cvtColor(reduced(read_image(path), MAX_SIDE_PX), cv2.COLOR_RGB2GRAY)
        if min(photo.shape) < MIN_SIDE_PX:
            continue
        image0, image1, H_01 = random_pair(np.asarray(photo, np.uint8), rng, WARPS)
        (all0, contrast0), (all1, contrast1) = describe(image0), describe(image1)
        good0, good1 = contrast0 > MIN_CONTRAST, contrast1 > MIN_CONTRAST
        i, j = true_cells((photo.shape[0] // CELL, photo.shape[1] // CELL), H_01)
        both = good0[i] & good1[j]
        rank0, rank1 = np.cumsum(good0) - 1, np.cumsum(good1) - 1
        flat0, flat1 = (d.reshape(-1, d.shape[2]).T for d in (all0, all1))
        yield flat0[good0], flat1[good1], rank0[i[both]], rank1[j[both]]


def true_cells(shape: tuple[int, int], H_01: Array) -> tuple[Array, Array]:
    """Cells of image 0 and the cells of image 1 nearest to where they went."""
    rows, cols = shape
    moved = project_points(H_01, cell_centres(rows, cols))
    x, y = np.round((moved - CELL // 2) / CELL).astype(int).T
    seen = np.flatnonzero((x >= 0) & (x < cols) & (y >= 0) & (y < rows))
    return seen, y[seen] * cols + x[seen]


if __name__ == "__main__":
    main()
