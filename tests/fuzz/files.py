"""Damaged files: what is read must be what was written, or be refused."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from fuzz.hostile import chosen, damaged, require
from semisure.datasets.homographies import read_homographies
from semisure.datasets.megadepth import read_index
from semisure.io import hloc, shards
from semisure.io.colmap import read_model
from semisure.io.files import (
    load_calibration,
    load_matches,
    save_calibration,
    save_matches,
)
from semisure.io.images import MAX_PIXELS, focal_px, read_image
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
from semisure.types.pair_records import PairRecord

MATCHES, RESIDUAL = SyntheticMatcher().match(np.eye(3), count=12)
STORED = shards.as_stored(MATCHES)
PAIR = PairRecord(image0="a", image1="b", state="matched", matches=MATCHES)
IMAGES = (".png", ".jpg", ".webp", ".bmp", ".tif", ".ppm", ".jp2", ".gif")
COLMAP = {
    "cameras": "# Number of cameras: 1\n7 SIMPLE_RADIAL 640 480 500 320 240 0.1\n",
    "images": "# Number of images: 1, mean observations per image: 2\n"
    "1 1 0 0 0 0.5 -1 2 7 db/one.jpg\n10.5 20.5 3 30.5 40.5 -1\n",
    "points3D": "# Number of points: 1, mean track length: 1\n3 1 2 3 9 9 9 0.5 1 0\n",
}


def attack(rng: np.random.Generator, folder: Path) -> str:
    """One file, damaged and read."""
    kind: Callable[[np.random.Generator, Path], str] = chosen(
        rng, (_matches, _image, _calibration, _colmap, _shard, _index, _texts)
    )
    return kind(rng, folder)


@cache
def _sound(suffix: str) -> bytes:
    """The bytes of a sound file; made in a folder that is not the attack's."""
    import tempfile

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
            require(cv2.imwrite(str(path), pixels), f"no {suffix} can be written")
        return path.read_bytes()


def _write(rng: np.random.Generator, folder: Path, suffix: str) -> Path:
    path = folder / f"a{suffix}"
    path.write_bytes(damaged(rng, _sound(suffix)))
    return path


def _matches(rng: np.random.Generator, folder: Path) -> str:
    suffix = chosen(rng, (".npz", ".csv"))
    back = load_matches(_write(rng, folder, suffix))
    if suffix == ".npz":  # a text has no checksum
        same = np.array_equal(back.target, MATCHES.target)
        require(same and np.array_equal(back.fine_std, MATCHES.fine_std), "altered")
    return "read"


def _image(rng: np.random.Generator, folder: Path) -> str:
    path = _write(rng, folder, chosen(rng, IMAGES))
    if rng.random() < 0.1:
        require(focal_px(path, (32, 24)) > 0, "a focal length")
    image = read_image(path)
    require(image.ndim == 3 and image.shape[2] == 3, "no colours")
    require(image.shape[0] * image.shape[1] <= MAX_PIXELS, "more pixels than allowed")
    return "read"


def _shard(rng: np.random.Generator, folder: Path) -> str:
    (back,) = shards.records_in(_write(rng, folder, ".parquet"))
    require(back.names == PAIR.names and back.state == PAIR.state, "another pair")
    require(back.matches is not None, "no matches")
    for name in ("target", "fine_std", "confidence"):
        same = np.array_equal(getattr(back.matches, name), getattr(STORED, name))
        require(same, f"altered {name}")
    return "read"


def _calibration(rng: np.random.Generator, folder: Path) -> str:
    calibration = load_calibration(_write(rng, folder, ".json"))
    require(np.isfinite(calibration.intercept).all(), "numbers that are not finite")
    return "read"


def _colmap(rng: np.random.Generator, folder: Path) -> str:
    hurt = chosen(rng, COLMAP)
    for name, text in COLMAP.items():
        data = text.encode()
        data = damaged(rng, data) if name == hurt else data
        (folder / f"{name}.txt").write_bytes(data)
    model = read_model(folder)
    for name in model.images:
        points, world, error = model.observations(name)
        numbers: tuple[Any, ...] = (points, world, error)
        require(all(np.isfinite(v).all() for v in numbers), "not finite")
    return "read"


@cache
def _sound_index() -> bytes:
    infos = np.empty(1, dtype=object)
    infos[0] = ((0, 1), 0.3, np.array([1, 2]))
    file = io.BytesIO()
    np.savez(  # not deflated: flips then reach the pickle behind the checksum
        file,
        image_paths=np.array(["a/0.jpg", "a/1.jpg"], dtype=object),
        intrinsics=np.array([np.eye(3)] * 2),
        poses=np.array([np.eye(4)] * 2),
        pair_infos=infos,
    )
    return file.getvalue()


def _index(rng: np.random.Generator, folder: Path) -> str:
    from semisure.datasets import numpy_pickles

    if rng.random() < 0.5:
        infos = np.empty(2, dtype=object)
        infos[:] = [((0, 1), 0.3), np.arange(3)]
        try:
            protocol = int(rng.integers(2, 5))
            numpy_pickles.load(damaged(rng, pickle.dumps(infos, protocol)))
        except Exception:  # noqa: BLE001, as whoever calls it
            return "refused"
        return "read"
    path = folder / "0015.npz"
    path.write_bytes(damaged(rng, _sound_index()))
    read_index(path)
    return "read"


def _texts(rng: np.random.Generator, folder: Path) -> str:
    queries = b"query/1.jpg SIMPLE_RADIAL 640 480 500 320 240 0.1\n"
    (folder / "q.txt").write_bytes(damaged(rng, queries))
    (folder / "p.txt").write_bytes(damaged(rng, b"query/1.jpg db/1.jpg\n"))
    (folder / "pairs.txt").write_bytes(damaged(rng, b"a.png a.png 1 0 0 0 1 0 0 0 1\n"))
    (folder / "a.png").touch()
    kind = rng.integers(3)
    if kind == 0:
        hloc.read_queries(folder / "q.txt")
    elif kind == 1:
        hloc.read_retrieval(folder / "p.txt")
    else:
        read_homographies(folder)
    return "read"
