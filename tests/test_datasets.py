"""Sequences in the layout of HPatches, and depth between the pixels of a map."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from semisure.datasets.homographies import read_sequences
from semisure.datasets.posed import depth_between
from semisure.errors import FileError


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("v_b", "i_a"):
        folder = tmp_path / name
        folder.mkdir()
        for k in (1, 2, 3):
            (folder / f"{k}.ppm").write_bytes(b"")
        for k in (2, 3):
            np.savetxt(folder / f"H_1_{k}", k * np.eye(3))
    return tmp_path


def test_pairs_come_in_a_fixed_order(tree: Path) -> None:
    pairs = read_sequences(tree)
    assert [pair.name for pair in pairs] == ["i_a_2", "i_a_3", "v_b_2", "v_b_3"]
    assert pairs[1].H_01 is not None
    assert pairs[1].H_01[0, 0] == 3
    assert pairs[0].image0.name == "1.ppm"


def test_what_is_missing_is_named(tree: Path, tmp_path: Path) -> None:
    (tree / "i_a" / "3.ppm").unlink()
    with pytest.raises(FileError, match=r"i_a lacks the image 3\.\*"):
        read_sequences(tree)
    (tree / "i_a" / "H_1_3").write_text("1 2 3")
    (tree / "i_a" / "3.ppm").write_bytes(b"")
    with pytest.raises(FileError, match=r"H_1_3 must hold 3 × 3"):
        read_sequences(tree)
    (tree / "i_a" / "H_1_3").write_text("one two")
    with pytest.raises(FileError, match="is not a 3 × 3 text file"):
        read_sequences(tree)
    with pytest.raises(FileError, match="There is no sequence in"):
        read_sequences(tmp_path / "none")


# -- depth between pixels


def slanted(x, y):
    """Depth of the plane X + 2 Y + 3 Z = 12 seen by a camera of K = diag(100, 100, 1).

    The ray (x / 100, y / 100, 1) meets it at Z = 12 / (x / 100 + 2 y / 100 + 3).
    """
    return 12.0 / (x / 100 + 2 * y / 100 + 3)


def slanted_map():
    x, y = np.meshgrid(np.arange(64.0), np.arange(48.0))
    return slanted(x, y)


def test_depth_of_a_slanted_plane_is_exact_between_pixels() -> None:
    points = np.random.default_rng(0).uniform(0, [63, 47], (200, 2))
    depth = depth_between(slanted_map(), points)
    np.testing.assert_allclose(depth, slanted(*points.T), rtol=1e-12)
    nearest = slanted_map()[tuple(np.rint(points).astype(int).T[::-1])]
    assert np.abs(nearest / depth - 1).max() > 3e-3  # what was taken before


def test_depth_at_a_pixel_is_that_of_the_pixel() -> None:
    values = np.random.default_rng(0).uniform(1, 9, (4, 5))
    x, y = np.meshgrid(np.arange(5.0), np.arange(4.0))
    points = np.column_stack([x.ravel(), y.ravel()])
    np.testing.assert_allclose(
        depth_between(values, points), values.ravel(), rtol=1e-15
    )


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
