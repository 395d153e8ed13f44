"""The camera of each image: from a file, from EXIF, or a guess that COLMAP refines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from semisure.errors import FileError
from semisure.geometry.camera import Camera
from semisure.io.images import focal_px

GUESSED_FOCAL = 1.2  # of the longer side, as COLMAP does

Size = tuple[int, int]  # width, height


@dataclass(frozen=True, slots=True)
class ImageCamera:
    """A camera and how its focal length is known."""

    camera: Camera
    origin: str  # "file", "exif" or "guess"

    @property
    def known(self) -> bool:
        """True where the focal length is more than a guess."""
        return self.origin != "guess"


def cameras_of(
    sizes: Mapping[str, Size],
    stated: Mapping[str, Camera] | None = None,
    folder: str | Path | None = None,
) -> dict[str, ImageCamera]:
    """Cameras by image name: `stated` ones, else by EXIF of `folder`, else guessed.

    >>> camera = cameras_of({"a.jpg": (640, 480)})["a.jpg"]
    >>> camera.camera.params, camera.origin  # f, cx, cy, k
    ((768.0, 320.0, 240.0, 0.0), 'guess')
    """
    return {name: _camera_of(name, sizes[name], stated, folder) for name in sizes}


def _camera_of(
    name: str,
    size: Size,
    stated: Mapping[str, Camera] | None,
    folder: str | Path | None,
) -> ImageCamera:
    if stated is not None and name in stated:
        camera = stated[name]
        if camera.size != size:
            raise FileError(
                f"The camera of {name} must be for {size[0]} × {size[1]} px, the size "
                f"at which it was matched, but is for {camera.width} × "
                f"{camera.height} px."
            )
        return ImageCamera(camera, "file")
    focal = None if folder is None else _focal_of(Path(folder) / name, size)
    if focal is not None:
        return ImageCamera(_simple(focal, size), "exif")
    return ImageCamera(_simple(GUESSED_FOCAL * max(size), size), "guess")


def _focal_of(path: Path, size: Size) -> float | None:
    try:
        return focal_px(path, size)
    except FileError:
        return None


def _simple(focal: float, size: Size) -> Camera:
    """Focal length, centre of the image, and one radial term to be found."""
    width, height = size
    return Camera("SIMPLE_RADIAL", width, height, (focal, width / 2, height / 2, 0.0))
