"""Folders that a reconstruction replaces, if nothing else is in them."""

from __future__ import annotations

import shutil
from pathlib import Path

from semisure.errors import FileError, in_short

_TABLES = ("cameras", "images", "points3D", "frames", "rigs")
_OF_A_MODEL = {f"{table}{kind}" for table in _TABLES for kind in (".bin", ".txt")}
_OF_A_MODEL |= {"project.ini", "database.db"}


def check_replaceable(folder: Path) -> None:
    """Raise if `folder` is there and holds more than models of COLMAP's.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> check_replaceable(folder)
    >>> (folder / "0").mkdir()
    >>> (folder / "0" / "cameras.bin").touch()
    >>> check_replaceable(folder)
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise FileError(
            f"{folder} would be replaced by a folder, but is a file or a link. Choose "
            "another folder for the output."
        )
    try:
        strange = next((p for p in folder.rglob("*") if not _of_a_model(p)), None)
    except OSError as error:
        raise FileError(f"{folder} cannot be read: {in_short(error)}.") from None
    if strange is not None:
        raise FileError(
            f"{folder} would be replaced, but holds {strange.relative_to(folder)}, "
            "which no reconstruction wrote. Choose another folder for the output."
        )


def _of_a_model(path: Path) -> bool:
    """A file of a model, or the folder of one of several models, named by a number."""
    if path.is_dir() and not path.is_symlink():
        return path.name.isdigit()
    return path.name in _OF_A_MODEL


def emptied(folder: Path) -> Path:
    """`folder`, new and empty."""
    check_replaceable(folder)
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    except OSError as error:
        raise FileError(f"{folder} cannot be written: {in_short(error)}.") from None
    return folder
