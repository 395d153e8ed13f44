"""COLMAP models and hloc's lists: written by hand, by COLMAP, and damaged."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from map_files import write_map
from semisure.errors import FileError, InputError
from semisure.io import hloc
from semisure.io.colmap import read_model

pycolmap = pytest.importorskip("pycolmap", reason="needs the extra pose")

TEXTS = {
    "cameras": "# Camera list with one line of data per camera:\n"
    "# Number of cameras: 2\n"
    "7 SIMPLE_RADIAL 640 480 500 320 240 0.1\n9 FOV 10 10 1 1 1 1 1\n",
    "images": "# Number of images: 2, mean observations per image: 1\n"
    "1 1 0 0 0 0.5 -1 2 7 db/one.jpg\n10.5 20.5 3 30.5 40.5 -1 50.5 60.5 5\n"
    "2 0 1 0 0 0 0 1 7 db/two.jpg\n\n",
    "points3D": "# Number of points: 2, mean track length: 1\n"
    "5 1 2 3 255 0 0 0.5 1 2\n3 -1 -2 -3 0 0 0 1.5 1 0\n",
}


def write_texts(folder: Path, **changed: str) -> Path:
    for name, text in {**TEXTS, **changed}.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


@pytest.fixture
def binary_model(tmp_path: Path) -> Path:
    """The same model as bytes."""
    return write_map(read_model(write_texts(tmp_path)), tmp_path / "bin")


def test_a_model_is_read(tmp_path: Path) -> None:
    model = read_model(write_texts(tmp_path))
    assert model.cameras[7].camera().params == (500.0, 320.0, 240.0, 0.1)
    assert model.cameras[9].model == "FOV"  # read, though it cannot be computed with
    image = model.images["db/one.jpg"]
    assert np.array_equal(image.pose, np.column_stack([np.eye(3), [0.5, -1, 2]]))
    seen, world, error = model.observations("db/one.jpg")
    # COLMAP's 10.5 is the centre of our pixel 10; the untriangulated one is left out.
    assert seen.tolist() == [[10.0, 20.0], [50.0, 60.0]]
    assert world.tolist() == [[-1.0, -2.0, -3.0], [1.0, 2.0, 3.0]]
    assert error.tolist() == [1.5, 1.0]  # none below the median of 0.5 and 1.5
    assert len(model.observations("db/two.jpg")[0]) == 0


def test_what_a_map_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no image 'db/three.jpg', but 2 others"):
        read_model(write_texts(tmp_path)).observations("db/three.jpg")
    with pytest.raises(FileError, match=r"it lacks cameras\.txt"):
        read_model(tmp_path / "elsewhere")


@pytest.mark.parametrize("name", ["cameras", "images", "points3D"])
def test_truncated_files_are_named(binary_model: Path, name: str) -> None:
    path = binary_model / f"{name}.bin"
    data = path.read_bytes()
    for share in (0.9, 0.1):
        path.write_bytes(data[: int(share * len(data))])
        with pytest.raises(FileError, match=rf"{name}\.bin is damaged or truncated"):
            read_model(binary_model)


def test_an_unknown_camera_is_named(binary_model: Path) -> None:
    data = struct.pack("<QiiQQ4d", 1, 7, 99, 640, 480, 500, 320, 240, 0.1)
    (binary_model / "cameras.bin").write_bytes(data)
    with pytest.raises(FileError, match="unknown model 99"):
        read_model(binary_model)


def test_colmaps_own_files_are_read_as_colmap_reads_them(tmp_path: Path) -> None:
    theirs = pycolmap.synthesize_dataset(pycolmap.SyntheticDatasetOptions())
    for write in (theirs.write_text, theirs.write_binary):
        folder = tmp_path / write.__name__
        folder.mkdir()
        write(folder)
        ours = read_model(folder)
        assert len(ours.images) == len(theirs.images)
        for image in theirs.images.values():
            mine = ours.images[image.name]
            assert np.allclose(mine.pose, image.cam_from_world().matrix())
            seen = [p for p in image.points2D if p.has_point3D()]
            points, world, _ = ours.observations(image.name)
            assert np.allclose(points, np.array([p.xy for p in seen]) - 0.5)
            expected = [theirs.points3D[p.point3D_id].xyz for p in seen]
            assert np.allclose(world, expected)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("points3D", "5 1 2 3", f"{2**63} 1 2 3"),
        ("images", "10.5 20.5 3", "10.5 nan 3"),
        ("images", "1 1 0 0 0", "1 0 0 0 0"),
        ("images", "-1 2 7 db/one", "-1 2 8 db/one"),
        ("images", "10.5 20.5 3", "10.5 20.5 4"),
    ],
)
def test_nonsense_in_a_text_is_one_sentence(tmp_path, name, old, new) -> None:
    text = TEXTS[name].replace(old, new)
    assert text != TEXTS[name]
    with pytest.raises(FileError, match=r"damaged or truncated|: [A-Z].*\.$"):
        read_model(write_texts(tmp_path, **{name: text}))


# -- hloc's lists


def test_queries_and_pairs(tmp_path: Path) -> None:
    (tmp_path / "q.txt").write_text(
        "query/night/1.jpg SIMPLE_RADIAL 1600 1200 1469.2 800 600 -0.0353\n\n"
        "query/2.jpg PINHOLE 640 480 500 501 320 240\n"
    )
    queries = hloc.read_queries(tmp_path / "q.txt")
    assert queries["query/night/1.jpg"].params == (1469.2, 800.0, 600.0, -0.0353)
    assert queries["query/2.jpg"].size == (640, 480)
    (tmp_path / "p.txt").write_text("q/1 db/b\nq/1 db/a\nq/2 db/c\nq/1 db/b\n")
    assert hloc.read_retrieval(tmp_path / "p.txt") == {
        "q/1": ["db/b", "db/a"],
        "q/2": ["db/c"],
    }


@pytest.mark.parametrize(
    ("read", "line", "message"),
    [
        (hloc.read_queries, "a.jpg PINHOLE 640", "expected MODEL WIDTH HEIGHT"),
        (hloc.read_queries, "a PINHOLE 640 480 1 2 3", "A PINHOLE camera has 4 finite"),
        (hloc.read_retrieval, "alone", "expected a query and a mapped image"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, read, line: str, message: str) -> None:
    (tmp_path / "list.txt").write_text(line)
    with pytest.raises(FileError, match=f"line 1: {message}"):
        read(tmp_path / "list.txt")
