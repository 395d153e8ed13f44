"""Rows kept on disk, so that an interrupted evaluation goes on where it stopped.

A row is named by the digest of all that it rests on: the function, its whole argument,
the code that computes it and the versions of the libraries. A change of any of these
asks for another file and finds no stale one; a damaged file is made again.

The code is that of the rooms that compute (:data:`ROOMS`), and of the modules of the
bench that the function itself imports: reports, figures, pages and commands can change
without a row being made again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from semisure.io.atomic import write_atomically
from semisure.io.sources import digest, room, sources_of

Row = dict[str, Any]

ROOMS = (
    "types",
    "geometry",
    "mixture",
    "error_laws",
    "calibration",
    "refit",
    "estimators",
    "maps",
    "metrics",
    "io.files",  # reads the matches
)
_OWN = ("bench", "datasets")  # rooms of which only the modules imported count
_PACKAGES = (
    "numpy",
    "scipy",
    "opencv-python-headless",
    "poselib",
    "pycolmap",
)


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A function of one argument whose row is kept in a folder."""

    function: Callable[[Any], Row]
    argument: Any
    folder: Path


def remembered(call: Call) -> Row:
    """The row from its file if that is undamaged, else computed and saved.

    Numbers come back bit for bit: JSON holds the shortest text that gives the float.
    """
    file = call.folder / f"{_key(call)}.json"
    row = _load(file)
    if row is None:
        text = json.dumps(call.function(call.argument), default=_number)
        whole = json.dumps({"digest": _sha(text), "row": text}).encode()
        write_atomically(file, lambda out: out.write(whole))
        # As it will come back from the file the next time.
        row = json.loads(text)
    return row


def _number(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"A row cannot hold {type(value).__name__}.")


def _load(file: Path) -> Row | None:
    try:
        stored = json.loads(file.read_bytes())
        text = stored["row"]
        return json.loads(text) if stored["digest"] == _sha(text) else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _key(call: Call) -> str:
    name = f"{call.function.__module__}.{call.function.__qualname__}"
    code = _code(call.function.__module__), _versions()
    return _sha(json.dumps([name, code, described(call.argument)], sort_keys=True))[:24]


def described(value: Any) -> Any:
    """All that a value holds, as JSON; arrays by digest, files by size and time."""
    if is_dataclass(value) and not isinstance(value, type):
        inner = {f.name: described(getattr(value, f.name)) for f in fields(value)}
        return {type(value).__name__: inner}
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return [value.dtype.str, list(value.shape), digest]
    if isinstance(value, Path):
        stat = value.stat() if value.exists() else None
        return [str(value), *([stat.st_size, stat.st_mtime_ns] if stat else [])]
    if isinstance(value, dict):
        return {str(key): described(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [described(entry) for entry in value]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise TypeError(f"{type(value).__name__} cannot be described.")


def code_of(module: str) -> tuple[Path, ...]:
    """The files that compute the rows of a module's functions."""
    rooms = [path for name in ROOMS for path in room(name)]
    own = {path for name in _OWN for path in room(name)}
    imported = [path for path in sources_of(module) if path in own]
    return tuple(dict.fromkeys([*rooms, *imported]))


@lru_cache(maxsize=64)
def _code(module: str) -> str:
    return digest(code_of(module))


@lru_cache(maxsize=1)
def _versions() -> list[str]:
    """The versions of the installed libraries that compute."""
    versions = []
    for name in _PACKAGES:
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return versions
