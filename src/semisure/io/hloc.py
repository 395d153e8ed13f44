"""hloc's lists: queries with their cameras, and the retrieved images of each."""

from __future__ import annotations

from pathlib import Path

from semisure.errors import FileError, InputError
from semisure.geometry.camera import Camera
from semisure.types.checks import read_lines


def read_queries(path: str | Path) -> dict[str, Camera]:
    """Cameras by query from lines ``name MODEL WIDTH HEIGHT PARAMS…`` (Aachen's)."""
    queries = {}
    for number, (name, *fields) in _rows(Path(path)):
        where = f"{path}, line {number}"
        try:
            model, width, height = fields[0], int(fields[1]), int(fields[2])
            params = tuple(float(value) for value in fields[3:])
            queries[name] = Camera(model, width, height, params)
        except InputError as error:
            raise FileError(f"{where}: {error}") from None
        except (IndexError, ValueError):
            raise FileError(
                f"{where}: expected MODEL WIDTH HEIGHT PARAMS…, but found "
                f"{' '.join(fields)!r}."
            ) from None
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


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    split = [(i, line.split()) for i, line in enumerate(read_lines(path), start=1)]
    return [(i, fields) for i, fields in split if fields and fields[0][0] != "#"]
