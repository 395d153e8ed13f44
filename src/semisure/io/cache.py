"""What was computed once, kept on disk under a digest of all that it rests on.

A changed image, setting, weight or line of code has another digest, so that a stale
file is never found. Files appear whole and carry a digest of their own content; a
damaged one is made again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from semisure.errors import FileError
from semisure.io.atomic import write_atomically
from semisure.io.files import load_arrays
from semisure.types import Array

CACHE_VARIABLE = "SEMISURE_CACHE"
Row = dict[str, Any]  # what JSON can hold
_DIGEST = "digest"


def cache_folder() -> Path:
    """$SEMISURE_CACHE, or a folder in the user's cache."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else user_cache() / "semisure"


def user_cache() -> Path:
    """$XDG_CACHE_HOME, or ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def key_of(*rests_on: Any) -> str:
    """A short digest of values: dataclasses, arrays, files by content, plain JSON.

    >>> key_of("daisy", (640, 480)) == key_of("daisy", [640, 480])
    True
    >>> len(key_of(np.eye(3)))
    24
    """
    return _sha(json.dumps(described(rests_on), sort_keys=True))[:24]


def kept_row(file: Path, make: Callable[[], Row]) -> Row:
    """The row in `file` if that is undamaged, else made and saved.

    Numbers come back bit for bit: JSON holds the shortest text that gives the float.
    """
    try:
        stored = json.loads(file.read_bytes())
        if stored[_DIGEST] == _sha(stored["row"]):
            return json.loads(stored["row"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    text = json.dumps(make(), default=_number)
    whole = json.dumps({_DIGEST: _sha(text), "row": text}).encode()
    write_atomically(file, lambda out: out.write(whole))
    return json.loads(text)  # as it will come back from the file the next time


def kept_arrays(file: Path, make: Callable[[], dict[str, Array]]) -> dict[str, Array]:
    """The arrays in `file` if that is undamaged, else made and saved."""
    stored = load_kept_arrays(file)
    if stored is None:
        stored = make()
        whole = {**stored, _DIGEST: _digest(stored)}
        write_atomically(file, lambda out: _compress(out, whole))
    return stored


def load_kept_arrays(file: Path) -> dict[str, Array] | None:
    """The arrays in `file`; None if it is not there, or not as it was written."""
    if not file.exists():
        return None
    try:
        arrays = load_arrays(file)
    except FileError:
        return None
    stored = arrays.pop(_DIGEST, None)
    whole = stored is not None and np.array_equal(stored, _digest(arrays))
    return arrays if whole else None


def described(value: Any) -> Any:
    """All that a value holds, as JSON; arrays and files by their digests."""
    if is_dataclass(value) and not isinstance(value, type):
        inner = {f.name: described(getattr(value, f.name)) for f in fields(value)}
        return {type(value).__name__: inner}
    if isinstance(value, np.ndarray):
        content = np.ascontiguousarray(value).tobytes()
        return [value.dtype.str, list(value.shape), hashlib.sha256(content).hexdigest()]
    if isinstance(value, Path):
        return _file_digest(value)
    if isinstance(value, dict):
        return {str(key): described(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [described(entry) for entry in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"{type(value).__name__} cannot be described.")


def _file_digest(path: Path) -> str:
    """By content; a folder or a file that is not there by its name."""
    if not path.is_file():
        return str(path)
    stat = path.stat()
    return _content_digest(path, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=4096)
def _content_digest(path: Path, size: int, modified_ns: int) -> str:
    """Made once a process for a file that has not changed: it has many pairs."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _digest(arrays: dict[str, Array]) -> Array:
    whole = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        whole.update(f"{name} {array.dtype.str} {array.shape}".encode())
        whole.update(array.tobytes())
    return np.frombuffer(whole.digest(), np.uint8)


def _compress(out: IO[bytes], arrays: dict[str, Array]) -> None:
    # NumPy's stubs take the second argument for `allow_pickle`.
    save: Callable[..., None] = np.savez_compressed
    save(out, **arrays)


def _number(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"A row cannot hold {type(value).__name__}.")


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
