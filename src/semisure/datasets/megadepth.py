"""The index of MegaDepth-1500: five NPZ files of 300 pairs, as LoFTR publishes them.

The layout expected is ``ROOT/scene_info/*.npz`` (or the files in ``ROOT`` itself) and
the images where the index says, below ``ROOT``; depths, where there are any, beside
them. The files hold pickled objects, which `numpy_pickles` reads without running them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from semisure.datasets import numpy_pickles
from semisure.datasets.posed import HALF_PIXEL, PosedCamera, PosedPair
from semisure.errors import FileError, in_short
from semisure.io.npz import UNREADABLE, read_npz
from semisure.types.checks import require_file

_KEYS = ("image_paths", "intrinsics", "poses", "pair_infos")
_DEPTHS = "depth_paths"


def read_index(path: str | Path) -> dict[str, Any]:
    """The arrays of an index file, pickled ones included, nothing executed."""
    path = require_file(Path(path), "index")
    try:
        return read_npz(path, (*_KEYS, _DEPTHS), unpickle=numpy_pickles.load)
    except UNREADABLE as error:
        raise FileError(
            f"{path} is not an index that can be read: {in_short(error)}."
        ) from None


def read_megadepth(root: str | Path) -> list[PosedPair]:
    """The pairs of all index files below `root`, in a fixed order."""
    root = Path(root)
    files = sorted(root.glob("scene_info/*.npz")) or sorted(root.glob("*.npz"))
    if not files:
        raise FileError(
            f"There is no MegaDepth index in {root}: expected scene_info/*.npz, such "
            "as 0015_0.1_0.3.npz."
        )
    return [pair for path in files for pair in _read_scene(root, path)]


def _read_scene(root: Path, path: Path) -> list[PosedPair]:
    index = read_index(path)
    missing = [key for key in _KEYS if key not in index]
    if missing:
        raise FileError(f"{path} lacks {', '.join(missing)}.")
    try:
        return [
            _pair(root, path, index, int(info[0][0]), int(info[0][1]))
            for info in index["pair_infos"]
        ]
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise FileError(f"{path} is damaged: {error}.") from None


def _pair(root: Path, path: Path, index: dict[str, Any], i: int, j: int) -> PosedPair:
    name = f"{path.stem}_{i}_{j}"
    cameras = [_camera(root, index, k) for k in (i, j)]
    scene = path.stem.partition("_")[0]
    return PosedPair(name=name, camera0=cameras[0], camera1=cameras[1], scene=scene)


def _camera(root: Path, index: dict[str, Any], k: int) -> PosedCamera:
    K = np.asarray(index["intrinsics"][k], dtype=np.float64).reshape(3, 3)
    pose = np.asarray(index["poses"][k], dtype=np.float64)
    if pose.shape != (4, 4):
        raise ValueError(f"the pose of image {k} has shape {pose.shape}, not (4, 4)")
    depths = index.get(_DEPTHS)
    depth = None if depths is None or depths[k] is None else root / str(depths[k])
    # COLMAP's frame: the first pixel's centre is at (0.5, 0.5).
    return PosedCamera(
        image=root / str(index["image_paths"][k]),
        K=HALF_PIXEL @ K,
        R=pose[:3, :3],
        t=pose[:3, 3],
        depth=depth,
    )
