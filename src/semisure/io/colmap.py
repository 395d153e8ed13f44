"""COLMAP models without COLMAP: cameras, images and points, binary or text.

Points of images are moved to our pixels (centres at integers) as they are read;
cameras keep COLMAP's parameters, as :mod:`semisure.geometry.camera` takes them.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

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
    _check_references(folder, cameras, images, ids)
    by_name = {image.name: image for image in images}
    error_px = np.maximum(error_px, 0.0)  # COLMAP writes −1 where it has none
    return MapModel(cameras, by_name, ids[order], world[order], error_px[order])


def _guarded(read: Callable[[Path], T], path: Path) -> T:
    try:
        return read(path)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}.") from None
    except (struct.error, ValueError, IndexError, OverflowError) as error:
        if isinstance(error, InputError):
            raise FileError(f"{path}: {error}") from None
        raise FileError(f"{path} is damaged or truncated: {error}.") from None


def _check_references(
    folder: Path, cameras: dict[int, RawCamera], images: list[MapImage], ids: Labels
) -> None:
    """Raise where images name what the other files lack: one of them was cut short."""
    for image in images:
        if image.camera_id not in cameras:
            raise FileError(
                f"{folder} is damaged or truncated: {image.name} is by camera "
                f"{image.camera_id}, which the model lacks."
            )
        lost = np.setdiff1d(image.point_ids, ids)
        if (lost >= 0).any():
            raise FileError(
                f"{folder} is damaged or truncated: {image.name} sees point "
                f"{lost.max()}, which the model lacks."
            )


def _finite(what: str, *arrays: ArrayLike) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        raise ValueError(f"{what} that are not finite")


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

    def finish(self) -> None:
        if self.at != len(self.data):
            raise ValueError(f"{len(self.data) - self.at} bytes are left over")


def _cameras_bin(path: Path) -> dict[int, RawCamera]:
    data, cameras = _Bytes(path), {}
    for _ in range(int(data.take("Q")[0])):
        key, model, width, height = (int(v) for v in data.take("iiQQ"))
        if model not in _MODELS:
            raise FileError(f"{path} has a camera of the unknown model {model}.")
        name, count = _MODELS[model]
        cameras[key] = _camera(name, width, height, data.take(f"{count}d"))
    data.finish()
    return cameras


def _camera(
    model: str, width: int, height: int, params: tuple[float, ...]
) -> RawCamera:
    _finite("it has camera parameters", params)
    return RawCamera(model, width, height, params)


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
    data.finish()
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
    data.finish()
    _finite("it has points", numbers)
    return ids, numbers[:, :3], numbers[:, 3]


def _image(
    name: str, camera: int, pose: list[float], xy: Points, ids: Labels
) -> MapImage:
    _finite(f"{name} has keypoints", xy)
    return MapImage(
        name=name,
        camera_id=camera,
        pose=from_quaternion(pose[:4], pose[4:]),
        points=np.array(xy, dtype=np.float64) - CORNER_TO_CENTRE_PX,
        point_ids=np.array(ids, dtype=np.int64),
    )


def _lines(path: Path) -> list[str]:
    """Lines without comments; empty ones stay: an image may have no keypoints."""
    text = path.read_text(encoding="utf-8")
    if not text.endswith("\n"):
        raise ValueError("its last line lacks its end")
    return [line.strip() for line in text.splitlines() if not line.startswith("#")]


def _check_count(path: Path, count: int) -> None:
    """Raise unless there are as many as COLMAP's comment says, where there is one."""
    stated = re.search(r"^# Number of \w+: (\d+)", path.read_text("utf-8"), re.M)
    if stated is not None and int(stated[1]) != count:
        raise ValueError(f"it has {count} entries, but announces {stated[1]}")


def _cameras_txt(path: Path) -> dict[int, RawCamera]:
    cameras = {}
    for line in filter(None, _lines(path)):
        key, *rest = line.split()
        cameras[int(key)] = parse_camera(rest, f"{path}, camera {key}")
    _check_count(path, len(cameras))
    return cameras


def parse_camera(fields: list[str], where: str) -> RawCamera:
    """A camera from the words of ``MODEL WIDTH HEIGHT PARAMS…``."""
    counts = dict(_MODELS.values())
    try:
        model, width, height = fields[0], int(fields[1]), int(fields[2])
        params = tuple(float(value) for value in fields[3:])
        camera = _camera(model, width, height, params)
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
    return camera


def _images_txt(path: Path) -> list[MapImage]:
    lines, images = iter(_lines(path)), []
    for line in lines:
        if not line:
            continue
        _, *pose, camera, name = line.split(maxsplit=9)
        keypoints = next(lines, None)
        if keypoints is None:
            raise ValueError(f"the line of keypoints of {name} is missing")
        words = np.array(keypoints.split()).reshape(-1, 3)
        numbers = [float(value) for value in pose]
        ids = np.array([_point_id(word) for word in words[:, 2]], dtype=np.int64)
        xy = words[:, :2].astype(np.float64)
        images.append(_image(name, int(camera), numbers, xy, ids))
    _check_count(path, len(images))
    return images


def _point_id(word: str) -> int:
    """COLMAP writes −1, or 2⁶⁴ − 1, where nothing was triangulated."""
    number = int(word)
    return -1 if number == 2**64 - 1 else number


def _points_txt(path: Path) -> tuple[Labels, Points3, PerMatch]:
    # POINT3D_ID X Y Z R G B ERROR TRACK…
    rows = [line.split() for line in filter(None, _lines(path))]
    if any(len(row) % 2 for row in rows):  # a track is pairs of image and keypoint
        raise ValueError("a point's track is cut off")
    _check_count(path, len(rows))
    ids = np.array([int(row[0]) for row in rows], dtype=np.int64)
    world = np.array([row[1:4] for row in rows], dtype=np.float64).reshape(-1, 3)
    error = np.array([float(row[7]) for row in rows])
    _finite("it has points", world, error)
    return ids, world, error
