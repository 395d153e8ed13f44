"""A folder that a store lies in: on this machine, or anywhere that fsspec reaches.

Its files appear whole or not at all; their names have /.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from semisure.errors import FileError, InputError, MissingExtraError, in_short
from semisure.io.atomic import write_atomically

MAX_READ_BYTES = 64 << 20  # of a file that is read whole: a manifest has some kB


class Place:
    """The folder at a path or an fsspec address: s3://bucket/run, gs://…, sftp://….

    Object stores show a file when all of it has arrived, which is what fsspec's
    transactions rest on; other file systems get it under another name first.

    >>> place = Place("memory://one")
    >>> place.write("shards/a.parquet", b"PAR1")
    >>> place.listed("shards"), place.read("b")
    (['a.parquet'], None)
    """

    def __init__(self, address: str | Path) -> None:
        self.name = os.fspath(address).removeprefix("file://").rstrip("/") or "/"
        self._is_local = "://" not in self.name
        try:
            import fsspec.core
        except ImportError:
            raise MissingExtraError("fsspec", "store", "A store of pairs") from None
        if self._is_local:
            self._files, self._root = fsspec.filesystem("file"), self.name
            return
        try:
            self._files, self._root = fsspec.core.url_to_fs(self.name)
        except (ImportError, ValueError, OSError) as error:
            raise InputError(
                f"{address} cannot be reached by fsspec: {in_short(error)}."
            ) from None

    def listed(self, folder: str) -> list[str]:
        """Names of what is in a folder of this place, in order."""
        with self._sentences(folder):
            try:
                self._files.invalidate_cache()
                paths = self._files.ls(f"{self._root}/{folder}", detail=False)
            except FileNotFoundError:
                return []
        return sorted(path.rsplit("/", 1)[-1] for path in paths)

    def size(self, name: str) -> int:
        """Bytes of a file."""
        with self._sentences(name):
            return int(self._files.size(f"{self._root}/{name}") or 0)

    def read(self, name: str) -> bytes | None:
        """A whole file, or None where there is none."""
        path = f"{self._root}/{name}"
        with self._sentences(name):
            try:
                info = self._files.info(path)
            except FileNotFoundError:
                return None
            if info["type"] != "file":
                raise OSError("it is no plain file")
            if (info["size"] or 0) > MAX_READ_BYTES:
                raise OSError(f"it is larger than {MAX_READ_BYTES >> 20} MB")
            content: bytes = self._files.cat_file(path)
        return content

    @contextmanager
    def opened(self, name: str) -> Iterator[Any]:
        """A file to read anywhere in."""
        path = f"{self._root}/{name}"
        with self._sentences(name), self._files.open(path, "rb") as file:
            yield file

    def write(self, name: str, content: bytes) -> None:
        """Put a whole file in place, over an older one."""
        path = f"{self._root}/{name}"
        if self._is_local:
            return write_atomically(Path(path), content)
        with self._sentences(name, "written"):
            self._files.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
            with self._files.transaction, self._files.open(path, "wb") as file:
                file.write(content)

    @contextmanager
    def _sentences(self, name: str, done: str = "read") -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or in_short(error)
            raise FileError(f"{self.name}/{name} cannot be {done}: {reason}.") from None
