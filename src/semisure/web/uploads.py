"""Uploads: refused by their header, before anything is decoded."""

from __future__ import annotations

from semisure.errors import FileError
from semisure.io.images import check_header
from semisure.web.limits import Limits


def check_upload(data: bytes, name: str, limits: Limits) -> None:
    """Raise one sentence unless `data` may be an image of a size we accept."""
    if len(data) > limits.file_bytes:
        raise FileError(
            f"{name} has {len(data) / 1e6:.0f} MB, more than the "
            f"{limits.file_bytes / 1e6:.0f} MB that are accepted."
        )
    check_header(data, name, limits.pixels)
