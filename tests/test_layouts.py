"""Lists of pairs, HPatches' exclusions, and MegaDepth's index without its pickles."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semisure.datasets.homographies import (
    HPATCHES_EXCLUDED,
    read_homographies,
    read_sequences,
)
from semisure.datasets.megadepth import read_index, read_megadepth
from semisure.errors import FileError


def test_hpatches_has_540_pairs(tmp_path: Path) -> None:
    kept = [f"i_{k}" for k in range(52)] + [f"v_{k}" for k in range(56)]
    for name in [*kept, *HPATCHES_EXCLUDED]:
        folder = tmp_path / name
        folder.mkdir()
        for k in range(1, 7):
            (folder / f"{k}.ppm").touch()
            if k > 1:
                (folder / f"H_1_{k}").write_text("1 0 0\n0 1 0\n0 0 1\n")
    assert len(read_sequences(tmp_path)) == 540
    assert len(read_sequences(tmp_path, exclude=())) == 580
    assert len(read_homographies(tmp_path)) == 540


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
        ("a.png c.png H.txt", "names .*c.png, which does not exist"),
        ("a.png a.png H.txt", "There is no file .*H.txt"),
        ("a.png a.png 1 0 0 0 1 0 0 0 x", "must hold nine numbers"),
        ("a.png a.png 1 0 0 0 1 0 0 0 nan", "must hold finite numbers"),
        ("# nothing", "names no pair"),
    ],
)
def test_bad_lists_are_one_sentence(tmp_path: Path, line: str, sentence: str) -> None:
    (tmp_path / "a.png").touch()
    (tmp_path / "pairs.txt").write_text(line)
    with pytest.raises(FileError, match=sentence):
        read_homographies(tmp_path)


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"There is no folder .*none"):
        read_homographies(tmp_path / "none")


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


class Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("made-by-a-pickle",)


def test_pickles_that_run_something_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = np.empty(1, dtype=object)
    paths[0] = Evil()
    write_index(tmp_path / "0022.npz", image_paths=paths)
    with pytest.raises(FileError, match=r"asks for (posix|nt)\.mkdir"):
        read_index(tmp_path / "0022.npz")
    assert not (tmp_path / "made-by-a-pickle").exists()


def test_damaged_indexes_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"expected scene_info/\*\.npz"):
        read_megadepth(tmp_path)
    path = tmp_path / "0015.npz"
    with pytest.raises(FileError, match="There is no index"):
        read_index(path)
    path.write_bytes(b"PK nonsense")
    with pytest.raises(FileError, match="is not an index that can be read"):
        read_megadepth(tmp_path)
    np.savez(path, poses=np.zeros(3))
    with pytest.raises(FileError, match="lacks image_paths, intrinsics, pair_infos"):
        read_megadepth(tmp_path)
    write_index(path, poses=np.zeros((2, 3, 3)))
    with pytest.raises(FileError, match=r"has shape \(3, 3\), not \(4, 4\)"):
        read_megadepth(tmp_path)
