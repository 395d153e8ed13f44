"""Sequences in the layout of HPatches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from semisure.datasets.sequences import read_sequences
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
