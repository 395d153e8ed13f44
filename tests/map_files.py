"""A map as COLMAP's binary files, by its description of the format."""

from __future__ import annotations

import struct
from pathlib import Path

from semisure.geometry import pose as se3
from semisure.io.colmap import MapModel

MODELS = {"SIMPLE_PINHOLE": 0, "PINHOLE": 1, "SIMPLE_RADIAL": 2, "FOV": 7}


def write_map(model: MapModel, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    cameras = struct.pack("<Q", len(model.cameras))
    for key, raw in model.cameras.items():
        cameras += struct.pack("<iiQQ", key, MODELS[raw.model], raw.width, raw.height)
        cameras += struct.pack(f"<{len(raw.params)}d", *raw.params)
    images = struct.pack("<Q", len(model.images))
    for key, image in enumerate(model.images.values(), start=1):
        numbers = (*se3.seven_numbers(image.pose), image.camera_id)
        images += struct.pack("<i7di", key, *numbers) + f"{image.name}\0".encode()
        images += struct.pack("<Q", len(image.points))
        for (x, y), point in zip(image.points + 0.5, image.point_ids, strict=True):
            images += struct.pack("<ddq", x, y, point)
    points = struct.pack("<Q", len(model.world))
    rows = zip(model.point_ids, model.world, model.error_px, strict=True)
    for key, xyz, error in rows:  # a colour, and a track of one
        points += struct.pack("<Q3d3BdQ2i", key, *xyz, 9, 9, 9, error, 1, 1, 0)
    for name, data in (("cameras", cameras), ("images", images), ("points3D", points)):
        (folder / f"{name}.bin").write_bytes(data)
    return folder
