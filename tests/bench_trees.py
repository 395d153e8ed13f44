"""Made-up data for the tests of benches, in the data sets' native layouts."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from plain import plain_matches
from semisure.bench.options import Options
from semisure.bench.study import Study
from semisure.datasets.posed import PosedCamera, PosedPair
from semisure.engine import Engine
from semisure.io.images import write_png
from semisure.types import FloatArray, Labels, Matches, Matrix3

SHIFT_PX = 5.0  # of the second image of a sequence, and of a wall
SHIFT = np.array([[1, 0, SHIFT_PX], [0, 1, 0], [0, 0, 1]])
WALL_M, BASELINE_M, FOCAL_PX = 4.0, 0.25, 80.0  # 80 · 0.25 / 4 = 5 px
SIZE = (320, 240)
# COLMAP's: the first pixel's centre is at (0.5, 0.5).
K = np.array([[FOCAL_PX, 0, SIZE[0] / 2], [0, FOCAL_PX, SIZE[1] / 2], [0, 0, 1]])
SMALL = (160, 120)  # that images are brought to, for time's sake
TRAINING = "index/scene_info_0.1_0.7"


def study_of(engine: Engine, cache: Path, *roots: Path, **changed: Any) -> Study:
    """A study of these folders at a small size."""
    asked = {"size": SMALL, **changed}
    return Study(Options(data=roots, cache=cache, **asked), engine)


def texture(seed: int) -> FloatArray:
    """Grey blobs, 320 × 240."""
    noise = np.random.default_rng(seed).normal(size=(240, 320))
    smooth = cv2.GaussianBlur(noise, (0, 0), 2.0)
    return 128 + 90 * smooth / np.abs(smooth).max()


def write_wall(seed: int, *paths: Path) -> None:
    """An image, and the same moved by 5 px to the right."""
    grey = texture(seed)
    for path, image in zip(
        paths, (grey, cv2.warpPerspective(grey, SHIFT, SIZE)), strict=True
    ):
        write_png(path, image.astype(np.uint8))


def add_sequence(folder: Path, seed: int, *views: Matrix3) -> None:
    """A photo and its views, as in HPatches; alone, a view 5 px to the right."""
    grey = texture(seed)
    write_png(folder / "1.png", grey.astype(np.uint8))
    for k, H in enumerate(views or (SHIFT,), start=2):
        view = cv2.warpPerspective(grey, H, SIZE)
        write_png(folder / f"{k}.png", view.astype(np.uint8))
        np.savetxt(folder / f"H_1_{k}", H)


def write_sequences(root: Path) -> Path:
    """Three sequences of one photo and two views each."""
    for seed, name in enumerate(("i_a", "v_b", "v_c")):
        views = [
            np.array([[1, 0.01 * k, 3.0 * k], [0, 1, -2.0 * seed], [0, 0, 1]])
            for k in (2, 3)
        ]
        add_sequence(root / name, seed, *views)
    return root


def _wall_poses() -> list[FloatArray]:
    """Two cameras before a wall, the second 0.25 m to the left."""
    poses = [np.eye(4), np.eye(4)]
    poses[1][0, 3] = BASELINE_M
    return poses


def _write_depth(path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="needs the extra store")
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        file["depth"] = np.full(SIZE[::-1], WALL_M, np.float32)


def write_megadepth(
    root: Path, scene: str, overlaps: Sequence[float], *, index: str = "scene_info"
) -> None:
    """An index of pairs of a wall's two views, of these overlaps; no images."""
    (root / index).mkdir(parents=True, exist_ok=True)
    names = [f"Undistorted_SfM/{scene}/images/{k}.png" for k in (0, 1)]
    depths = [f"phoenix/S6/{scene}/{k}.h5" for k in (0, 1)]
    np.savez(
        root / index / f"{scene}_0.1_0.7.npz",
        image_paths=np.array(names, dtype=object),
        depth_paths=np.array(depths, dtype=object),
        intrinsics=np.array([K, K]),
        poses=np.array(_wall_poses()),
        pair_infos=_objects([((0, 1), share, np.zeros(3)) for share in overlaps]),
    )


def write_scene(root: Path, scene: str, *, index: str = "scene_info") -> None:
    """A wall seen twice in MegaDepth's own layout: index, images and depth."""
    write_megadepth(root, scene, [0.5], index=index)
    images = root / "Undistorted_SfM" / scene / "images"
    write_wall(int(scene), images / "0.png", images / "1.png")
    for k in (0, 1):
        _write_depth(root / "phoenix" / "S6" / scene / f"{k}.h5")


def posed_pair(folder: Path, hidden_from_row: int) -> PosedPair:
    """A wall 4 m away seen by two cameras 0.25 m apart: everything moves by 4 px."""
    cameras = []
    for k in (0, 1):
        depth = np.full((48, 64), 4000, np.uint16)
        if k == 1:
            depth[hidden_from_row:] = 2000  # something stands before the wall
        cv2.imwrite(str(folder / f"{k}.png"), depth)
        camera = PosedCamera(
            image=folder / f"{k}.jpg",
            K=np.diag([64.0, 64.0, 1.0]),
            R=np.eye(3),
            t=np.array([0.25 * k, 0, 0]),
            depth=folder / f"{k}.png",
        )
        cameras.append(camera)
    return PosedPair(name="p", camera0=cameras[0], camera1=cameras[1], scene="s")


def small_matches(
    source: FloatArray, target: FloatArray, side: int | Labels = 1
) -> Matches:
    """Matches of two images of 64 × 48 px that are all alike."""
    small = {"source_size": (64, 48), "target_size": (64, 48), "side": side}
    return plain_matches(source, target, **small)


def write_mtv(root: Path, scene: str, seed: int) -> Path:
    """A wall seen by daylight and by heat, as MTV comes: its index is a bare pickle."""
    folder = root / scene
    names = [f"{scene}/images/9h00001.png", f"{scene}/images/DJI_0001_T.png"]
    write_wall(seed, root / names[0], root / names[1])
    depth = f"{scene}/depths/9h00001.JPG.h5"
    _write_depth(root / depth)
    entries = {
        "image_paths": _objects([*names, None]),
        # The thermal image has no depth of its own: its bridge's is named.
        "depth_paths": _objects([depth, f"{scene}/depths/bridge.h5", None]),
        "intrinsics": _objects([K, K, None]),
        "poses": _objects([*_wall_poses(), None]),
        "pair_infos": [[np.array([0, 1]), 0.5, [2000, 4000, 320, 256]]],
    }
    for part in ("train", "val", "test"):
        path = folder / f"{scene}_{part}.npz"
        path.write_bytes(pickle.dumps(entries, protocol=4))
    return folder


def _objects(entries: Sequence[Any]) -> Any:
    array = np.empty(len(entries), dtype=object)
    for k, entry in enumerate(entries):
        array[k] = entry
    return array
