"""The size that an image's header states: checked before anything is decoded."""

from __future__ import annotations

import struct

from semisure.errors import FileError
from semisure.web.limits import Limits

MAX_SCANS = 100  # of a JPEG; a progressive one has about ten
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # JPEG's SOFn markers
_BARE = frozenset((0x01, *range(0xD0, 0xD9)))  # markers without a length


def check_upload(data: bytes, name: str, limits: Limits) -> None:
    """Raise one sentence unless `data` may be an image of a size we accept."""
    if not data:
        raise FileError(f"{name} is empty.")
    if len(data) > limits.file_bytes:
        raise FileError(
            f"{name} has {len(data) / 1e6:.0f} MB, more than the "
            f"{limits.file_bytes / 1e6:.0f} MB that are accepted."
        )
    size = image_size(data)
    if size is None:
        raise FileError(f"{name} is not a JPEG, PNG or WebP image, or is damaged.")
    width, height = size
    cost = width * height * (4 if _has_16_bits(data) else 1)
    if cost > limits.pixels:
        raise FileError(
            f"{name} has {width} × {height} pixels, more than the "
            f"{limits.pixels / 1e6:.0f} million that are accepted. Reduce it first."
        )
    if data.startswith(b"\xff\xd8") and data.count(b"\xff\xda") > MAX_SCANS:
        raise FileError(f"{name} has more than {MAX_SCANS} scans. Save it again.")


def image_size(data: bytes) -> tuple[int, int] | None:
    """(width, height) that a JPEG, PNG or WebP states; None for anything else."""
    try:
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            size = _png_size(data)
        elif data.startswith(b"\xff\xd8"):
            size = _jpeg_size(data)
        elif data.startswith(b"RIFF") and data[8:12] == b"WEBP":
            size = _webp_size(data)
        else:
            return None
    except (struct.error, IndexError):
        return None
    return size if size is not None and min(size) > 0 else None


def _has_16_bits(data: bytes) -> bool:
    return data.startswith(b"\x89PNG") and data[24] == 16


def _png_size(data: bytes) -> tuple[int, int] | None:
    if data[12:16] != b"IHDR" or len(data) < 33:
        return None
    return struct.unpack_from(">II", data, 16)


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
        elif marker in _BARE:
            at += 2
        elif marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        else:
            at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        bits = struct.unpack_from("<I", data, 21)[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X":
        width, height = (
            int.from_bytes(data[k : k + 3].ljust(3, b"\xff"), "little")
            for k in (24, 27)
        )
        return width + 1, height + 1
    return None
