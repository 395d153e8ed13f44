"""hloc's files: retrieval pairs, query lists, and matches in HDF5.

hloc stores points with pixel centres at integers, as we do, and adds COLMAP's half
pixel when it uses them. In HDF5 a pair is the group ``name0/name1``, slashes in names
turned into dashes. Dense matches are the arrays ``keypoints0``, ``keypoints1`` and
``scores``; ours have the cues beside them under names that hloc does not look at.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from semisure.errors import FileError, InputError, MissingExtraError, in_short
from semisure.geometry.camera import Camera
from semisure.io import journal
from semisure.io.colmap import parse_camera
from semisure.types import Array, Matches
from semisure.types.checks import require_file

_CUES = ("fine_std", "coarse_std", "side", "fine_window")
_OURS = {"source": "keypoints0", "target": "keypoints1", "confidence": "scores"}
_ARRAYS = (*_OURS.values(), *_CUES)
_CELL = "cell"  # where the matcher states it
_SIZES = ("source_size", "target_size")
_PART = "unfinished"
_DIGEST, _MADE_OF = "sha256", "made_of"
# What h5py and NumPy raise on damaged files.
UNREADABLE = (
    OSError,
    RuntimeError,
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    IndexError,
    OverflowError,
)


def read_queries(path: str | Path) -> dict[str, Camera]:
    """Cameras by query from lines ``name MODEL WIDTH HEIGHT PARAMS…`` (Aachen's)."""
    queries = {}
    for number, fields in _rows(Path(path)):
        where = f"{path}, line {number}"
        try:
            queries[fields[0]] = parse_camera(fields[1:], where).camera()
        except FileError:
            raise
        except InputError as error:
            raise FileError(f"{where}: {error}") from None
    return queries


def read_retrieval(path: str | Path) -> dict[str, list[str]]:
    """Mapped images by query, best first, from lines ``query database``."""
    pairs: dict[str, list[str]] = {}
    for number, fields in _rows(Path(path)):
        if len(fields) < 2:
            raise FileError(
                f"{path}, line {number}: expected a query and a mapped image, but "
                f"found {' '.join(fields)!r}."
            )
        mapped = pairs.setdefault(fields[0], [])
        if fields[1] not in mapped:
            mapped.append(fields[1])
    return pairs


read_pairs = read_retrieval  # its name in 0.1


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    require_file(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path} cannot be read: {error}.") from None
    split = [(i, line.split()) for i, line in enumerate(lines, start=1)]
    return [(i, fields) for i, fields in split if fields and fields[0][0] != "#"]


def pair_key(name0: str, name1: str) -> str:
    """The group of a pair.

    >>> pair_key("query/night/1.jpg", "db/2.jpg")
    'query-night-1.jpg/db-2.jpg'
    """
    return "/".join(name.replace("/", "-") for name in (name0, name1))


def write_matches(
    path: str | Path, name0: str, name1: str, matches: Matches, made_of: str = ""
) -> None:
    """Add the matches of a pair to a file; a pair that is there is replaced.

    `made_of` is what decided them, for :func:`has_matches`.
    """
    arrays: dict[str, Array] = {
        "keypoints0": matches.source,
        "keypoints1": matches.target,
        "scores": matches.confidence,
        **{name: getattr(matches, name) for name in _CUES},
    }
    if matches.cell is not None:
        arrays[_CELL] = matches.cell
    sizes = {name: np.array(getattr(matches, name)) for name in _SIZES}
    key = pair_key(name0, name1)
    with _changed(Path(path)) as file:
        group = _fresh(file, _PART)
        for name, array in arrays.items():
            group.create_dataset(name, data=array)
        group.attrs.update(sizes)
        group.attrs[_DIGEST] = _digest({**arrays, **sizes})
        if made_of:
            group.attrs[_MADE_OF] = _text(made_of)
        if key in file:
            del file[key]
        file.move(_PART, key)


def has_matches(
    path: str | Path, name0: str, name1: str, made_of: str | None = None
) -> bool:
    """True if the file holds this pair, either way round.

    With `made_of`, a pair that something else decided does not count; one that does not
    say what decided it does.
    """
    if not Path(path).exists() or not Path(path).stat().st_size:
        return False
    with opened_hdf5(path) as file, _readable(path, name0, name1):
        keys = pair_key(name0, name1), pair_key(name1, name0)
        group = next((file[key] for key in keys if key in file), None)
        if group is None or made_of is None:
            return group is not None
        stated = _attribute(group, _MADE_OF)
        return stated is None or np.array_equal(stated, _text(made_of))


def read_matches(path: str | Path, name0: str, name1: str) -> Matches:
    """The matches of a pair with their cues, stored either way round."""
    with opened_hdf5(path) as file, _readable(path, name0, name1):
        group, reversed_order = _find(file, path, name0, name1)
        _check_complete(group, path, name0, name1)
        names = (*_ARRAYS, _CELL) if _CELL in group else _ARRAYS
        arrays: dict[str, Any] = {name: numbers_in(group[name])[()] for name in names}
        sizes: dict[str, Any] = {name: _attribute(group, name) for name in _SIZES}
        # Without a digest, it was the digest's name that was damaged.
        if not np.array_equal(_attribute(group, _DIGEST), _digest({**arrays, **sizes})):
            raise FileError(
                f"{path} is damaged: the pair {name0}, {name1} is not as it was "
                "written. Delete the file and match again."
            )
        for ours, theirs in _OURS.items():
            arrays[ours] = arrays.pop(theirs)
        matches = Matches(**arrays, **sizes)
    return matches.swapped() if reversed_order else matches


def _check_complete(group: Any, path: str | Path, name0: str, name1: str) -> None:
    missing = [name for name in _ARRAYS if name not in group]
    missing += [name for name in _SIZES if name not in group.attrs]
    if missing:
        raise FileError(
            f"{path} has the pair {name0}, {name1} without {missing[0]}: pixel "
            "errors need the matcher's cues, which hloc does not store. Write the "
            "file with semisure."
        )


@contextmanager
def _readable(path: str | Path, name0: str, name1: str) -> Iterator[None]:
    """Turn what h5py raises on damaged files into one sentence."""
    try:
        yield
    except FileError:
        raise
    except UNREADABLE as error:
        reason = in_short(error)
        raise FileError(
            f"{path} has the pair {name0}, {name1}, but it cannot be read: {reason}."
        ) from None


def numbers_in(stored: Any) -> Any:
    """`stored` if it holds numbers: libhdf5 may look for damaged text for ever."""
    if stored.dtype.kind not in "fiu":
        raise ValueError("it holds more than numbers")
    return stored


def _attribute(group: Any, name: str) -> Any:
    """The numbers of an attribute, or None where there is none."""
    if name not in group.attrs:
        return None
    numbers_in(group.attrs.get_id(name))
    return np.asarray(group.attrs[name])


def _text(text: str) -> Array:
    """A text as numbers."""
    return np.frombuffer(text.encode(), np.uint8)


def _digest(arrays: dict[str, Array]) -> Array:
    whole = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        whole.update(f"{name} {array.dtype.kind} {array.shape}".encode())
        whole.update(array.tobytes())
    return np.frombuffer(whole.digest(), np.uint8)


def _h5py() -> Any:
    try:
        import h5py
    except ImportError:
        raise MissingExtraError("h5py", "store", "Reading hloc's files") from None
    return h5py


def opened_hdf5(path: str | Path, mode: str = "r") -> Any:
    """An h5py file, after what a killed process left undone, or one sentence."""
    h5py = _h5py()
    path = Path(path)
    if mode == "r" or path.exists():
        require_file(path)
        journal.finish(path)
    try:
        return h5py.File(path, mode)
    except OSError as error:
        raise _not_hdf5(path, error) from None


@contextmanager
def _changed(path: Path) -> Iterator[Any]:
    """The file to change: it gets all changes at the end, or none.

    libhdf5 sees memory only, so that a full disk is an error and does not crash it.
    """
    h5py = _h5py()
    if path.exists():
        require_file(path)
    with journal.changing(path) as overlay:
        try:
            file = h5py.File(overlay, "r+" if overlay.size else "w")
        except OSError as error:
            raise _not_hdf5(path, error) from None
        try:
            with file:
                yield file
        except FileError:
            raise
        except UNREADABLE as error:
            raise FileError(
                f"{path} is damaged, and no pair can be added: {in_short(error)}."
            ) from None


def _not_hdf5(path: str | Path, error: OSError) -> FileError:
    return FileError(f"{path} is not a readable HDF5 file: {error}.")


def _fresh(file: Any, key: str) -> Any:
    if key in file:
        del file[key]
    return file.create_group(key)


def _find(file: Any, path: str | Path, name0: str, name1: str) -> tuple[Any, bool]:
    for key, turned in (
        (pair_key(name0, name1), False),
        (pair_key(name1, name0), True),
    ):
        if key in file:
            return file[key], turned
    raise FileError(f"{path} has no matches of {name0} and {name1}.")
