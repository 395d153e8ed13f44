"""Readers of data sets: sequences, lists, MegaDepth's index, depth between pixels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semisure.datasets.homographies import (
    HPATCHES_EXCLUDED,
    read_homographies,
    read_sequences,
)
from semisure.datasets.megadepth import read_megadepth
from semisure.datasets.posed import depth_between
from semisure.errors import FileError


def test_hpatches_has_540_pairs_in_a_fixed_order(tmp_path: Path) -> None:
    kept = [f"v_{k}" for k in range(56)] + [f"i_{k}" for k in range(52)]
    for name in [*kept, *HPATCHES_EXCLUDED]:
        folder = tmp_path / name
        folder.mkdir()
        for k in range(1, 7):
            (folder / f"{k}.ppm").touch()
            if k > 1:
                (folder / f"H_1_{k}").write_text(f"{k} 0 0\n0 1 0\n0 0 1\n")
    pairs = read_homographies(tmp_path)
    assert len(pairs) == 540
    assert [pair.name for pair in pairs[:2]] == ["i_0_2", "i_0_3"]
    assert pairs[1].H_01[0, 0] == 3
    assert pairs[0].image0.name == "1.ppm"


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "i_a"
    folder.mkdir()
    (folder / "1.ppm").touch()
    np.savetxt(folder / "H_1_3", np.eye(3))
    with pytest.raises(FileError, match=r"i_a lacks the image 3\.\*"):
        read_sequences(tmp_path)
    (folder / "3.ppm").touch()
    for text, sentence in (("1 2 3", "reshape"), ("one two", "could not convert")):
        (folder / "H_1_3").write_text(text)
        with pytest.raises(FileError, match=rf"H_1_3 must hold 3 × 3 .*{sentence}"):
            read_sequences(tmp_path)
    with pytest.raises(FileError, match=r"There is no folder .*none"):
        read_homographies(tmp_path / "none")


def test_list_of_pairs(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        (tmp_path / name).touch()
    np.savetxt(tmp_path / "H.txt", 2 * np.eye(3))
    (tmp_path / "pairs.txt").write_text(
        "# two pairs\na.png b.png 1 0 5 0 1 0 0 0 1\n\nb.png a.png H.txt # by file\n"
    )
    first, second = read_homographies(tmp_path)
    assert first.H_01 is not None
    assert first.H_01[0, 2] == 5
    assert second.H_01 is not None
    assert second.H_01[0, 0] == 2
    assert (first.name, second.image0.name) == ("0002_a_b", "b.png")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("a.png", "line 1 of .* must hold two images"),
        ("a.png a.png H.txt", "There is no file .*H.txt"),
        ("a.png a.png 1 0 0 0 1 0 0 0 x", "must hold 3 × 3 numbers"),
        ("# nothing", "names no pair"),
    ],
)
def test_bad_lists_are_one_sentence(tmp_path: Path, line: str, sentence: str) -> None:
    (tmp_path / "a.png").touch()
    (tmp_path / "pairs.txt").write_text(line)
    with pytest.raises(FileError, match=sentence):
        read_homographies(tmp_path)


# -- MegaDepth


def write_index(path: Path, **changed: Any) -> None:
    infos = np.empty(1, dtype=object)
    infos[0] = ((0, 1), 0.3, np.array([1, 2]))
    pose = np.eye(4)
    pose[:3, 3] = [1, 2, 3]
    arrays = {
        "image_paths": np.array(["a/0.jpg", "a/1.jpg"], dtype=object),
        "intrinsics": np.array([np.diag([500.0, 500, 1])] * 2),
        "poses": np.array([np.eye(4), pose]),
        "pair_infos": infos,
        **changed,
    }
    np.savez(path, **arrays)


def test_megadepth_index_with_pickled_arrays(tmp_path: Path) -> None:
    (tmp_path / "scene_info").mkdir()
    write_index(tmp_path / "scene_info" / "0015_0.1_0.3.npz")
    (pair,) = read_megadepth(tmp_path)
    assert pair.name == "0015_0.1_0.3_0_1"
    assert pair.camera1.image == tmp_path / "a" / "1.jpg"
    np.testing.assert_allclose(pair.P_01[:, 3], [1, 2, 3])
    # COLMAP counts from the pixel's corner, we from its centre.
    np.testing.assert_allclose(pair.camera0.K[:2, 2], [-0.5, -0.5])


def test_damaged_indexes_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"expected scene_info/\*\.npz"):
        read_megadepth(tmp_path)
    path = tmp_path / "scene_info" / "0015.npz"
    path.parent.mkdir()
    path.write_bytes(b"PK nonsense")
    with pytest.raises(FileError, match="is not an index that can be read"):
        read_megadepth(tmp_path)
    np.savez(path, poses=np.zeros(3))
    with pytest.raises(FileError, match="lacks image_paths, intrinsics, pair_infos"):
        read_megadepth(tmp_path)
    write_index(path, poses=np.zeros((2, 3, 3)))
    with pytest.raises(FileError, match=r"has shape \(3, 3\), not \(4, 4\)"):
        read_megadepth(tmp_path)


# -- depth between pixels


def slanted(x, y):
    """Depth of the plane X + 2 Y + 3 Z = 12 seen by a camera of K = diag(100, 100, 1).

    The ray (x / 100, y / 100, 1) meets it at Z = 12 / (x / 100 + 2 y / 100 + 3).
    """
    return 12.0 / (x / 100 + 2 * y / 100 + 3)


def test_depth_of_a_slanted_plane_is_exact_between_pixels() -> None:
    values = slanted(*np.meshgrid(np.arange(64.0), np.arange(48.0)))
    points = np.random.default_rng(0).uniform(0, [63, 47], (200, 2))
    depth = depth_between(values, points)
    np.testing.assert_allclose(depth, slanted(*points.T), rtol=1e-12)


def test_depth_is_not_blended_across_an_edge() -> None:
    values = np.array([[2.0, 2.0, 8.0], [2.0, 2.0, 8.0]])
    points = np.array([[1.2, 0.5], [1.45, 0.1], [1.55, 0.1], [1.9, 0.9]])
    np.testing.assert_array_equal(depth_between(values, points), [2.0, 2.0, 8.0, 8.0])


def test_unknown_neighbours_do_not_count_and_an_unknown_nearest_says_so() -> None:
    values = np.array([[4.0, 0.0], [4.04, np.nan]])
    points = np.array([[0.4, 0.5], [0.6, 0.5], [0.0, 0.25]])
    depth = depth_between(values, points)
    # Half of each left neighbour's inverse depth, the right ones being unknown.
    assert depth[0] == pytest.approx(2 / (1 / 4 + 1 / 4.04))
    assert np.isnan(depth[1])
    assert depth[2] == pytest.approx(1 / (0.75 / 4 + 0.25 / 4.04))


def test_the_outermost_half_pixel_has_the_depth_of_the_border() -> None:
    values = np.array([[4.0, 5.0]])
    points = np.array([[-0.4, 0.4], [1.4, -0.4], [-0.6, 0.0], [1.6, 0.0], [0.0, 0.6]])
    expected = [4.0, 5.0, np.nan, np.nan, np.nan]
    np.testing.assert_array_equal(depth_between(values, points), expected)
