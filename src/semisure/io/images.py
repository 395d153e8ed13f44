"""The one image reader: any file OpenCV knows, as upright 8-bit RGB."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from semisure.errors import FileError, InputError
from semisure.io.exif import lies_on_its_side
from semisure.io.image_headers import (
    MAX_SCANS,
    has_16_bits,
    image_size,
    may_state_size_later,
    too_many_scans,
)
from semisure.types.checks import as_path, require_file

Image = NDArray[np.uint8]

IMAGE_SUFFIXES = frozenset(
    (".bmp", ".jpeg", ".jpg", ".jp2", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
)
# What the first box of an iPhone's photo says of itself.
HEIC_BRANDS = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1")
_HEIC_REMEDY = (
    "which OpenCV does not read. Convert it: `heif-convert a.heic a.jpg`, on a Mac "
    "`sips -s format jpeg a.heic --out a.jpg`; iPhones take JPEG by Settings, Camera, "
    "Formats, Most Compatible."
)
MAX_PIXELS = 200_000_000  # 0.6 GB as RGB; with 16 bits a quarter of it
MAX_BYTES = 400_000_000  # of a file
_HEADER = 1 << 20  # bytes that nearly always hold the size
# 16-bit images seldom fill their range; this share at either end is cut off.
_CLIPPED_SHARE = 0.001


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
    return decode_image(_file_bytes(file), str(path))


def _file_bytes(path: Path) -> bytes:
    """All of a file, but no more than its beginning if that is no image."""
    require_file(path, "image")
    try:
        with path.open("rb") as file:
            start = file.read(_HEADER)
            if len(start) < _HEADER:
                return start
            size = path.stat().st_size
            if size > MAX_BYTES:
                raise FileError(
                    f"{path} has {size / 1e6:,.0f} MB, more than the "
                    f"{MAX_BYTES / 1e6:.0f} MB that are read. Reduce it first."
                )
            if image_size(start) is None and not may_state_size_later(start):
                return start
            return start + file.read(MAX_BYTES)
    except OSError as error:
        raise FileError(f"The image {path} cannot be read: {error.strerror}.") from None


def upright_size(data: bytes, name: str = "the image") -> tuple[int, int]:
    """Width and height of a file's bytes once upright, without decoding where possible.

    >>> upright_size(b"P5 64 48 255 " + bytes(64 * 48))
    (64, 48)
    """
    size = image_size(data)
    if size is None:
        raise _unknown(name)
    if data.startswith(b"\xff\xd8"):
        return size[::-1] if lies_on_its_side(data) else size
    if data.startswith((b"P", b"BM")) or (
        data.startswith(b"\x89PNG") and b"eXIf" not in data
    ):
        return size
    height, width = decode_image(data, name).shape[:2]
    return width, height


def decode_image(data: bytes, name: str = "the image") -> Image:
    """The image in a file's bytes; messages call it `name`."""
    image = to_8_bits(_decoded(data, name, cv2.IMREAD_COLOR | cv2.IMREAD_ANYDEPTH))
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_BGR2RGB, dst=image))


def read_channel(path: Path) -> NDArray[Any]:
    """The numbers of a file as they are stored, such as a depth map's 16 bits."""
    return _decoded(_file_bytes(path), str(path), cv2.IMREAD_UNCHANGED)


def _decoded(data: bytes, name: str, flags: int) -> NDArray[Any]:
    if not data:
        raise FileError(f"{name} is empty.")
    if _is_truncated(data):
        raise FileError(f"{name} is truncated: its end is missing. Copy it again.")
    check_header(data, name)
    try:
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
    except cv2.error as error:
        raise FileError(f"{name} cannot be decoded: {error.err}.") from None
    if pixels is None:
        raise _unknown(name)
    return np.asarray(pixels)


def check_header(data: bytes, name: str, most_pixels: int = MAX_PIXELS) -> None:
    """Raise unless the header states a size that can be decoded."""
    if data[4:8] == b"ftyp" and data[8:12] in HEIC_BRANDS:
        raise FileError(f"{name} is a HEIC photo, {_HEIC_REMEDY}")
    size = image_size(data)
    if size is None:
        raise _unknown(name)
    width, height = size
    if width * height * (4 if has_16_bits(data) else 1) > most_pixels:
        raise FileError(
            f"{name} has {width} × {height} pixels, more than the "
            f"{most_pixels:,} that are read. Reduce it first."
        )
    if too_many_scans(data):
        raise FileError(f"{name} has more than {MAX_SCANS} scans. Save it again.")


def _unknown(name: str) -> FileError:
    return FileError(
        f"{name} is not an image that OpenCV can read (JPEG, PNG, TIFF, WebP, BMP, "
        "PPM and others)."
    )


def _is_truncated(data: bytes) -> bool:
    """Whether a JPEG or PNG lacks its end, which decoders would fill with grey."""
    if data.startswith(b"\xff\xd8"):  # a thumbnail may have an end of its own
        return data.rfind(b"\xff\xd9") < data.rfind(b"\xff\xda")
    return data.startswith(b"\x89PNG") and b"IEND" not in data[-4096:]


def to_8_bits(image: NDArray[Any]) -> Image:
    """8 bits as they are; more of them stretched to the range that is used."""
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
    from semisure.io.atomic import write_atomically

    pixels = cv2.cvtColor(image, cv2.COLOR_RGB2BGR) if image.ndim == 3 else image
    _, encoded = cv2.imencode(".png", pixels)
    write_atomically(Path(path), lambda file: file.write(encoded.tobytes()))


def jpeg(image: Image, quality: int = 88) -> bytes:
    """RGB pixels as a JPEG file's bytes."""
    pixels = cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
    _, encoded = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality])
    return encoded.tobytes()
