"""Files that are written completely or not at all."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from semisure.errors import FileError


def write_atomically(path: Path, content: bytes) -> None:
    """Put a whole file in place."""
    with appearing_whole(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def appearing_whole(path: Path) -> Iterator[Path]:
    """The name of a temporary file beside `path`, renamed to it if nothing failed.

    A symbolic link is followed. Where the file cannot be written, the old one stays.
    """
    target = _followed(path)
    # A short name: with the target's whole name it could be too long.
    temporary = target.with_name(f".{target.name[:40]}.{_token()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from None


def check_output(path: Path, suffixes: Sequence[str] = ()) -> None:
    """Raise now if `path` could not be written after hours of work.

    >>> check_output(Path("a.png"), (".json",))
    Traceback (most recent call last):
    semisure.errors.FileError: a.png cannot be written: its name must end in .json.
    """
    target = _followed(path)
    if suffixes and path.suffix not in suffixes:
        raise _unwritable(path, f"its name must end in {' or '.join(suffixes)}")
    _check_parent(path, target.parent)


def check_output_folder(folder: Path) -> None:
    """The same for a folder that files will be written into."""
    _check_parent(folder, folder)


def check_new(path: Path) -> None:
    """Raise if anything of that name exists.

    >>> check_new(Path("nowhere") / "new.db")
    """
    if os.path.lexists(path):
        raise FileError(
            f"{path} exists already. Delete it, or choose another folder for the "
            "output."
        )


def check_not_inputs(outputs: Sequence[Path], inputs: Sequence[Path]) -> None:
    """Raise if an output is also an input, or another output."""
    uses = {os.path.realpath(path): "read, too" for path in inputs}
    for path in outputs:
        place = os.path.realpath(path)
        if place in uses:
            raise FileError(
                f"{path} would be overwritten: it is {uses[place]}. Choose another "
                "name for the output."
            )
        uses[place] = "written twice"


def _check_parent(path: Path, folder: Path) -> None:
    """Raise unless the nearest folder that exists can get new entries."""
    try:
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from None
    if not folder.is_dir():
        raise _unwritable(path, f"{folder} is not a folder")
    # Permissions do not suffice: for /proc, full disks, or the superuser.
    probe = folder / f".{_token()}"
    try:
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from None


def _token() -> str:
    # As in the module secrets, which would load OpenSSL.
    return os.urandom(6).hex()


def _followed(path: Path) -> Path:
    """The target of a link; raises for folders, devices and pipes."""
    target = Path(os.path.realpath(path))
    try:
        mode = target.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):  # the latter has its own sentence
        return target
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from None
    if stat.S_ISDIR(mode):
        raise _unwritable(path, "it is a folder")
    if not stat.S_ISREG(mode):
        raise _unwritable(path, "it is not a plain file")
    return target


def _unwritable(path: Path, reason: str) -> FileError:
    return FileError(f"{path} cannot be written: {reason}.")


def write_json(path: str | Path, document: Any) -> None:
    """Write `document` as indented JSON; raises for NaN and infinity."""
    write_atomically(Path(path), as_json(document))


def as_json(document: Any) -> bytes:
    """The bytes of a JSON file."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()
