"""The images of a run: each is looked at once, whatever the number of its pairs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from semisure.engine import Engine, Lost, in_order
from semisure.errors import FileError, in_short
from semisure.io.images import MAX_BYTES, upright_size
from semisure.types import Tick, silent
from semisure.types.checks import require_file
from semisure.types.pair_records import ImageRecord

IMAGES_A_BATCH = 32


@dataclass(frozen=True, slots=True)
class Described:
    """What is to be known of an image before it is matched, or None."""

    folder: Path

    def __call__(self, name: str) -> ImageRecord | None:
        try:
            return image_record(self.folder, name)
        except FileError:  # its pairs will say why
            return None


def image_record(folder: Path, name: str) -> ImageRecord:
    """Size and digest of an image file; nothing is decoded where its header tells."""
    path = require_file(folder / name, "image")
    try:
        stat = path.stat()
        if stat.st_size > MAX_BYTES:
            raise FileError(f"{path} is larger than the {MAX_BYTES} bytes read.")
        data = path.read_bytes()
    except OSError as error:
        raise FileError(f"{path} cannot be read: {in_short(error)}.") from None
    width, height = upright_size(data, str(path))
    return ImageRecord(
        name=name,
        width=width,
        height=height,
        sha256=hashlib.sha256(data).hexdigest(),
        bytes=stat.st_size,
        modified_ns=stat.st_mtime_ns,
    )


def described_images(
    folder: Path,
    names: Sequence[str],
    known: Mapping[str, ImageRecord],
    engine: Engine,
    tick: Tick = silent,
) -> list[ImageRecord]:
    """The images that can be read; `known` ones are read again if they changed."""
    unchanged = {name for name in names if _unchanged(folder / name, known.get(name))}
    new = [name for name in names if name not in unchanged]
    answers = in_order(
        engine, Described(folder), new, tick, batch=IMAGES_A_BATCH, lost=_nothing
    )
    found = [image for image in answers if image is not None]
    return [*found, *(known[name] for name in names if name in unchanged)]


def _unchanged(path: Path, known: ImageRecord | None) -> bool:
    """Whether size and time of a file are still as they were."""
    if known is None:
        return False
    try:
        stat = path.stat()
    except OSError:
        return False
    return (stat.st_size, stat.st_mtime_ns) == (known.bytes, known.modified_ns)


def _nothing(name: str, lost: Lost) -> ImageRecord | None:
    return None
