"""The size that an image's header states: known before anything is decoded."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable

Size = tuple[int, int]

MAX_SCANS = 100  # of a JPEG; a progressive one has about ten
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # JPEG's SOFn markers
_MAX_MARKERS = 10_000  # before its size; a JPEG has a few dozen
_MARKER = re.compile(rb"\xff+[^\xff]", re.DOTALL)  # it may be padded
_BARE = frozenset((0x01, *range(0xD0, 0xD9)))  # markers without a length
# Netpbm's: comments may stand between the numbers.
_PNM = re.compile(rb"P[1-6Ff](?:\s+|#[^\n]*\n)+(\d+)(?:\s+|#[^\n]*\n)+(\d+)\s")
_PAM = re.compile(rb"P7\s(?:.*\n)*?WIDTH (\d+)\n(?:.*\n)*?HEIGHT (\d+)\n")
_RADIANCE = re.compile(rb"\n[-+]Y (\d+) [-+]X (\d+)\n")
# After the size, the largest value.
_PNM_MOST = re.compile(_PNM.pattern + rb"(?:\s|#[^\n]*\n)*(\d+)\s")
_CODESTREAM = b"\xff\x4f\xff\x51"  # of JPEG 2000: its start, and its size
_TIFF_BITS = 258  # for each sample
_TIFF_WIDTHS, _TIFF_HEIGHTS = (256, 322), (257, 323)  # tags of image and tile
_TIFF_TAGS = frozenset((_TIFF_BITS, *_TIFF_WIDTHS, *_TIFF_HEIGHTS))


def image_size(data: bytes) -> Size | None:
    """(width, height) that the header of an image states; None for anything else.

    Of a TIFF in tiles, the tile's where that is larger: it is what a decoder makes.
    """
    for starts, read in _FORMATS:
        if data.startswith(starts):
            try:
                size = read(data)
            except (struct.error, IndexError):
                return None
            return size if size is not None and min(size) > 0 else None
    return None


def may_state_size_later(start: bytes) -> bool:
    """Whether a file beginning so may state its size further on."""
    return start.startswith((b"\xff\xd8", b"II*\0", b"MM\0*", b"\0\0\0\x0cjP  "))


def too_many_scans(data: bytes) -> bool:
    """Whether a JPEG has so many scans that decoding it takes minutes."""
    return data.startswith(b"\xff\xd8") and data.count(b"\xff\xda") > MAX_SCANS


def has_16_bits(data: bytes) -> bool:
    """Whether an image has more than 8 bits for each channel, by its header."""
    for starts, bits in _DEPTHS:
        if data.startswith(starts):
            try:
                return bits(data) > 8
            except (struct.error, IndexError, ValueError):
                return False
    return False


def _png(data: bytes) -> Size | None:
    if data[12:16] != b"IHDR" or len(data) < 33:
        return None
    width, height = struct.unpack_from(">II", data, 16)
    return width, height


def _jpeg(data: bytes) -> Size | None:
    at = 2
    for _ in range(_MAX_MARKERS):
        start = _MARKER.match(data, at)
        if start is None:
            return None
        at, marker = start.end() - 2, data[start.end() - 1]
        if marker in _BARE:
            at += 2
        elif marker in _FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        else:
            at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return None


def _webp(data: bytes) -> Size | None:
    kind = data[12:16]
    if data[8:12] != b"WEBP":
        return None
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


def _bmp(data: bytes) -> Size | None:
    if struct.unpack_from("<I", data, 14)[0] == 12:  # the header of OS/2
        width, height = struct.unpack_from("<HH", data, 18)
    else:
        width, height = struct.unpack_from("<ii", data, 18)
    return abs(width), abs(height)  # a negative height is stored from the top


def _tiff(data: bytes) -> Size | None:
    found = _tiff_tags(data)
    if found is None:
        return None
    sides = (_TIFF_WIDTHS, _TIFF_HEIGHTS)
    width, height = (max(found.get(tag, 0) for tag in tags) for tags in sides)
    return width, height


def _tiff_tags(data: bytes) -> dict[int, int] | None:
    """The first value of each tag that matters here; None for a BigTIFF."""
    order = "<" if data[:2] == b"II" else ">"
    if struct.unpack_from(order + "H", data, 2)[0] != 42:
        return None  # 43: BigTIFF
    (start,) = struct.unpack_from(order + "I", data, 4)
    (count,) = struct.unpack_from(order + "H", data, start)
    found = {}
    for i in range(count):
        entry = start + 2 + 12 * i
        tag, kind, values = struct.unpack_from(order + "HHI", data, entry)
        form = {3: "H", 4: "I"}.get(kind)
        if form is None or tag not in _TIFF_TAGS:
            continue
        place = entry + 8
        if values * struct.calcsize(form) > 4:  # they lie elsewhere
            (place,) = struct.unpack_from(order + "I", data, place)
            if place + 4 > len(data):
                continue
        (found[tag],) = struct.unpack_from(order + form, data, place)
    return found


def _jp2(data: bytes) -> Size | None:
    at = data.find(_CODESTREAM)
    if at < 0:
        return None
    right, bottom, left, top = struct.unpack_from(">4I", data, at + 8)
    return right - left, bottom - top


def _gif(data: bytes) -> Size | None:
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


def _sun(data: bytes) -> Size | None:
    width, height = struct.unpack_from(">II", data, 4)
    return width, height


def _text(
    pattern: re.Pattern[bytes], turned: bool = False
) -> Callable[[bytes], Size | None]:
    def read(data: bytes) -> Size | None:
        stated = pattern.search(data[:4096])
        if stated is None or max(map(len, stated.groups())) > 10:
            return None
        first, second = int(stated[1]), int(stated[2])
        return (second, first) if turned else (first, second)

    return read


_FORMATS: tuple[tuple[bytes | tuple[bytes, ...], Callable[[bytes], Size | None]], ...]
_FORMATS = (
    (b"\x89PNG\r\n\x1a\n", _png),
    (b"\xff\xd8", _jpeg),
    (b"RIFF", _webp),
    (b"BM", _bmp),
    ((b"II", b"MM"), _tiff),
    ((b"\0\0\0\x0cjP  ", _CODESTREAM), _jp2),
    (b"GIF8", _gif),
    (b"\x59\xa6\x6a\x95", _sun),
    (b"#?", _text(_RADIANCE, turned=True)),
    (b"P7", _text(_PAM)),
    (b"P", _text(_PNM)),
)


def _pnm_bits(data: bytes) -> int:
    if data[1:2] in b"Ff":
        return 32
    if data[1:2] in b"14":  # black and white: no largest value
        return 1
    stated = _PNM_MOST.search(data[:4096])
    return 8 if stated is None or int(stated[3][:10]) < 256 else 16


def _pam_bits(data: bytes) -> int:
    stated = re.search(rb"\nMAXVAL (\d{1,10})\n", data[:4096])
    return 8 if stated is None or int(stated[1]) < 256 else 16


def _jp2_bits(data: bytes) -> int:
    return (data[data.index(_CODESTREAM) + 42] & 0x7F) + 1


_DEPTHS: tuple[tuple[bytes | tuple[bytes, ...], Callable[[bytes], int]], ...] = (
    (b"\x89PNG", lambda data: data[24]),
    ((b"II", b"MM"), lambda data: (_tiff_tags(data) or {}).get(_TIFF_BITS, 8)),
    ((b"\0\0\0\x0cjP  ", _CODESTREAM), _jp2_bits),
    (b"#?", lambda data: 32),  # Radiance
    (b"P7", _pam_bits),
    (b"P", _pnm_bits),
)
