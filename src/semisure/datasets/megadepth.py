"""MegaDepth: the index of its 1500 test pairs, and that of its training scenes.

LoFTR and its successors publish both. The layout expected is one of these folders below
``ROOT``, with the images where the index says below ``ROOT``, ``ROOT/test`` or
``ROOT/train``; depths, where there are any, beside them::

    ROOT/scene_info/*.npz                  the test index or, under the same name,
    ROOT/index/scene_info_0.1_0.7/*.npz    the training index, which is its usual one
    ROOT/index/scene_info_val_1500/*.npz   the test index beside it

Calibration reads the training index, without the test scenes; its pairs overlap as much
as the test pairs.

The files hold pickled objects, which `numpy_pickles` reads without running them.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from semisure.datasets import evenly, numpy_pickles
from semisure.datasets.posed import HALF_PIXEL, PosedCamera, PosedPair
from semisure.errors import FileError, in_short
from semisure.io.files import MAX_BYTES, read_npz
from semisure.types.checks import require_file

TEST_SCENES = ("0015", "0022")  # of MegaDepth-1500: nothing is calibrated on them
HELD_OUT_OVERLAP = (0.1, 0.7)  # as MegaDepth-1500's; the paper does not say
_TEST_INDEX = "scene_info", "index/scene_info_val_1500"
_TRAINING_INDEX = "index/scene_info_0.1_0.7"
_IMAGE_ROOTS = ("", "test", "train")
KEYS = ("image_paths", "intrinsics", "poses", "pair_infos")
DEPTHS = "depth_paths"


def read_index(path: str | Path, needed: Sequence[str] = KEYS) -> dict[str, Any]:
    """The arrays of an index file, pickled ones included, nothing executed."""
    path = require_file(Path(path), "index")
    try:
        if zipfile.is_zipfile(path):
            names = (*KEYS, DEPTHS)
            index = read_npz(path, names, unpickle=numpy_pickles.load)
        else:
            index = _bare(path)
    except Exception as error:  # noqa: BLE001, any error of a damaged file
        raise FileError(
            f"{path} is not an index that can be read: {in_short(error)}."
        ) from None
    missing = [key for key in needed if key not in index]
    if missing:
        raise FileError(f"{path} lacks {', '.join(missing)}.")
    return index


def _bare(path: Path) -> dict[str, Any]:
    """The entries of a pickled dict, which NumPy too would read under this name."""
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"it takes more than {MAX_BYTES >> 20} MB")
    return dict(numpy_pickles.load(path.read_bytes()))


def is_megadepth(root: Path) -> bool:
    """True for a folder with an index."""
    return bool(_files(root, *_TEST_INDEX, _TRAINING_INDEX))


def has_training_index(root: Path) -> bool:
    """True if an index of training scenes is there under its usual name."""
    return bool(_files(root, _TRAINING_INDEX))


def read_megadepth(root: str | Path, *, limit: int | None = None) -> list[PosedPair]:
    """The pairs of the test index or, without one, of the training index, in order."""
    root = Path(root)
    files = _some_files(root, *_TEST_INDEX, _TRAINING_INDEX)
    indexes = {path: read_index(path) for path in evenly(files, limit)}
    every = [(path, i) for path, index in indexes.items() for i in index["pair_infos"]]
    return [_pair(root, path, indexes[path], i) for path, i in evenly(every, limit)]


def read_held_out(root: str | Path, *, limit: int | None = None) -> list[PosedPair]:
    """Pairs to calibrate on: of training scenes, overlapping as the test pairs do.

    A limit is spread evenly over the index files and over the pairs of each.
    """
    root = Path(root)
    files = _some_files(root, _TRAINING_INDEX, "scene_info")
    others = [path for path in files if _scene(path) not in TEST_SCENES]
    if not others:
        raise FileError(
            f"{root} has nothing to calibrate on: its index holds MegaDepth-1500's own "
            f"scenes ({', '.join(TEST_SCENES)}) only; give the training index."
        )
    indexes = {path: read_index(path) for path in evenly(others, limit)}
    most = None if limit is None else -(-limit // len(indexes))
    entries = [
        (path, info)
        for path, index in indexes.items()
        for info in evenly(_overlapping(path, index), most)
    ]
    return [_pair(root, path, indexes[path], i) for path, i in evenly(entries, limit)]


def _files(root: Path, *folders: str) -> list[Path]:
    """The index files in the first of the folders that has any."""
    lists = (sorted((root / folder).glob("*.npz")) for folder in folders)
    return next(filter(None, lists), [])


def _some_files(root: Path, *folders: str) -> list[Path]:
    files = _files(root, *folders)
    if not files:
        raise FileError(
            f"There is no MegaDepth index in {root}: expected scene_info/*.npz, such "
            "as 0015_0.1_0.3.npz."
        )
    return files


def _scene(path: Path) -> str:
    return path.stem.partition("_")[0]


@contextmanager
def damage_named(path: Path) -> Iterator[None]:
    """Errors in the entries of an index are raised with its file's name."""
    try:
        yield
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise FileError(f"{path} is damaged: {error}.") from None


def _overlapping(path: Path, index: dict[str, Any]) -> list[Any]:
    """The entries of pairs with a suitable overlap."""
    low, high = HELD_OUT_OVERLAP
    with damage_named(path):
        return [info for info in index["pair_infos"] if low <= float(info[1]) <= high]


def _pair(root: Path, path: Path, index: dict[str, Any], info: Any) -> PosedPair:
    with damage_named(path):
        i, j = int(info[0][0]), int(info[0][1])
        a, b = (camera_of(_image_root(root, index, k), index, k) for k in (i, j))
    name = f"{path.stem}_{i}_{j}"
    return PosedPair(name=name, camera0=a, camera1=b, scene=_scene(path))


def _image_root(root: Path, index: dict[str, Any], k: int) -> Path:
    """The folder that an image's path begins at; `root` if the image is nowhere."""
    folders = [root / name for name in _IMAGE_ROOTS]
    image = str(index["image_paths"][k])
    return next((path for path in folders if (path / image).exists()), root)


def camera_of(root: Path, index: dict[str, Any], k: int) -> PosedCamera:
    """The camera of image `k` of an index whose paths begin at `root`."""
    K = np.asarray(index["intrinsics"][k], dtype=np.float64).reshape(3, 3)
    pose = np.asarray(index["poses"][k], dtype=np.float64)
    if pose.shape != (4, 4):
        raise ValueError(f"the pose of image {k} has shape {pose.shape}, not (4, 4)")
    depths = index.get(DEPTHS)
    depth = None if depths is None or depths[k] is None else root / str(depths[k])
    # COLMAP's frame: the first pixel's centre is at (0.5, 0.5).
    return PosedCamera(
        image=root / str(index["image_paths"][k]),
        K=HALF_PIXEL @ K,
        R=pose[:3, :3],
        t=pose[:3, 3],
        depth=depth,
    )
