"""COLMAP models as arrays: cameras, images and points, binary or text.

Points of images are moved to our pixels (centres at integers) as they are read;
cameras keep COLMAP's parameters, as :mod:`semisure.geometry.camera` takes them.

pycolmap knows the camera models and reads text. Binary files are parsed here: pycolmap
4.2 takes a file that was cut short for a whole one, or fills the memory with it, and
has keypoints one Python object at a time only.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import numpy as np

from semisure.errors import FileError, InputError, MissingExtraError, in_short
from semisure.geometry.camera import CORNER_TO_CENTRE_PX, Camera
from semisure.geometry.pose import from_quaternion
from semisure.types import Labels, PerMatch, Points, Points3, Pose

T = TypeVar("T")
_FILES = ("cameras", "images", "points3D")
_KEYPOINT = np.dtype([("xy", "<f8", 2), ("point", "<i8")])


@dataclass(frozen=True, slots=True)
class RawCamera:
    """A camera of any model, as in the file."""

    model: str
    width: int
    height: int
    params: tuple[float, ...]

    def camera(self) -> Camera:
        """The camera to compute with; raises for models that semisure does not have."""
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


def pycolmap(purpose: str) -> Any:
    """The library; if it is missing, an error that says how to get it."""
    try:
        import pycolmap as library
    except ImportError:
        raise MissingExtraError("pycolmap", "pose", purpose) from None
    return library


@contextmanager
def quiet() -> Iterator[None]:
    """Silence COLMAP's log, except for errors."""
    log = pycolmap("COLMAP's mapper").logging
    before, log.minloglevel = log.minloglevel, int(log.ERROR)
    try:
        yield
    finally:
        log.minloglevel = before


def read_model(folder: str | Path) -> MapModel:
    """The COLMAP model in a folder: ``.bin`` files or, failing them, ``.txt``."""
    folder = Path(folder)
    suffix = ".bin" if (folder / "images.bin").exists() else ".txt"
    for name in _FILES:
        if not (folder / f"{name}{suffix}").is_file():
            raise FileError(
                f"{folder} is not a COLMAP model: it lacks {name}{suffix}. A model has "
                "cameras, images and points3D, all .bin or all .txt."
            )
    if suffix == ".bin":
        return _read_binary(folder, folder)
    with TemporaryDirectory() as converted:
        _convert(folder, Path(converted))
        return _read_binary(Path(converted), folder)


def _convert(folder: Path, converted: Path) -> None:
    """Write a text model as binary files."""
    model = pycolmap("Reading a model of COLMAP's").Reconstruction()
    try:
        model.read_text(str(folder))
        model.write_binary(str(converted))
    except (OSError, ValueError, IndexError, RuntimeError) as error:
        raise _damaged(folder, error) from None


def _read_binary(folder: Path, called: Path) -> MapModel:
    """The model in `folder`; error messages name `called`."""

    def read(name: str, entries: Callable[[bytes], T]) -> T:
        try:
            return entries((folder / name).read_bytes())
        except InputError as error:
            raise FileError(f"{called / name}: {error}") from None
        except (OSError, struct.error, ValueError, OverflowError) as error:
            raise _damaged(called / name, error) from None

    cameras = read("cameras.bin", _cameras)
    images = read("images.bin", _images)
    ids, world, error_px = read("points3D.bin", _points)
    order = np.argsort(ids, kind="stable")
    all_ids = np.append(-1, ids[order])  # ascending
    for image in images:
        if image.camera_id not in cameras:
            raise _damaged(called, f"it lacks the camera of {image.name}")
        place = np.searchsorted(all_ids, image.point_ids, side="right") - 1
        lost = image.point_ids[all_ids[place] != image.point_ids]
        if len(lost):
            raise _damaged(called, f"it lacks point {lost[0]}, seen by {image.name}")
    by_name = {image.name: image for image in images}
    error_px = np.maximum(error_px, 0.0)  # COLMAP writes −1 where it has none
    return MapModel(cameras, by_name, ids[order], world[order], error_px[order])


def _damaged(path: Path, error: Exception | str) -> FileError:
    reason = error if isinstance(error, str) else in_short(error)
    return FileError(f"{path} is damaged or truncated: {reason}.")


def _cameras(data: bytes) -> dict[int, RawCamera]:
    library, cameras, at = pycolmap("Reading a model of COLMAP's"), {}, 8
    for _ in range(_count(data)):
        key, model, width, height = struct.unpack_from("<iiQQ", data, at)
        kind = library.CameraModelId(model)
        if not kind.name.isidentifier():
            raise ValueError(f"camera {key} is of the unknown model {model}")
        example = library.Camera.create_from_model_id(key, kind, 1.0, 1, 1)
        params = struct.unpack_from(f"<{len(example.params)}d", data, at + 24)
        if not np.isfinite(params).all():
            raise ValueError(f"the parameters of camera {key} are not finite")
        cameras[key] = RawCamera(kind.name, width, height, params)
        at += 24 + 8 * len(params)
    _check_end(data, at)
    return cameras


def _images(data: bytes) -> list[MapImage]:
    images, at = [], 8
    for _ in range(_count(data)):
        _, *pose, camera = struct.unpack_from("<i7di", data, at)
        end = data.index(b"\0", at + 64)
        name = data[at + 64 : end].decode()
        (count,) = struct.unpack_from("<Q", data, end + 1)
        keypoints = np.frombuffer(data, _KEYPOINT, count, end + 9)
        if not np.isfinite(keypoints["xy"]).all():
            raise ValueError(f"{name} has keypoints that are not finite")
        images.append(
            MapImage(
                name=name,
                camera_id=camera,
                pose=from_quaternion(pose[:4], pose[4:]),
                points=keypoints["xy"] - CORNER_TO_CENTRE_PX,
                point_ids=keypoints["point"].astype(np.int64),
            )
        )
        at = end + 9 + keypoints.nbytes
    _check_end(data, at)
    return images


def _points(data: bytes) -> tuple[Labels, Points3, PerMatch]:
    ids, numbers, at = [], [], 8
    for _ in range(_count(data)):
        key, *xyz, _, _, _, error, track = struct.unpack_from("<Q3d3BdQ", data, at)
        ids.append(key)
        numbers.append((*xyz, error))
        at += 51 + 8 * track
    _check_end(data, at)
    rows = np.array(numbers).reshape(-1, 4)
    if not np.isfinite(rows).all():
        raise ValueError("it has points that are not finite")
    return np.array(ids, dtype=np.int64), rows[:, :3], rows[:, 3]


def _count(data: bytes) -> int:
    return int(struct.unpack_from("<Q", data)[0])


def _check_end(data: bytes, end: int) -> None:
    if end != len(data):
        raise ValueError(f"it has {len(data)} bytes in place of {end}")
