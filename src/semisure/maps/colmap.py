"""COLMAP models without COLMAP: cameras, images and points, binary or text.

Points of images are moved to our pixels (centres at integers) as they are read;
cameras keep COLMAP's parameters, as :mod:`semisure.geometry.camera` takes them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np

from semisure.errors import FileError, InputError
from semisure.geometry.camera import CORNER_TO_CENTRE_PX, Camera
from semisure.geometry.pose import from_quaternion
from semisure.types import Labels, PerMatch, Points, Points3, Pose

# COLMAP's models by number: name and count of parameters. Models that we cannot compute
# with are read too, since a map's own cameras are not needed to localise in it.
_MODELS: dict[int, tuple[str, int]] = {
    0: ("SIMPLE_PINHOLE", 3),
    1: ("PINHOLE", 4),
    2: ("SIMPLE_RADIAL", 4),
    3: ("RADIAL", 5),
    4: ("OPENCV", 8),
    5: ("OPENCV_FISHEYE", 8),
    6: ("FULL_OPENCV", 12),
    7: ("FOV", 5),
    8: ("SIMPLE_RADIAL_FISHEYE", 4),
    9: ("RADIAL_FISHEYE", 5),
    10: ("THIN_PRISM_FISHEYE", 12),
    11: ("RAD_TAN_THIN_PRISM_FISHEYE", 16),
    12: ("SIMPLE_DIVISION", 4),
    13: ("DIVISION", 5),
    14: ("SIMPLE_FISHEYE", 3),
    15: ("FISHEYE", 4),
    16: ("EUCM", 6),
    17: ("EQUIRECTANGULAR", 2),
}
T = TypeVar("T")
_OBSERVATION = np.dtype([("xy", "<f8", 2), ("point", "<i8")])


@dataclass(frozen=True, slots=True)
class RawCamera:
    """A camera as the file has it, of any model."""

    model: str
    width: int
    height: int
    params: tuple[float, ...]

    def camera(self) -> Camera:
        """A camera to compute with; raises for other models than ours."""
        return Camera(self.model, self.width, self.height, self.params)


@dataclass(frozen=True, slots=True, eq=False)
class MapImage:
    """A registered image: its pose and its keypoints."""

    name: str
    camera_id: int
    pose: Pose  # from world to camera
    points: Points  # px, ours
    point_ids: Labels  # −1 where nothing was triangulated


@dataclass(frozen=True, slots=True, eq=False)
class MapModel:
    """A sparse map: images by name, points by identity."""

    cameras: dict[int, RawCamera]
    images: dict[str, MapImage]
    point_ids: Labels  # ascending
    world: Points3
    error_px: PerMatch  # mean reprojection error

    def observations(self, name: str) -> tuple[Points, Points3, PerMatch]:
        """Triangulated points of an image: pixels, world points, errors in px.

        Points of few images have errors that are too small, since they were fitted to
        them: no error is taken below the map's median.
        """
        if name not in self.images:
            raise InputError(
                f"The map has no image {name!r}, but {len(self.images)} others; the "
                "names in the pairs file must be those of the map."
            )
        image = self.images[name]
        if not len(self.point_ids):
            return np.zeros((0, 2)), np.zeros((0, 3)), np.zeros(0)
        place = np.searchsorted(self.point_ids, image.point_ids)
        place = np.minimum(place, len(self.point_ids) - 1)
        mapped = self.point_ids[place] == image.point_ids
        error = np.maximum(self.error_px[place[mapped]], np.median(self.error_px))
        return image.points[mapped], self.world[place[mapped]], error


def read_model(folder: str | Path) -> MapModel:
    """The COLMAP model in a folder: ``.bin`` files or, failing them, ``.txt``."""
    folder = Path(folder)
    suffix = ".bin" if (folder / "images.bin").exists() else ".txt"
    names = ("cameras", "images", "points3D")
    paths = [folder / f"{name}{suffix}" for name in names]
    for path in paths:
        if not path.is_file():
            raise FileError(
                f"{folder} is not a COLMAP model: it lacks {path.name}. A model has "
                "cameras, images and points3D, all .bin or all .txt."
            )
    binary = suffix == ".bin"
    cameras = _guarded(_cameras_bin if binary else _cameras_txt, paths[0])
    images = _guarded(_images_bin if binary else _images_txt, paths[1])
    ids, world, error_px = _guarded(_points_bin if binary else _points_txt, paths[2])
    order = np.argsort(ids, kind="stable")
    by_name = {image.name: image for image in images}
    error_px = np.maximum(error_px, 0.0)  # COLMAP writes −1 where it has none
    return MapModel(cameras, by_name, ids[order], world[order], error_px[order])


def _guarded(read: Callable[[Path], T], path: Path) -> T:
    try:
        return read(path)
    except (struct.error, ValueError, IndexError) as error:
        if isinstance(error, InputError):
            raise FileError(f"{path}: {error}") from None
        raise FileError(f"{path} is damaged or truncated: {error}.") from None


class _Bytes:
    """A little-endian reader over a whole file."""

    def __init__(self, path: Path) -> None:
        self.data, self.at = path.read_bytes(), 0

    def take(self, form: str) -> tuple[float, ...]:
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values

    def skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self.data):
            raise ValueError("it ends too early")

    def text(self) -> str:
        end = self.data.index(b"\0", self.at)
        value = self.data[self.at : end].decode()
        self.at = end + 1
        return value


def _cameras_bin(path: Path) -> dict[int, RawCamera]:
    data, cameras = _Bytes(path), {}
    for _ in range(int(data.take("Q")[0])):
        key, model, width, height = (int(v) for v in data.take("iiQQ"))
        if model not in _MODELS:
            raise FileError(f"{path} has a camera of the unknown model {model}.")
        name, count = _MODELS[model]
        cameras[key] = RawCamera(name, width, height, data.take(f"{count}d"))
    return cameras


def _images_bin(path: Path) -> list[MapImage]:
    data, images = _Bytes(path), []
    for _ in range(int(data.take("Q")[0])):
        _, *pose, camera = data.take("i7di")
        name, count = data.text(), int(data.take("Q")[0])
        start = data.at
        data.skip(count * _OBSERVATION.itemsize)
        keypoints = np.frombuffer(data.data, _OBSERVATION, count, start)
        xy, ids = keypoints["xy"], keypoints["point"]
        images.append(_image(name, int(camera), pose, xy, ids))
    return images


def _points_bin(path: Path) -> tuple[Labels, Points3, PerMatch]:
    data = _Bytes(path)
    count = int(data.take("Q")[0])
    if count * 51 > len(data.data):
        raise ValueError("it ends too early")
    ids, numbers = np.empty(count, dtype=np.int64), np.empty((count, 4))
    for i in range(count):
        ids[i], x, y, z, _, _, _, error, track = data.take("Q3d3BdQ")
        numbers[i] = x, y, z, error
        data.skip(8 * int(track))
    return ids, numbers[:, :3], numbers[:, 3]


def _image(
    name: str, camera: int, pose: list[float], xy: Points, ids: Labels
) -> MapImage:
    return MapImage(
        name=name,
        camera_id=camera,
        pose=from_quaternion(pose[:4], pose[4:]),
        points=np.array(xy, dtype=np.float64) - CORNER_TO_CENTRE_PX,
        point_ids=np.array(ids, dtype=np.int64),
    )


def _lines(path: Path) -> Iterator[str]:
    """Lines without comments; empty ones stay: an image may have no keypoints."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            yield line.strip()


def _cameras_txt(path: Path) -> dict[int, RawCamera]:
    cameras = {}
    for line in filter(None, _lines(path)):
        key, *rest = line.split()
        cameras[int(key)] = parse_camera(rest, f"{path}, camera {key}")
    return cameras


def parse_camera(fields: list[str], where: str) -> RawCamera:
    """A camera from the words of ``MODEL WIDTH HEIGHT PARAMS…``."""
    counts = dict(_MODELS.values())
    try:
        model, width, height = fields[0], int(fields[1]), int(fields[2])
        params = tuple(float(value) for value in fields[3:])
    except (IndexError, ValueError):
        raise FileError(
            f"{where}: expected MODEL WIDTH HEIGHT PARAMS…, but found "
            f"{' '.join(fields)!r}."
        ) from None
    if len(params) != counts.get(model, len(params)):
        raise FileError(
            f"{where}: a {model} camera has {counts[model]} parameters, but "
            f"{len(params)} are given."
        )
    return RawCamera(model, width, height, params)


def _images_txt(path: Path) -> list[MapImage]:
    lines, images = _lines(path), []
    for line in lines:
        if not line:
            continue
        _, *pose, camera, name = line.split(maxsplit=9)
        rows = np.array(next(lines, "").split(), dtype=np.float64).reshape(-1, 3)
        numbers = [float(value) for value in pose]
        ids = rows[:, 2].astype(np.int64)
        images.append(_image(name, int(camera), numbers, rows[:, :2], ids))
    return images


def _points_txt(path: Path) -> tuple[Labels, Points3, PerMatch]:
    # POINT3D_ID X Y Z R G B ERROR TRACK…
    rows = [line.split(maxsplit=8) for line in filter(None, _lines(path))]
    ids = np.array([int(row[0]) for row in rows], dtype=np.int64)
    world = np.array([row[1:4] for row in rows], dtype=np.float64).reshape(-1, 3)
    return ids, world, np.array([float(row[7]) for row in rows])
