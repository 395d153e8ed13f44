"""The one image reader: JPEG, PNG, TIFF and others, as upright 8-bit RGB.

OpenCV decodes. Before that, Pillow reads the header, since an image of a few bytes may
need gigabytes.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image as pillow
from PIL.ExifTags import IFD, Base
from PIL.ImageFile import ImageFile
from PIL.TiffImagePlugin import TiffImageFile

from semisure.errors import FileError, InputError
from semisure.io.atomic import write_atomically
from semisure.types.checks import as_path, require_file

Image = NDArray[np.uint8]
Size = tuple[int, int]  # width, height

IMAGE_SUFFIXES = frozenset(
    (".bmp", ".jpeg", ".jpg", ".jp2", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
)
# The formats that the first box of an iPhone's photo states.
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1")
_HEIC_REMEDY = (
    "which OpenCV does not read. Convert it: `heif-convert a.heic a.jpg`, on a Mac "
    "`sips -s format jpeg a.heic --out a.jpg`; iPhones take JPEG by Settings, Camera, "
    "Formats, Most Compatible."
)
# Of an image; Pillow refuses more. As RGB these take 0.5 GB.
MAX_PIXELS = 178_956_970
MAX_BYTES = 400_000_000  # of a file
MAX_SCANS = 100  # of a JPEG; a progressive one has about ten
_FORMATS = ("BMP", "GIF", "JPEG", "JPEG2000", "PNG", "PPM", "TIFF", "WEBP")
_JPEG = b"\xff\xd8"
_JPEG_HEADER = 4 << 20  # bytes that hold the size, with all thumbnails before it
_TILE_WIDTH, _TILE_HEIGHT = 322, 323  # tags of a TIFF
# 16-bit images seldom fill their range; this share at either end is cut off.
_CLIPPED_SHARE = 0.001
_FILM_DIAGONAL_MM = (36.0**2 + 24.0**2) ** 0.5
_MM_PER_UNIT = {2: 25.4, 3: 10.0, 4: 1.0}  # by EXIF's codes


def read_image(path: str | Path) -> Image:
    """The image in a file, (h, w, 3) uint8 RGB, upright by its EXIF tag.

    16-bit images are stretched to the range they use; alpha is dropped.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "grey.png"
    >>> write_png(file, np.full((48, 64), 128, np.uint8))
    >>> read_image(file).shape
    (48, 64, 3)
    """
    file = as_path(path, "Arrays are images already: semisure.match takes them.")
    return decode_image(image_bytes(file), str(path))


def read_channel(path: Path) -> NDArray[Any]:
    """The numbers of a file as they are stored, such as a depth map's 16 bits."""
    return _decoded(image_bytes(path), str(path), cv2.IMREAD_UNCHANGED)


def image_bytes(path: Path) -> bytes:
    """The content of an image file, unless that is absurdly large."""
    require_file(path, "image")
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise FileError(
                f"{path} has {size / 1e6:,.0f} MB, more than the "
                f"{MAX_BYTES / 1e6:.0f} MB that are read. Reduce it first."
            )
        return path.read_bytes()
    except OSError as error:
        raise FileError(f"The image {path} cannot be read: {error.strerror}.") from None


def decode_image(data: bytes, name: str = "the image") -> Image:
    """The image in a file's bytes; messages call it `name`."""
    image = to_8_bits(_decoded(data, name, cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH))
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB, dst=image))


def _decoded(data: bytes, name: str, flags: int) -> NDArray[Any]:
    check_header(data, name)
    if _is_truncated(data):
        raise FileError(f"{name} is truncated: its end is missing. Copy it again.")
    try:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except cv2.error as error:
        raise FileError(f"{name} cannot be decoded: {error.err}.") from None
    if pixels is None:
        raise _unknown(name)
    return np.asarray(pixels)


def _is_truncated(data: bytes) -> bool:
    """Whether a JPEG or PNG lacks its end, which decoders would fill with grey."""
    if data.startswith(_JPEG):  # a thumbnail may have an end of its own
        return data.rfind(b"\xff\xd9") < data.rfind(b"\xff\xda")
    return data.startswith(b"\x89PNG") and b"IEND" not in data[-4096:]


def check_header(data: bytes, name: str, max_pixels: int = MAX_PIXELS) -> None:
    """Raise unless the header states a size that can be decoded."""
    if not data:
        raise FileError(f"{name} is empty.")
    if data[4:8] == b"ftyp" and data[8:12] in HEIC_BRANDS:
        raise FileError(f"{name} is a HEIC photo, {_HEIC_REMEDY}")
    image = _header(data, name)
    has_16_bits = image.mode[0] in "IF" or "16" in str([t.args for t in image.tile])
    if image.width * image.height * (4 if has_16_bits else 1) > max_pixels:
        raise FileError(
            f"{name} has {image.width} × {image.height} pixels, more than the "
            f"{max_pixels:,} that are read. Reduce it first."
        )
    # A decoder makes a whole tile, which may be larger than its image.
    tags = image.tag_v2 if isinstance(image, TiffImageFile) else {}
    if _number(tags, _TILE_WIDTH) * _number(tags, _TILE_HEIGHT) > max_pixels:
        raise FileError(f"{name} has tiles of more than {max_pixels:,} pixels.")
    if data.startswith(_JPEG) and data.count(b"\xff\xda") > MAX_SCANS:
        raise FileError(f"{name} has more than {MAX_SCANS} scans. Save it again.")


def _unknown(name: str) -> FileError:
    return FileError(
        f"{name} is no image that semisure reads (JPEG, PNG, TIFF, WebP, BMP, "
        "JPEG 2000, PPM, PGM), or is damaged."
    )


def _header(data: bytes, name: str) -> ImageFile:
    """The header of an image, without decoding its pixels."""
    # Pillow takes seconds for each MB of padding.
    head = data[:_JPEG_HEADER] if data.startswith(_JPEG) else data
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return pillow.open(io.BytesIO(head), formats=_FORMATS)
    except pillow.DecompressionBombError:
        raise FileError(
            f"{name} has more than the {MAX_PIXELS:,} pixels that are read. Reduce it "
            "first."
        ) from None
    except Exception:  # noqa: BLE001, whatever a damaged header leads to
        raise _unknown(name) from None


def upright_size(data: bytes, name: str = "the image") -> Size:
    """Width and height of a file's bytes once upright, by its header.

    >>> upright_size(b"P5 64 48 255 " + bytes(64 * 48))
    (64, 48)
    """
    image = _header(data, name)
    turned = _number(_exif(image), Base.Orientation) in (5, 6, 7, 8)
    return image.size[::-1] if turned else image.size


def focal_px(path: str | Path, size: Size) -> float:
    """Focal length in px of an image of `size`, as its EXIF states it.

    A 35 mm equivalent focal length has the diagonal field of view of a frame of
    36 × 24 mm (CIPA DCG-001). Without it, the focal length in mm and the
    resolution of the focal plane give the same, scaled if the image was reduced.
    """
    exif = _exif(_header(image_bytes(Path(path)), str(path)))
    diagonal = float(size[0] ** 2 + size[1] ** 2) ** 0.5
    focal = _number(exif, Base.FocalLengthIn35mmFilm) / _FILM_DIAGONAL_MM * diagonal
    if not focal:
        code = int(_number(exif, Base.FocalPlaneResolutionUnit))
        per_mm = _number(exif, Base.FocalPlaneXResolution) / _MM_PER_UNIT.get(
            code, 25.4
        )
        sides = Base.ExifImageWidth, Base.ExifImageHeight
        longest = max(_number(exif, side) for side in sides) or max(size)
        focal = _number(exif, Base.FocalLength) * per_mm * max(size) / longest
    if not focal:
        raise FileError(
            f"{path} states no focal length in its EXIF; give --intrinsics fx,fy,cx,cy "
            "or --fov instead."
        )
    return focal


def _exif(image: ImageFile) -> dict[int, Any]:
    """The tags of both directories that matter here."""
    if image.format == "PNG":  # Pillow would decode it
        return {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exif = image.getexif()
            return {**exif, **exif.get_ifd(IFD.Exif)}
    except Exception:  # noqa: BLE001, whatever damaged tags lead to
        return {}


def _number(tags: Mapping[int, Any], tag: int) -> float:
    """A tag's positive number; 0 where it has none."""
    try:
        number = float(tags.get(tag, 0.0))
    except (TypeError, ValueError, ZeroDivisionError):
        return 0.0
    return number if isfinite(number) and number > 0 else 0.0


def to_8_bits(image: NDArray[Any]) -> Image:
    """8-bit images as they are, others stretched from the range they use."""
    if image.dtype == np.uint8:
        return image
    values = image.astype(np.float32)
    finite = values[np.isfinite(values)]
    ends = (_CLIPPED_SHARE, 1.0 - _CLIPPED_SHARE)
    low, high = np.quantile(finite, ends, method="lower")
    stretched = (np.nan_to_num(values) - low) * (255.0 / max(float(high - low), 1e-6))
    return np.clip(np.round(stretched), 0, 255).astype(np.uint8)


def reduced(image: Image, max_side: int) -> Image:
    """The image with its longer side at most `max_side`."""
    scale = max_side / max(image.shape[:2])
    if scale >= 1.0:
        return image
    size = [max(1, round(scale * side)) for side in (image.shape[1], image.shape[0])]
    return np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA))


def resized(image: Image, size: tuple[int, int]) -> Image:
    """The image at exactly (width, height), without keeping its proportions."""
    if image.shape[1::-1] == size:
        return image
    larger = size[0] * size[1] > image.shape[0] * image.shape[1]
    interpolation = cv2.INTER_LINEAR if larger else cv2.INTER_AREA
    return np.asarray(cv2.resize(image, size, interpolation=interpolation))


def as_grey(image: NDArray[Any]) -> Image:
    """One channel, (h, w), of an image in memory, grey, RGB or RGBA."""
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or not image.size:
        raise InputError(
            "An image must be uint8 of shape (h, w) or (h, w, 1, 3 or 4), but this is "
            f"{image.dtype} of shape {image.shape}."
        )
    if image.ndim == 2 or image.shape[2] == 1:
        return image.reshape(image.shape[:2])
    code = cv2.COLOR_RGBA2GRAY if image.shape[2] == 4 else cv2.COLOR_RGB2GRAY
    return np.asarray(cv2.cvtColor(image, code), np.uint8)


def find_images(folder: str | Path) -> list[Path]:
    """The image files in a folder and below it, in a fixed order."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FileError(f"There is no folder {folder}.")
    files = [Path(root, name) for root, _, names in os.walk(folder) for name in names]
    images = [file for file in files if file.suffix.lower() in IMAGE_SUFFIXES]
    if not images:
        for file in files:
            if file.suffix.lower() in (".heic", ".heif"):
                raise FileError(f"{file} is a HEIC photo, {_HEIC_REMEDY}")
    return sorted(images)


def write_png(path: str | Path, image: Image) -> None:
    """RGB or grey pixels as a PNG file."""
    pixels = cv2.cvtColor(image, cv2.COLOR_RGB2BGR) if image.ndim == 3 else image
    _, encoded = cv2.imencode(".png", pixels)
    write_atomically(Path(path), encoded.tobytes())


def jpeg(image: Image, quality: int = 88) -> bytes:
    """RGB pixels as a JPEG file's bytes."""
    pixels = cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
    _, encoded = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality])
    return encoded.tobytes()
