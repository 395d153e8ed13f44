"""COLMAP's database: cameras, images, keypoints, matches, two-view geometries.

COLMAP uses matches only where a two-view geometry supports them, so that each pair
gets one: our model and the matches that it explains. Keypoints move by half a pixel to
COLMAP's origin, and so do the models. Images are matched upright, while COLMAP takes
the pixels as they are stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from semisure.errors import FileError
from semisure.geometry.camera import CORNER_TO_CENTRE_PX, Camera
from semisure.io.atomic import appearing_whole, check_new
from semisure.io.colmap import pycolmap
from semisure.io.images import focal_px
from semisure.mapping.keypoints import KeypointMatches, KeypointPair
from semisure.pairs.models import lines_matrix
from semisure.types.pair_records import Size

GUESSED_FOCAL = 1.2  # of the longer side, as in COLMAP
# p ↦ p + ½, for models of pixels
_TO_COLMAP = np.array(
    [[1, 0, CORNER_TO_CENTRE_PX], [0, 1, CORNER_TO_CENTRE_PX], [0, 0, 1]]
)


def write_database(
    path: Path,
    matches: KeypointMatches,
    images: Path,
    cameras: Mapping[str, Camera] | None = None,
    *,
    shared_camera: bool = False,
) -> None:
    """Write a new database whole, then rename it.

    Images that `cameras` does not name get the focal length of the EXIF in the folder
    `images`, or a guess. With `shared_camera` images of equal intrinsics have one
    camera in common. A file that exists already is an error.
    """
    check_new(path)
    library = pycolmap("COLMAP's database")
    with (
        appearing_whole(path) as part,
        library.Database.open(str(part)) as database,
    ):
        written: dict[tuple[Camera, bool], tuple[int, int]] = {}
        ids = {}
        for name, size in matches.sizes.items():
            camera = camera_of(name, size, images, cameras or {})
            if not shared_camera or camera not in written:
                written[camera] = _write_camera(library, database, *camera)
            ids[name] = _write_image(library, database, name, *written[camera])
        for name, keypoints in matches.keypoints.items():
            moved = (keypoints.points + CORNER_TO_CENTRE_PX).astype(np.float32)
            database.write_keypoints(ids[name], moved)
        for pair in matches.pairs:
            id0, id1 = (ids[name] for name in pair.pair.names)
            indices = pair.matches.astype(np.uint32)
            database.write_matches(id0, id1, indices)
            geometry = _geometry(library, pair, indices)
            database.write_two_view_geometry(id0, id1, geometry)


def camera_of(
    name: str, size: Size, images: Path, cameras: Mapping[str, Camera]
) -> tuple[Camera, bool]:
    """The camera of an image, and whether its focal length is measured, not guessed.

    >>> camera, is_measured = camera_of("a.jpg", (640, 480), Path("nowhere"), {})
    >>> camera.params, is_measured  # f, cx, cy, k
    ((768.0, 320.0, 240.0, 0.0), False)
    """
    width, height = size
    if name in cameras:
        camera = cameras[name]
        if camera.size != size:
            raise FileError(
                f"The camera of {name} must be for {width} × {height} px, the size at "
                f"which it was matched, but is for {camera.width} × {camera.height} px."
            )
        return camera, True
    try:
        focal, is_measured = focal_px(images / name, size), True
    except FileError:
        focal, is_measured = GUESSED_FOCAL * max(size), False
    params = focal, width / 2, height / 2, 0.0  # one radial term, to be refined
    return Camera("SIMPLE_RADIAL", width, height, params), is_measured


def _write_camera(
    library: Any, database: Any, camera: Camera, is_measured: bool
) -> tuple[int, int]:
    """A camera and a rig of it alone: their identities."""
    written = library.Camera(**asdict(camera), has_prior_focal_length=is_measured)
    written.camera_id = database.write_camera(written)
    rig = library.Rig()
    rig.add_ref_sensor(written.sensor_id)
    return written.camera_id, database.write_rig(rig)


def _write_image(
    library: Any, database: Any, name: str, camera_id: int, rig_id: int
) -> int:
    """An image as a frame of its camera's rig; its identity."""
    image = library.Image(name=name, camera_id=camera_id)
    image.image_id = database.write_image(image)
    frame = library.Frame(rig_id=rig_id)
    frame.add_data_id(image.data_id)
    database.write_frame(frame)
    return int(image.image_id)


def _geometry(library: Any, pair: KeypointPair, matches: Any) -> Any:
    """COLMAP's record of our model; it finds poses itself when it maps."""
    kinds = library.TwoViewGeometryConfiguration
    geometry = library.TwoViewGeometry()
    geometry.inlier_matches = matches
    geometry.config = kinds.UNCALIBRATED
    kind, model = pair.pair.kind, pair.pair.model
    if kind is None or model is None:
        return geometry
    back = np.linalg.inv(_TO_COLMAP)
    F = lines_matrix(kind, model, pair.pair.cameras)
    if F is None:
        geometry.config = kinds.PLANAR_OR_PANORAMIC
        geometry.H = _TO_COLMAP @ model @ back
    else:
        geometry.F = back.T @ F @ back
    return geometry
