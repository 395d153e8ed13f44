"""Changes to a file that are made as a whole or not at all, whenever one is killed.

HDF5 changes its file in many places, and a process that is killed between two of them
leaves nothing that can be read. Here the changes are held in memory. At the end they
are written to a journal beside the file, which gets its name once it is complete; then
they go into the file, and then the journal goes. Whoever opens the file next finds no
journal, or finishes what it says.
"""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from zlib import crc32

from semisure.errors import FileError

_PAGE = 4096
_MAGIC = b"semisure-journal-1\n"
_HEAD, _ENTRY = struct.Struct("<QQQ"), struct.Struct("<QI")  # sizes, count; place, crc
_SHA = hashlib.sha256().digest_size
_BEING_WRITTEN = "another process is writing it; try again when it is done"

Pages = dict[int, bytearray]


class Overlay(io.RawIOBase):
    """A file whose changes stay in memory, page by page; for h5py, it is a file."""

    def __init__(self, base: IO[bytes]) -> None:
        self.base, self.pages = base, Pages()
        self.size = self.base_size = base.seek(0, os.SEEK_END)
        self.at = 0

    def seekable(self) -> bool:
        """True, as h5py asks."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to `offset` from the beginning, from here or from the end."""
        self.at = offset + (0, self.at, self.size)[whence]
        return self.at

    def tell(self) -> int:
        """Where the next byte is read or written."""
        return self.at

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` as far as the file goes."""
        view = memoryview(buffer).cast("B")
        count = max(0, min(len(view), self.size - self.at))
        for number, inside, part in self._parts(count):
            view[part] = self._page(number)[inside]
        self.at += count
        return count

    def write(self, data: Any) -> int:
        """Put `data` into the pages in memory."""
        view = memoryview(data).cast("B")
        for number, inside, part in self._parts(len(view)):
            page = self.pages.setdefault(number, bytearray(self._page(number)))
            page[inside] = view[part]
        self.at += len(view)
        self.size = max(self.size, self.at)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Cut or extend to `size`; the base keeps its bytes until the end."""
        self.size = self.at if size is None else size
        return self.size

    def _parts(self, count: int) -> Iterator[tuple[int, slice, slice]]:
        """Pages of the next bytes: number, bytes of the page, bytes of the request."""
        done = 0
        while done < count:
            number, begin = divmod(self.at + done, _PAGE)
            some = min(count - done, _PAGE - begin)
            yield number, slice(begin, begin + some), slice(done, done + some)
            done += some

    def _page(self, number: int) -> bytes | bytearray:
        if number in self.pages:
            return self.pages[number]
        return page_of(self.base, number)


def page_of(file: IO[bytes], number: int) -> bytes:
    """A page as it is on disk, zeros beyond the end."""
    file.seek(number * _PAGE)
    return file.read(_PAGE).ljust(_PAGE, b"\0")


@contextmanager
def changing(path: Path) -> Iterator[Overlay]:
    """A file to be changed by this process alone; changes are kept if all went well."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        finish(path)
        with path.open("r+b") as file, _locked(file, path):
            overlay = Overlay(file)
            yield overlay
            _commit(path, overlay)
    except OSError as error:
        raise _unwritable(path, error) from None


def finish(path: Path) -> None:
    """Make the changes of a process that was killed before it had made them all."""
    if not _journal(path).exists():
        return
    try:
        with path.open("r+b") as file, _locked(file, path):
            changes = _read(path, file)
            if changes is not None:
                _apply(file, *changes)
            _journal(path).unlink(missing_ok=True)
    except FileNotFoundError:
        _journal(path).unlink(missing_ok=True)  # of a file that was deleted
    except OSError as error:
        raise _unwritable(path, error) from None


def _journal(path: Path) -> Path:
    path = Path(os.path.realpath(path))
    return path.with_name(f"{path.name[:200]}.journal")


def _commit(path: Path, overlay: Overlay) -> None:
    content = bytearray(_MAGIC)
    content += _HEAD.pack(overlay.base_size, overlay.size, len(overlay.pages))
    for number, page in overlay.pages.items():
        content += _ENTRY.pack(number, crc32(page_of(overlay.base, number))) + page
    content += hashlib.sha256(content).digest()
    journal = _journal(path)
    temporary = journal.with_name(f".{journal.name[:200]}.{secrets.token_hex(6)}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(journal)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    try:
        _append(overlay.base, overlay.base_size, overlay.pages)
    except BaseException:
        # The disk is full: nothing of what was there has been changed yet.
        with suppress(OSError):
            overlay.base.truncate(overlay.base_size)
        journal.unlink(missing_ok=True)
        raise
    _apply(overlay.base, overlay.size, overlay.pages)
    journal.unlink(missing_ok=True)


def _read(path: Path, file: IO[bytes]) -> tuple[int, Pages] | None:
    """Size and pages that a journal asks for, or None where it is not this file's."""
    content = _journal(path).read_bytes()
    body, at = content[:-_SHA], len(_MAGIC) + _HEAD.size
    if (
        not body.startswith(_MAGIC)
        or len(body) < at
        or hashlib.sha256(body).digest() != content[-_SHA:]
    ):
        return None
    base_size, size, count = _HEAD.unpack_from(body, len(_MAGIC))
    if file.seek(0, os.SEEK_END) < min(base_size, size):
        return None
    pages = Pages()
    for begin in range(at, at + count * (_ENTRY.size + _PAGE), _ENTRY.size + _PAGE):
        number, before = _ENTRY.unpack_from(body, begin)
        page = body[begin + _ENTRY.size : begin + _ENTRY.size + _PAGE]
        found = page_of(file, number)
        if number * _PAGE < base_size and crc32(found) != before and found != page:
            return None
        pages[number] = bytearray(page)
    return size, pages


def _append(file: IO[bytes], base_size: int, pages: Pages) -> None:
    """Write the pages that lie wholly beyond what was there: these may not fit."""
    for number in sorted(n for n in pages if n * _PAGE >= base_size):
        file.seek(number * _PAGE)
        file.write(pages[number])
    file.flush()


def _apply(file: IO[bytes], size: int, pages: Pages) -> None:
    """Make all changes; making them twice does no harm."""
    for number, page in sorted(pages.items()):
        file.seek(number * _PAGE)
        file.write(page)
    file.flush()
    os.fsync(file.fileno())
    file.truncate(size)


@contextmanager
def _locked(file: IO[bytes], path: Path) -> Iterator[None]:
    """Hold the file for this process, as libhdf5 does, or say who does not let us."""
    try:
        import fcntl
    except ImportError:  # Windows has no such locks
        yield
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise FileError(f"{path} cannot be opened: {_BEING_WRITTEN}.") from None
    yield  # closing the file lets it go


def _unwritable(path: Path, error: OSError) -> FileError:
    return FileError(f"{path} cannot be written: {error.strerror or error}.")
