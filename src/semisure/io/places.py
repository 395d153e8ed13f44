"""A folder that a store lies in: on this machine, or anywhere that fsspec reaches.

Its files appear whole or not at all; their names have /.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

from semisure.errors import FileError, InputError, MissingExtraError, in_short
from semisure.io.atomic import write_atomically
from semisure.types.checks import require_file

MAX_READ_BYTES = 64 << 20  # of a file that is read whole: a manifest has some kB


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A folder of this machine, or one that it has mounted."""

    name: str

    def listed(self, folder: str) -> dict[str, int]:
        """Names and bytes of the files in a folder of this place, in order."""
        path = Path(self.name, folder)
        if not path.exists():
            return {}
        with _sentences(path), os.scandir(path) as entries:
            return dict(sorted((e.name, _size(e)) for e in entries if e.is_file()))

    def read(self, name: str) -> bytes | None:
        """A whole file, or None where there is none."""
        path = Path(self.name, name)
        if not path.exists():
            return None
        with _sentences(path):
            if path.stat().st_size > MAX_READ_BYTES:
                raise OSError(f"it is larger than {MAX_READ_BYTES >> 20} MB")
            return require_file(path).read_bytes()

    @contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        """A file to read anywhere in."""
        path = Path(self.name, name)
        with _sentences(path), path.open("rb") as file:
            yield file

    def write(self, name: str, content: bytes) -> None:
        """Put a whole file in place, over an older one."""
        write_atomically(Path(self.name, name), content)


class RemoteFolder:
    """The same by fsspec: s3://bucket/run, gs://…, sftp://….

    Object stores show a file when all of it has arrived, which is what fsspec's
    transactions rest on; other file systems get it under another name first.
    """

    def __init__(self, address: str) -> None:
        self.name = address.rstrip("/")
        try:
            import fsspec.core
        except ImportError:
            raise MissingExtraError("fsspec", "store", "A store elsewhere") from None
        try:
            self._files, self._root = fsspec.core.url_to_fs(self.name)
        except (ImportError, ValueError, OSError) as error:
            raise InputError(
                f"{address} cannot be reached by fsspec: {in_short(error)}."
            ) from None

    def listed(self, folder: str) -> dict[str, int]:
        self._files.invalidate_cache()
        try:
            entries = self._files.ls(f"{self._root}/{folder}", detail=True)
        except FileNotFoundError:
            return {}
        files = [entry for entry in entries if entry["type"] == "file"]
        names = {e["name"].rsplit("/", 1)[-1]: int(e["size"] or 0) for e in files}
        return dict(sorted(names.items()))

    def read(self, name: str) -> bytes | None:
        with _sentences(f"{self.name}/{name}"):
            try:
                content: bytes = self._files.cat_file(f"{self._root}/{name}")
            except FileNotFoundError:
                return None
        return content

    @contextmanager
    def opened(self, name: str) -> Iterator[Any]:
        path = f"{self._root}/{name}"
        with _sentences(f"{self.name}/{name}"), self._files.open(path, "rb") as file:
            yield file

    def write(self, name: str, content: bytes) -> None:
        path = f"{self._root}/{name}"
        with _sentences(f"{self.name}/{name}", "written"):
            self._files.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
            with self._files.transaction, self._files.open(path, "wb") as file:
                file.write(content)


Place: TypeAlias = LocalFolder | RemoteFolder


def place_of(address: str | Path) -> Place:
    """The place at a path or an fsspec address.

    >>> place_of("runs/one").name
    'runs/one'
    >>> place_of("memory://one").name
    'memory://one'
    """
    text = os.fspath(address).removeprefix("file://")
    return RemoteFolder(text) if "://" in text else LocalFolder(text)


def _size(entry: os.DirEntry[str]) -> int:
    """Bytes of a file; 0 if another process renamed it just now."""
    try:
        return entry.stat().st_size
    except FileNotFoundError:
        return 0


@contextmanager
def _sentences(name: str | Path, done: str = "read") -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or in_short(error)
        raise FileError(f"{name} cannot be {done}: {reason}.") from None
