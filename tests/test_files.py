"""Files: round trips, damage named in one sentence, nothing written half."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from semisure.errors import FileError
from semisure.io.atomic import appearing_whole
from semisure.io.files import (
    load_arrays,
    load_calibration,
    load_matches,
    save_calibration,
    save_matches,
)
from semisure.law.fit_law import fit
from semisure.synthetic import SyntheticMatcher
from semisure.types import Calibration, Matches


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
    assert list(symbols) == [
        "a_x",
        "a_y",
        "b_x",
        "b_y",
        "k_s",
        "k_m",
        "t_x",
        "t_y",
        "t_m",
    ]
    again = Calibration.from_paper(**symbols)
    assert again.intercept == pytest.approx(calibration.intercept)


def test_empty_stratum_is_null_in_json(tmp_path: Path) -> None:
    matches, _ = SyntheticMatcher().match(np.eye(3), count=100, seed=0)
    calibration, report = fit([(matches, np.full((100, 2), 0.3))], law="fine_only")
    save_calibration(calibration, tmp_path / "theta.json", report)
    document = json.loads((tmp_path / "theta.json").read_text())
    assert document["fit"]["nll_by_stratum"][">64"] is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda d: "not json {", "is not a readable calibration"),
        (lambda d: json.dumps([1, 2]), "is not a semisure calibration"),
        (
            lambda d: json.dumps({**d, "format": "loftr"}),
            "is not a semisure calibration",
        ),
        (
            lambda d: json.dumps({**d, "schema_version": 99}),
            "schema version 99.*Upgrade",
        ),
        (lambda d: json.dumps({**d, "parameters": {}}), "damaged: the entry"),
        (lambda d: json.dumps({**d, "law": "cauchy"}), "damaged: law must be one of"),
        (
            lambda d: json.dumps(
                {**d, "parameters": {**d["parameters"], "fine_var_gain": [1, -1]}}
            ),
            "damaged: fine_var_gain must be positive",
        ),
        (lambda d: json.dumps(d)[:200], "is not a readable calibration"),
    ],
)
def test_damaged_foreign_and_newer_files_get_one_sentence(
    change, sentence, tmp_path: Path, calibration: Calibration
) -> None:
    path = tmp_path / "theta.json"
    save_calibration(calibration, path)
    path.write_text(change(json.loads(path.read_text())))
    with pytest.raises(FileError, match=sentence) as caught:
        load_calibration(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_and_binary_calibrations_get_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="There is no calibration file"):
        load_calibration(tmp_path / "none.json")
    (tmp_path / "b.json").write_bytes(bytes(range(256)))
    with pytest.raises(FileError, match="is not a readable calibration"):
        load_calibration(tmp_path / "b.json")


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_matches_survive_their_file(
    suffix: str, tmp_path: Path, planted: tuple[Matches, np.ndarray]
) -> None:
    matches, residual = planted
    path = tmp_path / f"pair{suffix}"
    save_matches(matches, path, residual=residual, weight=np.ones(len(matches)))
    back = load_matches(path)
    digits = 0.0 if suffix == ".npz" else 1e-8  # a table is for people, too
    for name in ("source", "target", "confidence", "fine_std", "coarse_std", "side"):
        mine, stored = getattr(matches, name), getattr(back, name)
        np.testing.assert_allclose(stored, mine, rtol=digits, atol=0, err_msg=name)
    assert back.target_size == matches.target_size
    np.testing.assert_allclose(load_arrays(path)["residual"], residual, rtol=digits)


def test_a_table_has_digits_that_mean_something(
    tmp_path: Path, matches: Matches
) -> None:
    save_matches(matches, tmp_path / "pair.csv")
    numbers = (tmp_path / "pair.csv").read_text().replace("\n", ",").split(",")[30:]
    assert max(len(number.lstrip("-").replace(".", "")) for number in numbers) < 16


def test_csv_without_sizes_asks_for_them(tmp_path: Path) -> None:
    path = tmp_path / "pair.csv"
    header = "x0,y0,x1,y1,confidence,fine_std_x,fine_std_y,coarse_std_x,coarse_std_y"
    path.write_text(header + "\n1,2,3,4,0.5,1,1,9,9\n")
    with pytest.raises(FileError, match="does not hold the image sizes"):
        load_matches(path)
    assert len(load_matches(path, size=(640, 480))) == 1
    path.write_text(header + "\n")
    assert len(load_matches(path, size=(640, 480))) == 0
    path.write_text("x0,y0\n1,2\n")
    with pytest.raises(FileError, match="lacks x1, y1; confidence; fine_std_x"):
        load_matches(path)
    path.write_text(header + "\n1,2,3\n")
    with pytest.raises(FileError, match="one number per column"):
        load_matches(path)
    path.write_text(header + "\n1,2,3,4,0.5,1,1,9,oops\n")
    with pytest.raises(FileError, match="cannot be read"):
        load_matches(path)


def test_unreadable_matches_get_one_sentence(tmp_path: Path, matches: Matches) -> None:
    with pytest.raises(FileError, match="There is no file"):
        load_matches(tmp_path / "none.npz")
    with pytest.raises(FileError, match=r"read from .npz or .csv"):
        load_matches(tmp_path / "pair.txt")
    with pytest.raises(FileError, match=r"written to .npz or .csv"):
        save_matches(matches, tmp_path / "pair.txt")
    path = tmp_path / "pair.npz"
    path.write_bytes(b"PK\x03\x04 truncated")
    with pytest.raises(FileError, match="cannot be read"):
        load_matches(path)
    np.savez(path, source=np.zeros((1, 2)))
    with pytest.raises(FileError, match="lacks target; confidence"):
        load_matches(path)


def test_pickled_arrays_are_never_executed(tmp_path: Path) -> None:
    path = tmp_path / "pair.npz"
    np.savez(path, source=np.array([{"a": 1}], dtype=object))
    with pytest.raises(FileError, match="cannot be read"):
        load_matches(path)


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


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_no_matches_can_be_written(matches: Matches, tmp_path: Path, suffix) -> None:
    path = tmp_path / f"none{suffix}"
    save_matches(matches.take(slice(0)), path, weight=np.zeros(0))
    assert len(load_matches(path, size=(640, 480))) == 0


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_cells_are_kept_where_there_are_any(
    matches: Matches, tmp_path: Path, suffix: str
) -> None:
    some = matches.take(slice(3))
    cell = np.arange(18.0).reshape(3, 2, 3) + np.array([[9.0, 0, 0], [0, 0, 0]])
    path = tmp_path / f"pair{suffix}"
    save_matches(replace(some, cell=cell), path)
    np.testing.assert_allclose(load_matches(path).cell, cell, rtol=1e-15)
    save_matches(some, path)  # as every file was before
    assert load_matches(path).cell is None
