"""A folder that a store lies in: on this machine, or anywhere that fsspec reaches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from semisure.errors import FileError, InputError, MissingExtraError, in_short
from semisure.io.atomic import write_atomically
from semisure.types.checks import require_file

MAX_READ_BYTES = 64 << 20  # of a file that is read whole: a manifest has some kB


class Place(Protocol):
    """A folder whose files appear whole or not at all; names have /."""

    @property
    def name(self) -> str:
        """Its path or address."""

    def listed(self, folder: str) -> dict[str, int]:
        """Names and bytes of the files in a folder of this place, in order."""

    def read(self, name: str) -> bytes | None:
        """A whole file, or None where there is none."""

    def opened(self, name: str) -> Any:
        """A context manager that gives a file to read anywhere in."""

    def write(self, name: str, content: bytes) -> None:
        """Put a whole file in place, over an older one."""


def place_of(address: str | Path) -> Place:
    """The place at a path or an fsspec address.

    >>> place_of("runs/one").name
    'runs/one'
    >>> place_of("memory://one").name
    'memory://one'
    """
    text = os.fspath(address)
    if "://" not in text:
        return LocalFolder(text)
    if text.startswith("file://"):
        return LocalFolder(text.removeprefix("file://"))
    return RemoteFolder(text)


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A folder of this machine, or one that it has mounted."""

    name: str

    def listed(self, folder: str) -> dict[str, int]:
        try:
            with os.scandir(Path(self.name, folder)) as entries:
                sizes = {e.name: _size(e) for e in entries if e.is_file()}
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise _unreadable(f"{self.name}/{folder}", error) from None
        return dict(sorted(sizes.items()))

    def read(self, name: str) -> bytes | None:
        path = Path(self.name, name)
        try:
            if path.stat().st_size > MAX_READ_BYTES:
                raise FileError(
                    f"{path} cannot be read: it is larger than {MAX_READ_BYTES >> 20} "
                    "MB."
                )
            return require_file(path).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(f"{self.name}/{name}", error) from None

    @contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        with (
            _sentences(f"{self.name}/{name}"),
            Path(self.name, name).open("rb") as file,
        ):
            yield file

    def write(self, name: str, content: bytes) -> None:
        write_atomically(Path(self.name, name), lambda file: file.write(content))


class RemoteFolder:
    """A folder by fsspec: s3://bucket/run, gs://…, sftp://….

    Object stores show a file when all of it has arrived, which is what fsspec's
    transactions rest on; other file systems get it under another name first.
    """

    def __init__(self, address: str) -> None:
        self.name = address.rstrip("/")
        fsspec = _fsspec()
        try:
            self._files, self._root = fsspec.core.url_to_fs(self.name)
        except (ImportError, ValueError, OSError) as error:
            raise InputError(
                f"{address} cannot be reached by fsspec: {in_short(error)}."
            ) from None

    def __reduce__(self) -> tuple[type, tuple[str]]:
        """For worker processes: each makes its own connection."""
        return type(self), (self.name,)

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
        try:
            content: bytes = self._files.cat_file(f"{self._root}/{name}")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(f"{self.name}/{name}", error) from None
        return content

    @contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        called, path = f"{self.name}/{name}", f"{self._root}/{name}"
        with _sentences(called), self._files.open(path, "rb") as file:
            yield file

    def write(self, name: str, content: bytes) -> None:
        path = f"{self._root}/{name}"
        try:
            self._files.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
            with self._files.transaction, self._files.open(path, "wb") as file:
                file.write(content)
        except OSError as error:
            raise FileError(
                f"{self.name}/{name} cannot be written: {in_short(error)}."
            ) from None


def _fsspec() -> Any:
    try:
        import fsspec
        import fsspec.core
    except ImportError:
        raise MissingExtraError("fsspec", "store", "A store elsewhere") from None
    return fsspec


def _size(entry: os.DirEntry[str]) -> int:
    """Bytes of a file; 0 if another process renamed it just now."""
    try:
        return entry.stat().st_size
    except FileNotFoundError:
        return 0


@contextmanager
def _sentences(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _unreadable(name, error) from None


def _unreadable(name: str, error: OSError) -> FileError:
    return FileError(f"{name} cannot be read: {error.strerror or in_short(error)}.")
