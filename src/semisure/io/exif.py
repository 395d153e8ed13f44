"""The focal length that a JPEG's EXIF states, in pixels.

A focal length as of 35 mm film is one whose diagonal field of view is that of a frame
of 36 × 24 mm (CIPA DCG-001). Without it, the focal length in mm and the resolution of
the focal plane tell the same.
"""

from __future__ import annotations

import struct
from pathlib import Path

from semisure.errors import FileError
from semisure.types.checks import require_file

_FILM_DIAGONAL_MM = (36.0**2 + 24.0**2) ** 0.5
_EXIF_IFD, _FOCAL, _FOCAL_35, _WIDTH, _HEIGHT = 0x8769, 0x920A, 0xA405, 0xA002, 0xA003
_PLANE_RESOLUTION, _PLANE_UNIT = 0xA20E, 0xA210
_ORIENTATION = 0x0112
_MM_PER_UNIT = {2: 25.4, 3: 10.0, 4: 1.0}
_FORMATS = {1: "B", 3: "H", 4: "L", 5: "LL", 9: "l", 10: "ll"}  # by EXIF's type
_READ_BYTES = 16 << 20  # tags are near the beginning

Tags = dict[int, float]


def focal_px(path: str | Path, size: tuple[int, int]) -> float:
    """Focal length in px of an image of `size`, width and height, by its EXIF."""
    try:
        with require_file(Path(path), "image").open("rb") as file:
            tags = _tags(file.read(_READ_BYTES))
    except (OSError, struct.error) as error:
        raise FileError(f"The EXIF of {path} cannot be read: {error}.") from None
    focal = _from_film(tags, size) or _from_plane(tags, size)
    if not focal:
        raise FileError(
            f"{path} states no focal length in its EXIF; give --intrinsics fx,fy,cx,cy "
            "or --fov instead."
        )
    return focal


def lies_on_its_side(data: bytes) -> bool:
    """Whether a JPEG's EXIF asks for a quarter turn, which swaps width and height."""
    try:
        return int(_tags(data).get(_ORIENTATION, 1)) in (5, 6, 7, 8)
    except struct.error:
        return False


def _from_film(tags: Tags, size: tuple[int, int]) -> float | None:
    diagonal = float(size[0] ** 2 + size[1] ** 2) ** 0.5
    return tags.get(_FOCAL_35, 0.0) / _FILM_DIAGONAL_MM * diagonal or None


def _from_plane(tags: Tags, size: tuple[int, int]) -> float | None:
    """From mm by the sensor's resolution, scaled to an image that may be reduced."""
    per_mm = tags.get(_PLANE_RESOLUTION, 0.0) / _MM_PER_UNIT.get(
        int(tags.get(_PLANE_UNIT, 2)), 25.4
    )
    taken = max(tags.get(_WIDTH, 0.0), tags.get(_HEIGHT, 0.0)) or max(size)
    return tags.get(_FOCAL, 0.0) * per_mm * max(size) / taken or None


def _tags(data: bytes) -> Tags:
    """The numbers in the first two directories of a JPEG's EXIF, if it has any."""
    tiff = _exif_segment(data)
    if tiff is None or tiff[:2] not in (b"II", b"MM"):
        return {}
    order = "<" if tiff[:2] == b"II" else ">"
    (start,) = struct.unpack_from(order + "L", tiff, 4)
    tags = _directory(tiff, start, order)
    if _EXIF_IFD in tags:
        tags |= _directory(tiff, int(tags[_EXIF_IFD]), order)
    return tags


def _exif_segment(data: bytes) -> bytes | None:
    """The TIFF inside the APP1 segment of a JPEG."""
    at = 2
    while data[:2] == b"\xff\xd8" and at + 4 <= len(data) and data[at] == 0xFF:
        marker, length = data[at + 1], struct.unpack_from(">H", data, at + 2)[0]
        if marker == 0xE1 and data[at + 4 : at + 10] == b"Exif\0\0":
            return data[at + 10 : at + 2 + length]
        if marker == 0xDA:  # the picture begins
            break
        at += 2 + length
    return None


def _directory(tiff: bytes, start: int, order: str) -> Tags:
    tags = {}
    (count,) = struct.unpack_from(order + "H", tiff, start)
    for i in range(count):
        entry = start + 2 + 12 * i
        tag, kind, number = struct.unpack_from(order + "HHL", tiff, entry)
        form = _FORMATS.get(kind)
        if form is None or number != 1:
            continue
        form = order + form
        inside = struct.calcsize(form) <= 4
        place = entry + 8
        if not inside:
            (place,) = struct.unpack_from(order + "L", tiff, entry + 8)
        above, below = (*struct.unpack_from(form, tiff, place), 1)[:2]
        tags[tag] = above / below if below else 0.0
    return tags
