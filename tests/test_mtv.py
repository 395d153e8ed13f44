"""MTV from its own download: index, poses and depth to homographies."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench_trees import SHIFT, SHIFT_PX, SIZE, texture, write_mtv
from semisure.bench.options import Options
from semisure.bench.run import of_study
from semisure.bench.study import Study
from semisure.datasets.layouts import find_sets, is_planar, is_posed, read_pairs
from semisure.datasets.mtv import homography_by_depth, is_mtv, read_mtv
from semisure.engine import Engine
from semisure.errors import FileError
from semisure.geometry.homography import corners, project
from semisure.io.images import write_png

h5py = pytest.importorskip("h5py", reason="needs the extra store")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two scenes of a pair each, in a folder whose name says nothing."""
    for k, scene in enumerate(("Racing", "jinxia")):
        write_mtv(tmp_path / "download", scene, k)
    return tmp_path / "download"


def test_pairs_are_the_test_pairs_visible_image_first(root: Path) -> None:
    first, second = read_mtv(root)
    assert first.name == "Racing_test_0_1"
    assert (first.scene, second.scene) == ("Racing", "jinxia")
    assert first.camera0.image == root / "Racing" / "images" / "9h00001.png"
    assert first.camera1.image.name == "DJI_0001_T.png"
    assert first.camera1.depth is None  # the index names another camera's
    # COLMAP counts from the pixel's corner, we from its centre.
    assert first.camera0.K[0, 2] == SIZE[0] / 2 - 0.5


def test_the_homography_of_a_wall_by_hand(root: Path) -> None:
    # Its authors' readme has scenes renamed.
    (root / "jinxia").rename(root / "building")
    renamed = next(pair for pair in read_mtv(root) if pair.scene == "jinxia")
    assert renamed.camera0.image == root / "building" / "images" / "9h00001.png"
    # 4 m away, 0.25 m to the side, 80 px of focal length: everything moves by 5 px.
    np.testing.assert_allclose(homography_by_depth(renamed), SHIFT, atol=1e-9)


def test_what_stands_on_the_ground_hardly_moves_its_homography(root: Path) -> None:
    depth = root / "Racing" / "depths" / "9h00001.JPG.h5"
    with h5py.File(depth, "r+") as file:
        file["depth"][:60, :80] = 3.0  # a sixteenth of the image, by a quarter nearer
        file["depth"][200:, :] = 0.0  # unknown
    H = homography_by_depth(read_mtv(root)[0])
    # What is nearer moves by 1.7 px more; the plane beside it by a tenth of that.
    places = corners(SIZE)
    moved = project(H, places) - places - np.array([SHIFT_PX, 0.0])
    assert np.abs(moved).max() < 0.2


def test_the_layout_is_recognised_by_its_files(root: Path, tmp_path: Path) -> None:
    assert is_mtv(root)
    assert is_planar(root)
    assert not is_posed(root)
    assert find_sets(tmp_path) == [root]
    assert len(read_pairs(root)) == 2
    assert Options(data=[root]).size_of(root) == (960, 640)


def test_missing_files_are_one_sentence_each(
    root: Path, pool: Engine, tmp_path: Path
) -> None:
    pair = read_mtv(root)[0]
    lost = replace(pair.camera0, depth=root / "nowhere.h5")
    with pytest.raises(FileError, match=r"no depth of .*9h00001\.png: expected .*now"):
        homography_by_depth(replace(pair, camera0=lost))
    with pytest.raises(FileError, match="There is no index of MTV"):
        read_mtv(tmp_path)
    index = root / "Racing" / "Racing_test.npz"
    index.write_bytes(pickle.dumps({"poses": []}))
    with pytest.raises(FileError, match=r"Racing_test\.npz lacks image_paths, in"):
        read_mtv(root)
    index.unlink()
    (root / "jinxia" / "depths" / "9h00001.JPG.h5").unlink()
    study = Study(Options(data=[root], size=(160, 120), cache=tmp_path / "c"), pool)
    with pytest.raises(FileError, match=r"1 of 1 pairs cannot .*no depth of .*9h00001"):
        of_study("homography", study)


def test_table_1_from_the_download(root: Path, pool: Engine, tmp_path: Path) -> None:
    study = Study(Options(data=[root], size=(160, 120), cache=tmp_path / "c"), pool)
    outcome = of_study("homography", study)
    assert outcome.tables[0].name == "homography_mtv"
    assert all(row["core"] < 1.0 for row in outcome.rows)
    kept = len(list((tmp_path / "c" / "rows").iterdir()))
    # An image that cannot be read is left out; homographies are not computed again.
    write_png(root / "Racing" / "images" / "unused.png", texture(9).astype(np.uint8))
    assert len(of_study("homography", study).rows) == 2
    assert len(list((tmp_path / "c" / "rows").iterdir())) == kept
