"""Large textured planes out of many small photos, each at its own resolution.

    python scripts/make_mosaics.py PHOTOS mosaics --part 0 --count 24

Nothing is enlarged: pixels are as sharp as those of the photos. `semisure calibrate
--photos mosaics --max-side 3360` fits laws for full-size photos to views of them, and
`benchmarks/full_size.py` is judged on views of the mosaics of the other part.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from semisure.io.images import Image, find_images, read_image, write_png

TILE = 480, 320  # px: width, height
COLUMNS, ROWS = 7, 8  # 3360 x 2560 px, 8.6 megapixels


def tile(photo: Image, rng: np.random.Generator) -> Image | None:
    """A piece of the photo, turned if it is taller than wide; None if it is small."""
    wide = np.rot90(photo) if photo.shape[0] > photo.shape[1] else photo
    spare = wide.shape[1] - TILE[0], wide.shape[0] - TILE[1]
    if min(spare) < 0:
        return None
    x, y = rng.integers(0, np.array(spare) + 1)
    return np.asarray(wide[y : y + TILE[1], x : x + TILE[0]])


def mosaic(photos: list[Path], rng: np.random.Generator) -> Image:
    """Tiles of different photos side by side."""
    tiles: list[Image] = []
    for k in rng.permutation(len(photos)):
        piece = tile(read_image(photos[k]), rng)
        if piece is not None:
            tiles.append(piece)
        if len(tiles) == COLUMNS * ROWS:
            rows = [tiles[k : k + COLUMNS] for k in range(0, len(tiles), COLUMNS)]
            return np.vstack([np.hstack(row) for row in rows])
    raise SystemExit(f"{COLUMNS * ROWS} photos of {TILE} px are needed.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--part", type=int, choices=(0, 1), default=0)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument(
        "--single", type=int, default=0, help="So many of the photos as they are, too."
    )
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    photos = find_images(options.photos)[options.part :: 2]
    for k in range(options.count):
        rng = np.random.default_rng([options.part, k])
        write_png(options.output / f"{k:02d}.png", mosaic(photos, rng))
    every = max(len(photos) // max(options.single, 1), 1)
    for path in photos[::every][: options.single]:
        write_png(options.output / f"{path.stem}.png", read_image(path))


if __name__ == "__main__":
    main()
