"""How good a model `semisure reconstruct` makes, against COLMAP's own by SIFT.

A store of a scene with known cameras is reconstructed by pycolmap's incremental mapper,
intrinsics given and kept: with our keypoints, and with pycolmap's SIFT, matched on the
same pairs of images. Ours ends with a robust bundle adjustment. Errors are medians over
cameras: of positions, in the unit of the truth, after the similarity that fits them
best; of rotations after the rotation that fits them best.

    semisure match-pairs SCENE/images --exhaustive -o store
    python benchmarks/reconstruction.py store ../shared/data/posed/fountain-P11
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pycolmap

from semisure.datasets.posed import PosedCamera, read_posed
from semisure.geometry.camera import Camera
from semisure.io.colmap import quiet
from semisure.io.store import Store
from semisure.mapping.export import DATABASE, ExportSettings, keypoints_of, to_colmap
from semisure.mapping.reconstruct import (
    ReconstructionSettings,
    adjust_robustly,
    map_database,
)
from semisure.types import FloatArray, Points3

MAPPING = ReconstructionSettings(refine_cameras=False, workers=1)


@dataclass(frozen=True)
class Scene:
    """A store and the truth about its images."""

    store: Store
    cameras: dict[str, PosedCamera]
    images: Path

    @classmethod
    def read(cls, address: str, folder: Path) -> Scene:
        store = Store.at(address)
        pairs = read_posed(folder)
        posed = (camera for pair in pairs for camera in (pair.camera0, pair.camera1))
        cameras = {camera.image.name: camera for camera in posed}
        kept = {name: cameras[name] for name in store.images()}
        return cls(store, kept, Path(store.manifest.images))

    def camera(self, name: str) -> Camera:
        return Camera.from_matrix(self.cameras[name].K, self.store.images()[name].size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("scene", type=Path, help="folder with cameras.txt, pairs.csv")
    asked = parser.parse_args()
    scene = Scene.read(asked.store, asked.scene)
    matcher = scene.store.manifest.recipe["matcher"]["name"]
    pairs = sum(1 for _ in scene.store.summaries())
    print(f"{asked.scene.name}, {matcher}: {len(scene.cameras)} images, {pairs} pairs")
    print(f"{'arm':<24}{'images':>7}{'rot °':>9}{'position':>10}{'worst':>9}"
          f"{'points':>8}{'track':>7}{'s':>7}")  # fmt: skip
    for arm in (of_store, of_sift):
        with tempfile.TemporaryDirectory() as work:
            arm(scene, Path(work))


def of_store(scene: Scene, work: Path) -> None:
    """Our keypoints."""
    start = time.perf_counter()
    settings = ExportSettings(
        cameras={name: scene.camera(name) for name in scene.cameras},
        shared_camera=True,
    )
    matches = keypoints_of(scene.store, settings)
    to_colmap(scene.store, work / DATABASE, matches, settings)
    model = map_database(work / DATABASE, scene.images, work / "models", MAPPING)
    adjust_robustly(model, MAPPING)
    show("semisure", model, scene, start)


def of_sift(scene: Scene, work: Path) -> None:
    """pycolmap's own features on the same images and pairs."""
    start = time.perf_counter()
    database, names = work / DATABASE, sorted(scene.cameras)
    camera = scene.camera(names[0])
    reader = pycolmap.ImageReaderOptions()
    reader.camera_model = camera.model
    reader.camera_params = ",".join(map(str, camera.params))
    one_thread = pycolmap.FeatureExtractionOptions()
    one_thread.num_threads = 1
    listed = work / "pairs.txt"
    lines = [f"{a} {b}\n" for a, b in (p.names for p in scene.store.summaries())]
    listed.write_text("".join(lines))
    with quiet():
        pycolmap.extract_features(
            database,
            scene.images,
            names,
            camera_mode=pycolmap.CameraMode.SINGLE,
            reader_options=reader,
            extraction_options=one_thread,
        )
        matching, pairing = (
            pycolmap.FeatureMatchingOptions(),
            pycolmap.ImportedPairingOptions(),
        )
        matching.num_threads = 1
        pairing.match_list_path = listed
        pycolmap.match_image_pairs(
            database, matching_options=matching, pairing_options=pairing
        )
    model = map_database(database, scene.images, work / "models", MAPPING)
    show("sift", model, scene, start)


def show(name: str, model: Any, scene: Scene, start: float) -> None:
    seconds = time.perf_counter() - start
    count, turn, shift, worst = errors(model, scene.cameras)
    print(
        f"{name:<24}{count:>7}{turn:>9.4f}{shift:>10.5f}{worst:>9.5f}"
        f"{model.num_points3D():>8}{model.compute_mean_track_length():>7.2f}"
        f"{seconds:>7.1f}",
        flush=True,
    )


def errors(
    model: Any, truth: dict[str, PosedCamera]
) -> tuple[int, float, float, float]:
    """Registered images; median rotation (degrees) and position error; the worst."""
    images = [model.images[key] for key in model.reg_image_ids()]
    poses = [image.cam_from_world().matrix() for image in images]
    true = [truth[image.name] for image in images]
    at = np.array([-P[:, :3].T @ P[:, 3] for P in poses])
    should = np.array([-camera.R.T @ camera.t for camera in true])
    s, R, t = similarity(at, should)
    off = np.linalg.norm(s * at @ R.T + t - should, axis=1)
    # Rotations by their own mean: centres on an arc hardly hold the turn about it.
    mean = sum(c.R.T @ P[:, :3] for P, c in zip(poses, true, strict=True))
    U, _, Vt = np.linalg.svd(mean)
    turns = [P[:, :3] @ (U @ Vt).T @ c.R.T for P, c in zip(poses, true, strict=True)]
    angles = [
        np.degrees(np.arccos(np.clip((np.trace(T) - 1) / 2, -1, 1))) for T in turns
    ]
    return (
        len(images),
        float(np.median(angles)),
        float(np.median(off)),
        float(off.max()),
    )


def similarity(a: Points3, b: Points3) -> tuple[float, FloatArray, FloatArray]:
    """Scale, rotation and shift that bring `a` to `b`, by least squares (Umeyama)."""
    x, y = a - a.mean(axis=0), b - b.mean(axis=0)
    U, S, Vt = np.linalg.svd(y.T @ x)
    sign = np.array([1.0, 1.0, np.sign(np.linalg.det(U @ Vt))])
    R = (U * sign) @ Vt
    s = float((S * sign).sum() / (x**2).sum())
    return s, R, b.mean(axis=0) - s * R @ a.mean(axis=0)


if __name__ == "__main__":
    main()
