"""COLMAP's database: cameras, images, keypoints, matches, two-view geometries.

COLMAP uses matches only where a two-view geometry vouches for them, so that each pair
gets one: our model and the matches that it explains. Keypoints move by half a pixel to
COLMAP's origin, and so do the models. Covariances of keypoints are in a table of our
own, ``keypoint_covariances``, which COLMAP does not look at.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from semisure.errors import FileError
from semisure.geometry.camera import CORNER_TO_CENTRE_PX
from semisure.io.atomic import appearing_whole
from semisure.mapping.aggregation import KeypointPair
from semisure.mapping.cameras import ImageCamera
from semisure.mapping.keypoints import Keypoints
from semisure.mapping.library import pycolmap
from semisure.pairs.models import lines_matrix
from semisure.types import FloatArray

_CREATE = (
    "CREATE TABLE keypoint_covariances "
    "(image_id INTEGER PRIMARY KEY, rows INTEGER, data BLOB)"
)
_INSERT = "INSERT INTO keypoint_covariances VALUES (?, ?, ?)"
_SELECT = "SELECT image_id, data FROM keypoint_covariances"
# p ↦ p + ½, for models of pixels
_TO_COLMAP = np.array(
    [[1, 0, CORNER_TO_CENTRE_PX], [0, 1, CORNER_TO_CENTRE_PX], [0, 0, 1]]
)


def write_database(
    path: str | Path,
    cameras: Mapping[str, ImageCamera],
    keypoints: Mapping[str, Keypoints],
    pairs: Iterable[KeypointPair],
    *,
    shared_camera: bool = False,
) -> int:
    """Write a new database whole, then rename it; returns the number of pairs.

    With `shared_camera` images of equal intrinsics have one camera in common. An older
    database is replaced only if this function wrote it.
    """
    check_ours(path)
    library = pycolmap()
    with appearing_whole(Path(path)) as part:
        with library.Database.open(str(part)) as database:
            ids = _write_images(library, database, cameras, shared_camera)
            for name, found in keypoints.items():
                moved = (found.points + CORNER_TO_CENTRE_PX).astype(np.float32)
                database.write_keypoints(ids[name], moved)
            count = _write_pairs(library, database, ids, pairs)
        _write_covariances(part, {ids[name]: k for name, k in keypoints.items()})
    return count


def check_ours(path: str | Path) -> None:
    """Raise if `path` is there and is no database that :func:`write_database` wrote.

    >>> import tempfile
    >>> check_ours(Path(tempfile.mkdtemp()) / "new.db")
    """
    if not os.path.lexists(path):
        return
    try:
        with closing(
            sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
        ) as old:
            old.execute(_SELECT).fetchone()
    except sqlite3.Error:
        raise FileError(
            f"{path} would be replaced, but semisure did not write it. Choose another "
            "folder for the output, or move that file."
        ) from None


def _write_images(
    library: Any, database: Any, cameras: Mapping[str, ImageCamera], shared: bool
) -> dict[str, int]:
    """Identities by name; each image is a frame of a rig of one camera."""
    written: dict[ImageCamera, tuple[int, int]] = {}
    ids = {}
    for name, image_camera in cameras.items():
        place = written.get(image_camera) if shared else None
        if place is None:
            place = _write_camera(library, database, image_camera)
            written[image_camera] = place
        camera_id, rig_id = place
        image = library.Image(name=name, camera_id=camera_id)
        image.image_id = database.write_image(image)
        frame = library.Frame(rig_id=rig_id)
        frame.add_data_id(image.data_id)
        database.write_frame(frame)
        ids[name] = image.image_id
    return ids


def _write_camera(library: Any, database: Any, known: ImageCamera) -> tuple[int, int]:
    camera = library.Camera(
        model=known.camera.model,
        width=known.camera.width,
        height=known.camera.height,
        params=list(known.camera.params),
        has_prior_focal_length=known.known,
    )
    camera.camera_id = database.write_camera(camera)
    rig = library.Rig()
    rig.add_ref_sensor(camera.sensor_id)
    return camera.camera_id, database.write_rig(rig)


def _write_pairs(
    library: Any, database: Any, ids: Mapping[str, int], pairs: Iterable[KeypointPair]
) -> int:
    count = 0
    for pair in pairs:
        id0, id1 = ids[pair.image0], ids[pair.image1]
        matches = pair.matches.astype(np.uint32)
        database.write_matches(id0, id1, matches)
        database.write_two_view_geometry(id0, id1, _geometry(library, pair, matches))
        count += 1
    return count


def _geometry(library: Any, pair: KeypointPair, matches: Any) -> Any:
    """COLMAP's record of our model; it finds poses itself when it maps."""
    kinds = library.TwoViewGeometryConfiguration
    geometry = library.TwoViewGeometry()
    geometry.inlier_matches = matches
    geometry.config = kinds.UNCALIBRATED
    if pair.kind is None or pair.model is None:
        return geometry
    back = np.linalg.inv(_TO_COLMAP)
    F = lines_matrix(pair.kind, pair.model, pair.cameras)
    if F is None:
        geometry.config = kinds.PLANAR_OR_PANORAMIC
        geometry.H = _TO_COLMAP @ pair.model @ back
    else:
        geometry.F = back.T @ F @ back
    return geometry


def _write_covariances(path: Path, keypoints: Mapping[int, Keypoints]) -> None:
    rows = [
        (key, len(k), _upper(k.covariance).astype("<f4").tobytes())
        for key, k in keypoints.items()
    ]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(_CREATE)
        connection.executemany(_INSERT, rows)


def _upper(covariance: FloatArray) -> FloatArray:
    """xx, xy, yy."""
    return covariance.reshape(-1, 4)[:, [0, 1, 3]]


def read_covariances(path: str | Path) -> dict[int, FloatArray]:
    """Covariances (k, 2, 2) px² of the keypoints by image identity; ours only."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(_SELECT).fetchall()
    covariances = {}
    for key, data in rows:
        xx, xy, yy = np.frombuffer(data, "<f4").reshape(-1, 3).T.astype(np.float64)
        covariances[key] = np.stack([xx, xy, xy, yy], axis=1).reshape(-1, 2, 2)
    return covariances
