"""Damaged files: what is read must be what was written, or be refused."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import cv2
import numpy as np

from fuzz.hostile import chosen, damaged, require
from semisure.io import shards
from semisure.io.colmap import read_model
from semisure.io.files import (
    load_calibration,
    load_matches,
    save_calibration,
    save_matches,
)
from semisure.io.images import MAX_PIXELS, read_image
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
from semisure.types.pair_records import PairRecord

MATCHES, RESIDUAL = SyntheticMatcher().match(np.eye(3), count=12)
PAIR = PairRecord(image0="a", image1="b", state="matched", matches=MATCHES)
PHOTOS = (".png", ".jpg", ".webp", ".bmp", ".tif", ".ppm", ".jp2", ".gif")
COLMAP = {
    "cameras": "# Number of cameras: 1\n7 SIMPLE_RADIAL 640 480 500 320 240 0.1\n",
    "images": "# Number of images: 1, mean observations per image: 2\n"
    "1 1 0 0 0 0.5 -1 2 7 db/one.jpg\n10.5 20.5 3 30.5 40.5 -1\n",
    "points3D": "# Number of points: 1, mean track length: 1\n3 1 2 3 9 9 9 0.5 1 0\n",
}


def attack(rng: np.random.Generator, folder: Path) -> str:
    """One file, damaged and read."""
    kind = chosen(rng, ("file", "photo", "colmap"))
    if kind == "colmap":
        _colmap(rng, folder)
    else:
        suffixes = PHOTOS if kind == "photo" else (".npz", ".csv", ".json", ".parquet")
        path = folder / f"a{chosen(rng, suffixes)}"
        path.write_bytes(damaged(rng, _sound(path.suffix)))
        _read(path)
    return "read"


@cache
def _sound(suffix: str) -> bytes:
    """The bytes of a sound file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a{suffix}"
        if suffix in (".npz", ".csv"):
            save_matches(MATCHES, path, residual=RESIDUAL)
        elif suffix == ".json":
            save_calibration(EXAMPLE_CALIBRATION, path)
        elif suffix == ".parquet":
            shards.write_pairs(path, [PAIR])
        else:
            pixels = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
            cv2.imwrite(str(path), pixels)
        return path.read_bytes()


def _read(path: Path) -> None:
    if path.suffix in (".npz", ".csv"):
        same = np.array_equal(load_matches(path).target, MATCHES.target)
        require(same or path.suffix == ".csv", "altered")  # a CSV has no checksum
    elif path.suffix == ".json":
        calibration = load_calibration(path)
        require(np.isfinite(calibration.intercept).all(), "not finite")
    elif path.suffix == ".parquet":
        (back,) = shards.records_in(path)
        target = MATCHES.target.astype(np.float32)
        require(np.array_equal(back.matches.target, target), "altered")
        require((back.names, back.state) == (("a", "b"), "matched"), "another pair")
    else:
        height, width, _ = read_image(path).shape
        require(height * width <= MAX_PIXELS, "more pixels than allowed")


def _colmap(rng: np.random.Generator, folder: Path) -> None:
    hurt = chosen(rng, COLMAP)
    for name, text in COLMAP.items():
        data = damaged(rng, text.encode()) if name == hurt else text.encode()
        (folder / f"{name}.txt").write_bytes(data)
    model = read_model(folder)
    for name in model.images:
        numbers = model.observations(name)
        require(all(np.isfinite(values).all() for values in numbers), "not finite")
