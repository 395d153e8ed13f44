"""Results kept on disk, each named by a digest of all that it depends on.

A changed image, setting, weight or line of code has another digest, so that a stale
file is never found. Code that only shows results does not count: a new colour in
a report must not discard a night's matches. Files appear whole; a damaged one is made
again.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from semisure.errors import FileError
from semisure.io.atomic import write_atomically
from semisure.io.files import load_arrays, write_arrays
from semisure.types import Array

CACHE_VARIABLE = "SEMISURE_CACHE"
PACKAGE = Path(__file__).parents[1]
Row = dict[str, Any]  # what JSON can hold
Installed = Mapping[str, str]
_SHOW_ONLY = ("cli", "demo.py", "report", "web")  # rooms that change no result
_LIBRARIES = (
    *("numpy", "scipy", "opencv-python-headless", "pyarrow"),
    *("torch", "kornia", "transformers"),
    *("poselib", "pycolmap"),
)


def cache_folder() -> Path:
    """$SEMISURE_CACHE, or a folder in the user's cache."""
    chosen = os.environ.get(CACHE_VARIABLE)
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(chosen) if chosen else users / "semisure"


def kept_row(file: Path, make: Callable[[], Row]) -> Row:
    """The row in `file` if that can be read, else made and saved.

    Numbers come back bit for bit: JSON holds the shortest text that gives the float.
    """
    with suppress(OSError, ValueError, RecursionError):
        row = json.loads(file.read_bytes())
        if isinstance(row, dict):
            return row
    text = json.dumps(make(), default=np.generic.item)
    write_atomically(file, text.encode())
    return dict(json.loads(text))  # as the next call will read it from the file


def kept_arrays(file: Path, make: Callable[[], dict[str, Array]]) -> dict[str, Array]:
    """The arrays in `file` if that can be read, else made and saved."""
    with suppress(FileError):
        return load_arrays(file)
    arrays = make()
    write_arrays(file, arrays)
    return arrays


# ---- digests of values ---------------------------------------------------------------


def key_of(*rests_on: Any) -> str:
    """A short digest of values: dataclasses, arrays, files by content, plain JSON.

    >>> key_of("daisy", (640, 480)) == key_of("daisy", [640, 480])
    True
    >>> len(key_of(np.eye(3)))
    24
    """
    return sha256_of(json.dumps(described(rests_on), sort_keys=True))[:24]


def described(value: Any) -> Any:
    """All that a value holds, as JSON; arrays and files by their digests."""
    if is_dataclass(value) and not isinstance(value, type):
        inner = {f.name: described(getattr(value, f.name)) for f in fields(value)}
        return {type(value).__name__: inner}
    if isinstance(value, np.ndarray):
        content = np.ascontiguousarray(value).tobytes()
        return [value.dtype.str, list(value.shape), hashlib.sha256(content).hexdigest()]
    if isinstance(value, Path):
        return sha256(value) if value.is_file() else str(value)
    if isinstance(value, dict):
        return {str(key): described(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [described(entry) for entry in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"{type(value).__name__} cannot be described.")


def sha256_of(text: str) -> str:
    """SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


# ---- digests of files and code -------------------------------------------------------


def sha256(file: Path) -> str:
    """SHA-256 of a file's content."""
    status = file.stat()
    return _sha256(file, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4096)
def _sha256(file: Path, size: int, modified_ns: int) -> str:
    """Computed once per process for an unchanged file, which many pairs share."""
    whole = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            whole.update(block)
    return whole.hexdigest()


def digest(files: Iterable[Path]) -> str:
    """SHA-256 of the files' contents, in their order."""
    return hashlib.sha256(bytes.fromhex("".join(map(sha256, files)))).hexdigest()


def room(name: str) -> tuple[Path, ...]:
    """All files of a semisure subpackage or module, by its name in the package."""
    path = PACKAGE / name.replace(".", "/")
    return tuple(sorted(path.rglob("*.py"))) or (path.with_suffix(".py"),)


@lru_cache(maxsize=1)
def code_digest() -> str:
    """SHA-256 of all code of semisure that computes results."""
    files = sorted(PACKAGE.rglob("*.py"))
    rooms = [file.relative_to(PACKAGE).parts[0] for file in files]
    located = zip(files, rooms, strict=True)
    return digest(file for file, room in located if room not in _SHOW_ONLY)


def libraries() -> Installed:
    """The versions of installed libraries that can change the bits of a result."""
    versions = {}
    for name in _LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


@lru_cache(maxsize=1)
def installed() -> Installed:
    """A digest of semisure's code, the libraries, and the kind of machine."""
    return {
        "semisure": code_digest()[:16],
        "python": ".".join(platform.python_version_tuple()[:2]),
        "machine": f"{platform.system()} {platform.machine()}",
        **libraries(),
    }
