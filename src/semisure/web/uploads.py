"""Uploads: refused by their header, before anything is decoded."""

from __future__ import annotations

from semisure.errors import FileError
from semisure.io.image_headers import (
    MAX_SCANS,
    has_16_bits,
    image_size,
    too_many_scans,
)
from semisure.web.limits import Limits


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
        raise FileError(
            f"{name} is no image that semisure reads (JPEG, PNG, TIFF, WebP, BMP, "
            "JPEG 2000, PPM, PGM), or is damaged."
        )
    width, height = size
    cost = width * height * (4 if has_16_bits(data) else 1)
    if cost > limits.pixels:
        raise FileError(
            f"{name} has {width} × {height} pixels, more than the "
            f"{limits.pixels / 1e6:.0f} million that are accepted. Reduce it first."
        )
    if too_many_scans(data):
        raise FileError(f"{name} has more than {MAX_SCANS} scans. Save it again.")
