"""Maps to localise in: one NPZ file with truth, and Aachen v1.1 in hloc's layout."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from map_files import write_map
from semisure.datasets.queries import (
    AACHEN_MODEL,
    MAP_NAME,
    NETVLAD,
    is_aachen,
    is_located,
    read_aachen,
    read_located,
    read_located_map,
    read_map,
)
from semisure.errors import FileError
from semisure.geometry import pose as se3
from semisure.geometry.camera import CORNER_TO_CENTRE_PX
from semisure.io.colmap import MapImage, MapModel, RawCamera
from semisure.io.images import write_png
from semisure.types import Array, FloatArray
from two_planes import CAMERA, SIZE, K, posed, render

# Mapped cameras a and b stand at the query's, c and d about a metre away.
MAPPED = {
    "a.png": posed(0, 0.01, 0, -0.1, 0, 0),
    "b.png": posed(0, -0.02, 0, 0.15, 0.05, 0),
    "c.png": posed(0, 0.05, 0, -0.8, 0, 0.1),
    "d.png": posed(0.02, -0.05, 0.01, 0.9, 0, 0),
}
QUERY = posed(0.01, 0, 0.02, 0.02, 0.01, 0.0)


class Landmarks:
    """Points on a grid of every mapped image, and who else sees them."""

    def __init__(self) -> None:
        x, y = np.meshgrid(np.arange(12, SIZE[0], 16), np.arange(10, SIZE[1], 16))
        pixels = np.column_stack([x.ravel(), y.ravel(), np.ones(x.size)])
        depths = {name: render(pose)[1] for name, pose in MAPPED.items()}
        parts = []
        for name, pose in MAPPED.items():
            z = depths[name][pixels[:, 1].astype(int), pixels[:, 0].astype(int)]
            local = z[:, None] * (pixels @ np.linalg.inv(K).T)
            parts.append((local - pose[:, 3]) @ pose[:, :3])
        self.world = np.concatenate(parts)
        self.seen: dict[str, tuple[FloatArray, Array]] = {}
        for name, pose in MAPPED.items():
            place = se3.project(pose, CAMERA, self.world)
            z = se3.to_camera(pose, self.world)[:, 2]
            inside = ((place > 0) & (place < np.array(SIZE) - 1)).all(axis=1)
            near = np.where(inside[:, None], place, 0).round().astype(int)
            free = np.abs(depths[name][near[:, 1], near[:, 0]] - z) < 0.1
            ids = np.flatnonzero(inside & free)
            self.seen[name] = place[ids], ids


LANDMARKS = Landmarks()


def write_located(root: Path, **changed: Array | None) -> Path:
    """Four mapped images and a query, the last."""
    poses = {**MAPPED, "q.png": QUERY}
    for name, pose in poses.items():
        write_png(root / "images" / name, render(pose)[0])
    seen = LANDMARKS.seen.values()
    arrays: dict[str, Array | None] = {
        "names": np.array(list(poses)),
        "K": np.array([K] * 5),
        "R": np.array([pose[:, :3] for pose in poses.values()]),
        "t": np.array([pose[:, 3] for pose in poses.values()]),
        "query": np.array([4]),
        "points": LANDMARKS.world,
        "obs_image": np.repeat(np.arange(4), [len(ids) for _, ids in seen]),
        "obs_point": np.concatenate([ids for _, ids in seen]),
        "obs_xy": np.concatenate([xy for xy, _ in seen]),
        **changed,
    }
    kept = {name: array for name, array in arrays.items() if array is not None}
    np.savez(root / MAP_NAME, **kept)
    return root


def aachen_map() -> MapModel:
    """The landmarks as COLMAP has them; images are below ``db/``."""
    f, cx, cy = K[0, 0], K[0, 2] + CORNER_TO_CENTRE_PX, K[1, 2] + CORNER_TO_CENTRE_PX
    images = {
        f"db/{name}": MapImage(f"db/{name}", 1, pose, *LANDMARKS.seen[name])
        for name, pose in MAPPED.items()
    }
    camera = RawCamera("SIMPLE_RADIAL", *SIZE, (f, cx, cy, 0.0))
    count = len(LANDMARKS.world)
    errors = np.full(count, 0.3)
    return MapModel({1: camera}, images, np.arange(count), LANDMARKS.world, errors)


def write_aachen(root: Path, images: str = "images_upright") -> Path:
    """A day query that is seen, one of nothing, and two by night without retrieval."""
    for name, pose in MAPPED.items():
        write_png(root / images / "db" / name, render(pose)[0])
    write_png(root / images / "query/day/q.png", render(QUERY)[0])
    blank = np.full((SIZE[1], SIZE[0]), 128, np.uint8)
    write_png(root / images / "query/day/blank.png", blank)
    f, cx, cy = K[0, 0], K[0, 2] + CORNER_TO_CENTRE_PX, K[1, 2] + CORNER_TO_CENTRE_PX
    camera = f"SIMPLE_RADIAL {SIZE[0]} {SIZE[1]} {f} {cx} {cy} 0.0\n"
    (root / "queries").mkdir()
    for when, names in (("day", ("q", "blank")), ("night", ("n", "m"))):
        lines = [f"query/{when}/{name}.png {camera}" for name in names]
        path = root / "queries" / f"{when}_time_queries_with_intrinsics.txt"
        path.write_text("".join(lines))
    (root / "pairs").mkdir()
    (root / "pairs" / NETVLAD).write_text(
        "query/day/q.png db/gone.png\nquery/day/q.png db/a.png\n"
        "query/day/q.png db/c.png\nquery/day/blank.png db/b.png\n"
        "query/night/m.png db/gone.png\n"
    )
    write_map(aachen_map(), root / AACHEN_MODEL)
    return root


# -- one NPZ file


def test_queries_with_their_retrieval(tmp_path: Path) -> None:
    root = write_located(tmp_path / "place")
    assert is_located(root)
    near, far = read_located(root)
    assert (near.name, near.condition, far.condition) == ("q.png", "near", "far")
    # Centres 0.12 and 0.14 m away with 0.02 to 0.03 rad; then 0.83 and 0.88 m.
    assert near.mapped == ("a.png", "b.png", "c.png", "d.png")
    assert far.mapped == ("c.png", "d.png")
    assert near.camera.size == SIZE
    assert near.truth is not None
    np.testing.assert_allclose(near.truth, QUERY)


def test_the_map_and_its_errors(tmp_path: Path) -> None:
    xy = np.concatenate([place for place, _ in LANDMARKS.seen.values()])
    root = write_located(tmp_path / "place", obs_xy=xy + np.array([3.0, 4.0]))
    model = read_located_map(root)
    points, world, error = model.observations("c.png")
    assert len(points) == len(LANDMARKS.seen["c.png"][1])
    place = se3.project(MAPPED["c.png"], CAMERA, world)
    np.testing.assert_allclose(points - place, [[3.0, 4.0]] * len(points), atol=1e-9)
    np.testing.assert_allclose(error, 5.0)  # √(3² + 4²) everywhere
    assert len(model.observations("q.png")[0]) == 0  # the query maps nothing


def test_missing_files_of_a_map_are_named(tmp_path: Path) -> None:
    root = write_located(tmp_path / "place")
    (root / "images" / "q.png").unlink()
    with pytest.raises(FileError, match=r"q\.png"):
        read_located(root)
    lacking = write_located(tmp_path / "lacking", points=None)
    with pytest.raises(FileError, match="lacks points"):
        read_located_map(lacking)
    (root / MAP_NAME).write_bytes(b"PK")
    with pytest.raises(FileError, match=rf"{MAP_NAME} cannot be read"):
        read_located(root)
    (root / MAP_NAME).unlink()
    assert not is_located(root)
    with pytest.raises(FileError, match=rf"no file .*{MAP_NAME}"):
        read_located_map(root)


# -- Aachen


def test_aachen_is_read(tmp_path: Path) -> None:
    images = "images/images_upright"  # hloc's place; other tests have the plain one
    root = write_aachen(tmp_path / "aachen", images)
    assert is_aachen(root)
    queries = read_aachen(root)
    assert [(q.name, q.condition, len(q.mapped)) for q in queries] == [
        ("query/day/q.png", "day", 3),
        ("query/day/blank.png", "day", 1),
        ("query/night/n.png", "night", 0),
        ("query/night/m.png", "night", 1),
    ]
    assert queries[0].image == root / images / "query/day/q.png"
    assert queries[0].mapped == ("db/gone.png", "db/a.png", "db/c.png")
    assert queries[0].camera.params == (300.0, 160.0, 120.0, 0.0)
    assert queries[0].truth is None
    model = read_map(root / AACHEN_MODEL)
    assert set(model.images) == {f"db/{name}" for name in MAPPED}
    points, world, _ = model.observations("db/a.png")
    np.testing.assert_allclose(
        se3.project(MAPPED["a.png"], CAMERA, world), points, atol=1e-6
    )


def test_the_retrieval_is_found_below_its_folder(tmp_path: Path) -> None:
    root = write_aachen(tmp_path / "aachen")
    hlocs = root / "pairs" / "aachen_v1.1"
    hlocs.mkdir()
    (root / "pairs" / NETVLAD).rename(hlocs / NETVLAD)
    assert len(read_aachen(root)[0].mapped) == 3


def test_missing_files_of_aachen_are_named(tmp_path: Path) -> None:
    root = write_aachen(tmp_path / "aachen")
    (root / AACHEN_MODEL / "points3D.bin").unlink()
    with pytest.raises(FileError, match=r"lacks points3D\.bin"):
        read_map(root / AACHEN_MODEL)
    (root / "images_upright").rename(tmp_path / "elsewhere")
    with pytest.raises(FileError, match=r"expected .*images_upright"):
        read_aachen(root)
