"""Aachen Day-Night v1.1, as hloc's pipeline for it unpacks the download.

The layout expected::

    ROOT/images_upright/db/…, query/…    or below ROOT/images/images_upright/
    ROOT/3D-models/aachen_v_1_1/         cameras.bin, images.bin, points3D.bin
    ROOT/queries/day_time_queries_with_intrinsics.txt
    ROOT/queries/night_time_queries_with_intrinsics.txt
    ROOT/pairs/pairs-query-netvlad50.txt

A line of the query lists is a name, a COLMAP camera model, width, height, parameters;
one of the last file a query and a mapped image, best first. hloc ships that file as
``pairs/aachen_v1.1/pairs-query-netvlad50.txt``; any folder below ``pairs/`` will do,
and another ``pairs-query-*.txt`` where it is the only one. The true poses of the
queries are not public.
"""

from __future__ import annotations

from pathlib import Path

from semisure.datasets.query_maps import Query
from semisure.errors import FileError
from semisure.io.colmap import MapModel, read_model
from semisure.io.hloc import read_queries, read_retrieval

MODEL = Path("3D-models") / "aachen_v_1_1"
CONDITIONS = ("day", "night")
RETRIEVAL = "pairs-query-netvlad50.txt"  # the paper's
_IMAGES = ("images_upright", "images/images_upright")


def is_aachen(root: Path) -> bool:
    """True for a folder with Aachen's models or query lists."""
    return (root / "3D-models").is_dir() or (root / "queries").is_dir()


def read_aachen(root: str | Path) -> list[Query]:
    """The queries by day, then by night, each with its retrieved images.

    One that the retrieval file does not name has none.
    """
    root = Path(root)
    images, pairs = images_of(root), read_retrieval(retrieval_of(root))
    queries = []
    for condition in CONDITIONS:
        cameras = read_queries(
            root / "queries" / f"{condition}_time_queries_with_intrinsics.txt"
        )
        queries += [
            Query(
                name=name,
                image=images / name,
                camera=camera,
                mapped=tuple(pairs.get(name, ())),
                condition=condition,
            )
            for name, camera in cameras.items()
        ]
    return queries


def read_aachen_map(root: str | Path) -> MapModel:
    """The SIFT model that comes with the images."""
    return read_model(Path(root) / MODEL)


def retrieval_of(root: Path) -> Path:
    """The one file of retrieved images, the paper's if it is there."""
    files = sorted(root.glob("pairs/**/pairs-query-*.txt"))
    chosen = [path for path in files if path.name == RETRIEVAL] or files
    if not chosen:
        raise FileError(
            f"There is no retrieval: expected {root / 'pairs' / RETRIEVAL}, which "
            "hloc ships in its folder pairs/aachen_v1.1."
        )
    if len(chosen) > 1:
        names = ", ".join(str(path.relative_to(root)) for path in chosen)
        raise FileError(f"{root} must have one retrieval file, but has {names}.")
    return chosen[0]


def images_of(root: Path) -> Path:
    """The folder of ``db/`` and ``query/``."""
    for name in _IMAGES:
        if (root / name).is_dir():
            return root / name
    raise FileError(f"There are no images of Aachen: expected {root / _IMAGES[0]}.")
