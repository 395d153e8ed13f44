"""Files: round trips, damage named in one sentence, nothing written half."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from semisure.errors import FileError
from semisure.io.atomic import appearing_whole
from semisure.io.files import (
    calibration_document,
    load_arrays,
    load_calibration,
    load_matches,
    save_calibration,
    save_matches,
)
from semisure.law.fit_law import fit
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
from semisure.types import Calibration, Matches

HEADER = b"x0,y0,x1,y1,confidence,fine_std_x,fine_std_y,coarse_std_x,coarse_std_y\n"


def refused(path: Path, content: bytes, read=load_matches) -> str:
    path.write_bytes(content)
    with pytest.raises(FileError) as refusal:
        read(path)
    assert str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


# ---- calibrations --------------------------------------------------------------------


def test_calibration_survives_its_file(tmp_path: Path) -> None:
    pairs = [SyntheticMatcher().match(np.eye(3), count=400, seed=i) for i in range(3)]
    calibration, report = fit(
        pairs, location=True, matcher="loftr", resolution=(1280, 960),
        provenance={"data": "synthetic"},
    )  # fmt: skip
    path = tmp_path / "theta.json"
    save_calibration(calibration, path, report)
    assert load_calibration(path) == calibration
    document = json.loads(path.read_text())
    assert document["schema_version"] == 1
    assert document["matcher"] == "loftr"
    assert document["fit"]["matches"] == 1200
    symbols = document["paper_symbols"]
    assert [*symbols] == ["a_x", "a_y", "b_x", "b_y", "k_s", "k_m", "t_x", "t_y", "t_m"]
    again = Calibration.from_paper(**symbols)
    assert again.intercept == pytest.approx(calibration.intercept)


SOUND = calibration_document(EXAMPLE_CALIBRATION)
NEGATIVE = {**SOUND["parameters"], "fine_var_gain": [1, -1]}


@pytest.mark.parametrize(
    ("entry", "value", "words"),
    [
        ("format", "loftr", "is not a semisure calibration"),
        ("schema_version", 99, "has schema version 99, but"),
        ("parameters", {}, "damaged: the entry 'coarse_var_gain' is missing"),
        ("parameters", NEGATIVE, "damaged: fine_var_gain must be positive"),
        ("law", "cauchy", "damaged: law must be one of"),
        ("pairs", {"a": 1}, "damaged"),
    ],
)
def test_calibrations_of_nonsense(tmp_path: Path, entry, value, words: str) -> None:
    text = json.dumps({**SOUND, entry: value}).encode()
    assert words in refused(tmp_path / "theta.json", text, load_calibration)


def test_what_is_no_calibration_file_is_one_sentence(tmp_path: Path) -> None:
    for text in (b"not json {", b"\xff\xfe", b"[" * 100_000):
        told = refused(tmp_path / "theta.json", text, load_calibration)
        assert "is not a readable calibration" in told
    with pytest.raises(FileError, match="There is no calibration file"):
        load_calibration(tmp_path / "none.json")
    with pytest.raises(FileError, match="it is a folder"):
        load_calibration(tmp_path)


# ---- matches -------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_matches_survive_their_file(
    suffix: str, tmp_path: Path, planted: tuple[Matches, np.ndarray]
) -> None:
    matches, residual = planted
    path = tmp_path / f"pair{suffix}"
    save_matches(matches, path)  # without cells, as most matchers
    assert load_matches(path).cell is None
    cell = np.arange(6.0 * len(matches)).reshape(-1, 2, 3)
    cell += np.array([[9.0, 0, 0], [0, 0, 0]])
    matches = replace(matches, cell=cell)
    save_matches(matches, path, residual=residual, weight=np.ones(len(matches)))
    back = load_matches(path)
    digits = 0.0 if suffix == ".npz" else 1e-8  # a table is for people, too
    for name in ("source", "target", "confidence", "fine_std", "side", "cell"):
        mine, stored = getattr(matches, name), getattr(back, name)
        np.testing.assert_allclose(stored, mine, rtol=digits, atol=0, err_msg=name)
    assert back.target_size == matches.target_size
    np.testing.assert_allclose(load_arrays(path)["residual"], residual, rtol=digits)
    save_matches(matches.take(slice(0)), path, weight=np.zeros(0))
    assert len(load_matches(path, size=(640, 480))) == 0


def test_csv_without_sizes_asks_for_them(tmp_path: Path) -> None:
    path = tmp_path / "pair.csv"
    told = refused(path, HEADER + b"1,2,3,4,0.5,1,1,9,9\n")
    assert "does not hold the image sizes" in told
    assert len(load_matches(path, size=(640, 480))) == 1
    path.write_bytes(HEADER)
    assert len(load_matches(path, size=(640, 480))) == 0


def test_other_names_are_no_files_of_matches(tmp_path: Path, matches: Matches) -> None:
    with pytest.raises(FileError, match="There is no file"):
        load_matches(tmp_path / "none.npz")
    with pytest.raises(FileError, match=r"read from .npz or .csv"):
        load_matches(tmp_path / "pair.txt")
    with pytest.raises(FileError, match=r"written to .npz or .csv"):
        save_matches(matches, tmp_path / "pair.txt")


def npz(**arrays: object) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def shapeless() -> bytes:
    """An archive of one array whose header promises 8 TB."""
    shape = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,)}"
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        size = len(shape).to_bytes(4, "little")
        archive.writestr("source.npy", b"\x93NUMPY\x02\x00" + size + shape + bytes(16))
    return file.getvalue()


PICKLE = np.array([{"a": 1}], dtype=object)
NONSENSE = [
    (".csv", b"x0,y0\n1,2\n", "lacks x1, y1; confidence; fine_std_x"),
    (".csv", HEADER + b"1,2,3\n", "one number per column"),
    (".csv", HEADER + b"1,2,3,4,0.5,1,1,9,oops\n", "cannot be read"),
    (".csv", b"x0,y0\n1,\xff\n", "cannot be read"),
    (".npz", b"PK\x03\x04 truncated", "cannot be read"),
    (".npz", npz(source=np.zeros((1, 2))), "lacks target; confidence"),
    (".npz", npz(source=PICKLE), "Object arrays cannot be loaded"),  # never executed
    (".npz", shapeless(), "cannot be read"),
]


@pytest.mark.parametrize(("suffix", "content", "words"), NONSENSE)
def test_matches_of_nonsense(tmp_path, suffix: str, content: bytes, words: str) -> None:
    assert words in refused(tmp_path / f"a{suffix}", content)


# ---- writing -------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_file_and_no_debris(tmp_path: Path) -> None:
    path = tmp_path / "theta.json"
    path.write_text("old")

    def fail() -> None:
        with appearing_whole(path) as part:
            part.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
