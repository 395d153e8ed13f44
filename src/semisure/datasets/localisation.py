"""Maps to localise in, whichever of the two layouts they have.

Either :mod:`semisure.datasets.query_maps` or :mod:`semisure.datasets.aachen`.
"""

from __future__ import annotations

from pathlib import Path

from semisure.datasets.aachen import (
    MODEL,
    images_of,
    read_aachen,
    read_aachen_map,
    retrieval_of,
)
from semisure.datasets.query_maps import (
    MAP_NAME,
    TOP,
    Query,
    is_located,
    read_located,
    read_located_map,
)
from semisure.io.colmap import MapModel, read_model


def read_map(root: Path, own: Path | None = None) -> MapModel:
    """The map in a folder, or a COLMAP model of the same images in another, `own`."""
    if own is not None:
        return read_model(own)
    return read_located_map(root) if is_located(root) else read_aachen_map(root)


def read_all_queries(root: Path) -> list[Query]:
    """The queries to be localised in the map, each with its retrieved images."""
    return read_located(root) if is_located(root) else read_aachen(root)


def image_folder(root: Path) -> Path:
    """Where the mapped images are."""
    return root / "images" if is_located(root) else images_of(root)


def retrieval_name(root: Path) -> str:
    """By what the mapped images of a query are proposed."""
    return f"true pose, top {TOP}" if is_located(root) else retrieval_of(root).stem


def map_files(root: Path, own: Path | None = None) -> tuple[Path, ...]:
    """The files whose change makes another map."""
    if own is not None:
        return tuple(sorted(own.glob("*")))
    if is_located(root):
        return (root / MAP_NAME,)
    return tuple(sorted((root / MODEL).glob("*")))
