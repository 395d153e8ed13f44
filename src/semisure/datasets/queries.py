"""Maps to localise in, and the queries to be localised.

Two layouts are read. One is ``ROOT/images/`` with all images, and
``ROOT/localization_map.npz`` (no pickles inside) with the queries' true poses:

=============  ===============  ====================================================
``names``      (n,) strings     images below ``images/``, mapped ones and queries
``K``          (n, 3, 3)        intrinsics, pixel centres at integers
``R``, ``t``   (n, 3, 3), (n, 3)  poses, x ~ K (R X + t), metres
``query``      (q,) integers    which images are queries: nothing was mapped from them
``points``     (m, 3)           triangulated from the other images
``obs_image``  (k,) integers    the image of each observation,
``obs_point``  (k,) integers    its point,
``obs_xy``     (k, 2)           and where it was seen, px
=============  ===============  ====================================================

Retrieval is by true pose, not by image: the five mapped images with the smallest
distance of centres (m) plus angle (rad), of all (*near*) or of those at least 0.4 away
(*far*).

The other is Aachen Day-Night v1.1, as hloc's pipeline for it unpacks the download::

    ROOT/images_upright/db/…, query/…    or below ROOT/images/images_upright/
    ROOT/3D-models/aachen_v_1_1/         cameras.bin, images.bin, points3D.bin
    ROOT/queries/day_time_queries_with_intrinsics.txt
    ROOT/queries/night_time_queries_with_intrinsics.txt
    ROOT/pairs/pairs-query-netvlad50.txt

A line of the query lists is a name, a COLMAP camera model, width, height, parameters;
one of the last file a query and a mapped image, best first. hloc ships that file in
``pairs/aachen_v1.1/``; any folder below ``pairs/`` will do. The true poses of the
queries are not public.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from semisure.errors import FileError
from semisure.geometry import pose as se3
from semisure.geometry.camera import Camera
from semisure.io.colmap import MapImage, MapModel, read_model
from semisure.io.files import load_arrays
from semisure.io.hloc import read_queries, read_retrieval
from semisure.io.images import read_image
from semisure.types import Array, FloatArray, Pose

MAP_NAME = "localization_map.npz"
RETRIEVAL = {"near": 0.0, "far": 0.4}  # least distance, m + rad
TOP = 5
AACHEN_MODEL = Path("3D-models") / "aachen_v_1_1"
AACHEN_CONDITIONS = ("day", "night")
NETVLAD = "pairs-query-netvlad50.txt"  # the paper's
_AACHEN_IMAGES = ("images_upright", "images/images_upright")
_ARRAYS = (
    "names",
    "K",
    "R",
    "t",
    "query",
    "points",
    "obs_image",
    "obs_point",
    "obs_xy",
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Query:
    """An image to be localised, and the mapped images that retrieval proposes."""

    name: str
    image: Path
    camera: Camera
    mapped: tuple[str, ...]  # best first
    condition: str  # day or night, near or far: a line of the table
    truth: Pose | None = None  # from world to camera


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Place:
    """Queries, the images that were mapped, and the folder of the map."""

    queries: list[Query]
    images: Path
    map: Path
    retrieval: str  # how the mapped images of a query are proposed


def read_place(root: Path) -> Place:
    """The queries of a folder in either layout, and where their map is."""
    if is_located(root):
        return Place(
            queries=read_located(root),
            images=root / "images",
            map=root,
            retrieval=f"true pose, top {TOP}",
        )
    return Place(
        queries=read_aachen(root),
        images=_aachen_images(root),
        map=root / AACHEN_MODEL,
        retrieval=Path(NETVLAD).stem,
    )


def read_map(folder: Path) -> MapModel:
    """The map in such a folder: that of the first layout, or a COLMAP model."""
    return read_located_map(folder) if is_located(folder) else read_model(folder)


def is_located(root: Path) -> bool:
    """True for a folder with such a map."""
    return (root / MAP_NAME).is_file()


def read_located(root: str | Path) -> list[Query]:
    """All queries with near retrieval, then all with far."""
    root = Path(root)
    z = _read(root)
    poses = _poses(z)
    names = [str(name) for name in z["names"]]
    indices = sorted(set(z["query"].tolist()))
    mapped = [i for i in range(len(names)) if i not in indices]
    images = {q: root / "images" / names[q] for q in indices}
    cameras = {q: Camera.from_matrix(z["K"][q], _size(images[q])) for q in indices}
    queries = []
    for condition, least in RETRIEVAL.items():
        for q in indices:
            apart = np.array([_distance(poses[i], poses[q]) for i in mapped])
            order = [k for k in np.argsort(apart, kind="stable") if apart[k] >= least]
            query = Query(
                name=names[q],
                image=images[q],
                camera=cameras[q],
                mapped=tuple(names[mapped[k]] for k in order[:TOP]),
                condition=condition,
                truth=poses[q],
            )
            queries.append(query)
    return queries


def read_located_map(root: str | Path) -> MapModel:
    """The map, with the mean reprojection error of each point computed."""
    z = _read(Path(root))
    poses, world = _poses(z), z["points"].astype(np.float64)
    pixels, index = z["obs_xy"].astype(np.float64), z["obs_point"].astype(np.int64)
    images, total, count = {}, np.zeros(len(world)), np.zeros(len(world))
    for i, name in enumerate(z["names"]):
        rows = np.flatnonzero(z["obs_image"] == i)
        images[str(name)] = MapImage(str(name), 0, poses[i], pixels[rows], index[rows])
        # The size of the image does not enter a projection.
        camera = Camera.from_matrix(z["K"][i], (1, 1))
        residual = pixels[rows] - se3.project(poses[i], camera, world[index[rows]])
        np.add.at(total, index[rows], np.linalg.norm(residual, axis=1))
        np.add.at(count, index[rows], 1.0)
    ids = np.arange(len(world), dtype=np.int64)
    return MapModel({}, images, ids, world, total / np.maximum(count, 1.0))


def _read(root: Path) -> dict[str, Array]:
    path = root / MAP_NAME
    arrays = load_arrays(path)
    missing = [name for name in _ARRAYS if name not in arrays]
    if missing:
        raise FileError(f"{path} lacks {', '.join(missing)}.")
    return arrays


def _poses(z: dict[str, Array]) -> FloatArray:
    """[R | t] of each image, (n, 3, 4)."""
    return np.concatenate([z["R"], z["t"][:, :, None]], axis=2).astype(np.float64)


def _distance(a: Pose, b: Pose) -> float:
    apart, degrees = se3.errors(a, b)
    return apart + float(np.radians(degrees))


def _size(image: Path) -> tuple[int, int]:
    height, width = read_image(image).shape[:2]
    return width, height


def is_aachen(root: Path) -> bool:
    """True for a folder with Aachen's models or query lists."""
    return (root / "3D-models").is_dir() or (root / "queries").is_dir()


def read_aachen(root: str | Path) -> list[Query]:
    """The queries by day, then by night, each with its retrieved images.

    One that the retrieval file does not name has none.
    """
    root = Path(root)
    images, pairs = _aachen_images(root), read_retrieval(_aachen_retrieval(root))
    queries = []
    for condition in AACHEN_CONDITIONS:
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


def _aachen_retrieval(root: Path) -> Path:
    """The paper's file of retrieved images."""
    files = sorted(root.glob(f"pairs/**/{NETVLAD}"))
    if not files:
        raise FileError(
            f"There is no retrieval: expected {root / 'pairs' / NETVLAD}, which "
            "hloc ships in its folder pairs/aachen_v1.1."
        )
    return files[0]


def _aachen_images(root: Path) -> Path:
    """The folder of ``db/`` and ``query/``."""
    for name in _AACHEN_IMAGES:
        if (root / name).is_dir():
            return root / name
    raise FileError(
        f"There are no images of Aachen: expected {root / _AACHEN_IMAGES[0]}."
    )
