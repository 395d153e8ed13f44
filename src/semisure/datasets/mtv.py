"""MTV, thermal and visible images from a drone, as its authors publish it.

The layout expected, a folder for each of the five scenes::

    ROOT/SCENE/images/        visible images, and thermal ones, whose names end in _T
    ROOT/SCENE/depths/        depth of the visible images, HDF5
    ROOT/SCENE/XX_test.npz    the test pairs, visible image first, with all poses

The index files, which may lie in ``ROOT/train_file/SCENE/`` too, are pickled dicts with
the entries of MegaDepth's; paths in them begin at ``ROOT`` with the raw name of the
scene (``jinxia/images/…``), whatever its folder is called.

There are no homographies: the ground is nearly a plane from above, and its homography
is the one that moves points of the visible image as its depth and both poses do. The
thermal image has no depth (the index names that of another camera), so that points
hidden from it are unknown.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from semisure.datasets.megadepth import (
    DEPTHS,
    KEYS,
    camera_of,
    damage_named,
    read_index,
)
from semisure.datasets.posed import PosedCamera, PosedPair, depth_at, seen_from
from semisure.errors import FileError
from semisure.geometry.homography import project, weighted_dlt
from semisure.io.images import read_image
from semisure.types import Matrix3, Points

GRID = (64, 48)  # points of the visible image, across and down
MIN_POINTS = 60  # of these, seen by the thermal image: 2 %
ROUNDS = 30  # of reweighting, to the least sum of distances
_SHORT_PX = 0.1  # distances below it count alike
_INDEXES = ("*/*_test.npz", "train_file/*/*_test.npz")


def is_mtv(root: Path) -> bool:
    """True for a folder of scenes with MTV's index files."""
    return bool(_files(root)) and any(root.glob("*/images"))


def _files(root: Path) -> list[Path]:
    return sorted({path for pattern in _INDEXES for path in root.glob(pattern)})


def read_mtv(root: str | Path) -> list[PosedPair]:
    """The test pairs of all scenes; each is judged by the homography of its depth."""
    root = Path(root)
    files = _files(root)
    if not files:
        raise FileError(
            f"There is no index of MTV in {root}: expected SCENE/XX_test.npz, such as "
            "jinxia/jinxia_test.npz."
        )
    return [pair for path in files for pair in _read_scene(root, path)]


def _read_scene(root: Path, path: Path) -> list[PosedPair]:
    index = read_index(path, (*KEYS, DEPTHS))
    with damage_named(path):
        return [_pair(root, path, index, info) for info in index["pair_infos"]]


def _pair(root: Path, path: Path, index: dict[str, Any], info: Any) -> PosedPair:
    i, j = int(info[0][0]), int(info[0][1])
    visible, thermal = (
        _relocated(root, path.parent.name, camera_of(root, index, k)) for k in (i, j)
    )
    return PosedPair(
        name=f"{path.stem}_{i}_{j}",
        camera0=visible,
        camera1=replace(thermal, depth=None),  # the index names another camera's
        scene=path.stem.removesuffix("_test"),
        planar=True,
    )


def _relocated(root: Path, folder: str, camera: PosedCamera) -> PosedCamera:
    """The camera with its files in the scene's folder, if that was renamed."""
    raw = camera.image.relative_to(root).parts[0]
    if (root / raw).is_dir():
        return camera

    def renamed(path: Path) -> Path:
        return root.joinpath(folder, *path.relative_to(root).parts[1:])

    depth = None if camera.depth is None else renamed(camera.depth)
    return replace(camera, image=renamed(camera.image), depth=depth)


def homography_by_depth(pair: PosedPair) -> Matrix3:
    """The homography nearest to how depth and poses move image 0's points.

    The sum of distances in image 1 is the least, so that roofs and trees, above
    the ground's plane, count little. Pixels of both images as they are on disk.
    """
    source, target = _moved(pair)
    if len(source) < MIN_POINTS:
        raise FileError(
            f"{pair.name} has no homography: of {GRID[0] * GRID[1]} points of "
            f"{pair.camera0.image.name} the other image sees {len(source)}, and at "
            f"least {MIN_POINTS} are needed."
        )
    H = _least_distances(source, target)
    if H is None:
        raise FileError(f"{pair.name} has no homography: its points are on a line.")
    return H


def _moved(pair: PosedPair) -> tuple[Points, Points]:
    """Points of image 0 of known depth, and where image 1 sees them."""
    a, b = pair.camera0, pair.camera1
    if a.depth is None or not a.depth.is_file():
        raise FileError(f"There is no depth of {a.image}: expected {a.depth}.")
    sizes = [read_image(camera.image).shape[1::-1] for camera in (a, b)]
    x, y = (
        (np.arange(n) + 0.5) * side / n - 0.5
        for n, side in zip(GRID, sizes[0], strict=True)
    )
    source = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    z = depth_at(a, source, (sizes[0][0], sizes[0][1]))
    assert z is not None
    target, _ = seen_from(source, z, a, b, pair.P_01)
    inside = (target > -0.5) & (target < np.array(sizes[1]) - 0.5)
    visible = np.asarray((np.isfinite(target) & inside).all(axis=1))
    return source[visible], target[visible]


def _least_distances(source: Points, target: Points) -> Matrix3 | None:
    weight = np.ones(len(source))
    H = None
    for _ in range(ROUNDS):
        H = weighted_dlt(source, target, weight)
        if H is None:
            return None
        apart = np.linalg.norm(target - project(H, source), axis=1)
        weight = 1.0 / np.maximum(np.nan_to_num(apart, nan=np.inf), _SHORT_PX)
    return H
