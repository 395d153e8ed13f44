"""Files that are written completely or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any


def write_atomically(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Let `write` fill a temporary file beside `path`, then rename it to `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            write(file)
        # mkstemp makes private files; give results the user's usual permissions.
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_json(path: str | Path, document: Any) -> None:
    """`document` as indented JSON; NaN and infinity are refused."""
    content = as_json(document)
    write_atomically(Path(path), lambda file: file.write(content))


def as_json(document: Any) -> bytes:
    """The bytes of such a file."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()
