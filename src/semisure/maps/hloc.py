"""hloc's files: retrieval pairs, query lists, and matches in HDF5.

hloc stores points with pixel centres at integers, as we do, and adds COLMAP's half
pixel when it uses them. In HDF5 a pair is the group ``name0/name1``, slashes in names
turned into dashes. Dense matches are the arrays ``keypoints0``, ``keypoints1`` and
``scores``; ours have the cues beside them under names that hloc does not look at.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from semisure.errors import FileError, InputError, MissingExtraError
from semisure.geometry.camera import Camera
from semisure.maps.colmap import parse_camera
from semisure.types import Array, Matches

_CUES = ("fine_std", "coarse_std", "side", "fine_window")
_SIZES = ("source_size", "target_size")
_PART = "unfinished"


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
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise FileError(f"There is no file {path}.") from None
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


def write_matches(path: str | Path, name0: str, name1: str, matches: Matches) -> None:
    """Add the matches of a pair to a file; a pair that is there is replaced."""
    arrays: dict[str, Array] = {
        "keypoints0": matches.source,
        "keypoints1": matches.target,
        "scores": matches.confidence,
        **{name: getattr(matches, name) for name in _CUES},
    }
    if matches.cell is not None:
        arrays["cell"] = matches.cell
    key = pair_key(name0, name1)
    with _opened(path, "a") as file:
        group = _fresh(file, _PART)
        for name, array in arrays.items():
            group.create_dataset(name, data=array)
        for name in _SIZES:
            group.attrs[name] = getattr(matches, name)
        if key in file:
            del file[key]
        file.move(_PART, key)  # last, so that an interrupted write leaves no pair


def has_matches(path: str | Path, name0: str, name1: str) -> bool:
    """True if the file holds this pair, either way round."""
    if not Path(path).exists():
        return False
    with _opened(path, "r") as file:
        return pair_key(name0, name1) in file or pair_key(name1, name0) in file


def read_matches(path: str | Path, name0: str, name1: str) -> Matches:
    """The matches of a pair with their cues, stored either way round."""
    with _opened(path, "r") as file:
        group, reversed_order = _find(file, path, name0, name1)
        missing = [name for name in ("keypoints0", *_CUES[:2]) if name not in group]
        if missing:
            raise FileError(
                f"{path} has the pair {name0}, {name1} without {missing[0]}: pixel "
                "errors need the matcher's cues, which hloc does not store. Write the "
                "file with semisure."
            )
        arrays: dict[str, Any] = {name: group[name][()] for name in _CUES}
        arrays |= {name: tuple(group.attrs[name]) for name in _SIZES}
        arrays["cell"] = group["cell"][()] if "cell" in group else None
        matches = Matches(
            source=group["keypoints0"][()],
            target=group["keypoints1"][()],
            confidence=group["scores"][()],
            **arrays,
        )
    return matches.swapped() if reversed_order else matches


def _h5py() -> Any:
    try:
        import h5py
    except ImportError:
        raise MissingExtraError("h5py", "store", "Reading hloc's files") from None
    return h5py


def _opened(path: str | Path, mode: str) -> Any:
    h5py = _h5py()
    path = Path(path)
    if mode == "r" and not path.is_file():
        raise FileError(f"There is no file {path}.")
    if mode != "r":
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return h5py.File(path, mode)
    except OSError as error:
        raise FileError(f"{path} is not a readable HDF5 file: {error}.") from None


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
