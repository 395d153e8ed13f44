"""What was computed once, kept on disk under a digest of all that it rests on.

A changed image, setting, weight or line of code has another digest, so that a stale
file is never found. A result is named after the code that computed it, not after the
whole package, or a changed colour in a report would discard a night's matches. Files
appear whole and carry a digest of their own content; a damaged one is made again.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
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
_DIGEST = "digest"
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
    """The row in `file` if that is undamaged, else made and saved.

    Numbers come back bit for bit: JSON holds the shortest text that gives the float.
    """
    try:
        stored = json.loads(file.read_bytes())
        if stored[_DIGEST] == sha256_of(stored["row"]):
            return json.loads(stored["row"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    text = json.dumps(make(), default=np.generic.item)
    write_atomically(file, json.dumps({_DIGEST: sha256_of(text), "row": text}).encode())
    return json.loads(text)  # as it will come back from the file the next time


def kept_arrays(file: Path, make: Callable[[], dict[str, Array]]) -> dict[str, Array]:
    """The arrays in `file` if that is undamaged, else made and saved."""
    stored = _stored_arrays(file)
    if stored is None:
        stored = make()
        write_arrays(file, {**stored, _DIGEST: _digest_of_arrays(stored)})
    return stored


def _stored_arrays(file: Path) -> dict[str, Array] | None:
    """The arrays in `file`; None if it is not there, or not as it was written."""
    try:
        arrays = load_arrays(file)
    except FileError:
        return None
    stored = arrays.pop(_DIGEST, None)
    whole = stored is not None and np.array_equal(stored, _digest_of_arrays(arrays))
    return arrays if whole else None


def _digest_of_arrays(arrays: dict[str, Array]) -> Array:
    whole = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        whole.update(f"{name} {array.dtype.str} {array.shape}".encode())
        whole.update(array.tobytes())
    return np.frombuffer(whole.digest(), np.uint8)


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
    """Of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


# ---- digests of files and code -------------------------------------------------------


def sha256(file: Path) -> str:
    """Of a file's content."""
    status = file.stat()
    return _sha256(file, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=4096)
def _sha256(file: Path, size: int, modified_ns: int) -> str:
    """Made once a process for a file that has not changed: it has many pairs."""
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


@lru_cache(maxsize=256)
def sources_of(module: str) -> tuple[Path, ...]:
    """The files of a semisure module and of all semisure modules that it imports.

    >>> [path.name for path in sources_of("semisure.errors")]
    ['errors.py']
    """
    reached: set[Path] = set()
    pending = [module]
    while pending:
        path = _file(pending.pop())
        if path is not None and path not in reached:
            reached.add(path)
            pending += _imported(ast.parse(path.read_text(encoding="utf-8")))
    return tuple(sorted(reached))


def _file(module: str) -> Path | None:
    """The file of a semisure module; None for a name in one, or another package."""
    first, *rest = module.split(".")
    path = PACKAGE.joinpath(*rest)
    for file in (path / "__init__.py", path.with_suffix(".py")):
        if first == PACKAGE.name and rest and file.is_file():
            return file
    return None


def _imported(tree: ast.AST) -> Iterator[str]:
    """Modules that are imported anywhere, except under TYPE_CHECKING."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif not (
            isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        ):
            yield from _imported(node)


def libraries() -> Installed:
    """The versions of installed libraries that decide the bits of an answer."""
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
        "semisure": digest(sorted(PACKAGE.rglob("*.py")))[:16],
        "python": ".".join(platform.python_version_tuple()[:2]),
        "machine": f"{platform.system()} {platform.machine()}",
        **libraries(),
    }
