"""The paper's split: fitted on held-out pairs of another folder, judged on the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench_trees import add_sequence, write_megadepth, write_scene
from semisure.bench import data
from semisure.bench.options import CALIBRATION_SIZE, Options
from semisure.bench.run import of_study
from semisure.bench.study import Study
from semisure.datasets.megadepth import read_held_out, read_index, read_megadepth
from semisure.datasets.posed import PosedPair
from semisure.engine import Engine
from semisure.errors import FileError, InputError
from semisure.io.files import load_calibration, save_calibration

SIZE = (160, 120)
TRAINING = "index/scene_info_0.1_0.7"
pytest.importorskip("h5py", reason="needs the extra store")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MegaDepth with both indexes, and two planar sequences."""
    root = tmp_path_factory.mktemp("data")
    for scene in ("0015", "0022"):
        write_scene(root / "mega", scene)
    for scene in ("0001", "0002", "0015"):
        write_scene(root / "mega", scene, index=TRAINING)
    for k, name in enumerate(("i_a", "v_b")):
        add_sequence(root / "planar" / name, 40 + k)
    return root


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def study_of(pool: Engine, cache: Path, *roots: Path, **changed: Any) -> Study:
    return Study(Options(data=roots, size=SIZE, cache=cache, **changed), pool)


def test_held_out_pairs_are_of_training_scenes_only(root: Path) -> None:
    scenes = [pair.scene for pair in read_held_out(root / "mega")]
    assert scenes == ["0001", "0002"]
    assert [pair.scene for pair in read_megadepth(root / "mega")] == ["0015", "0022"]


def test_a_test_index_alone_is_nothing_to_calibrate_on(tmp_path: Path) -> None:
    write_scene(tmp_path, "0015")
    with pytest.raises(FileError, match=r"MegaDepth-1500's own scenes \(0015, 0022\)"):
        read_held_out(tmp_path)


def test_an_index_is_thinned_before_pairs_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six scenes of four pairs, two of them of too much or too little overlap."""
    overlaps = [0.05, 0.2, 0.6, 0.9]
    for scene in range(6):
        write_megadepth(tmp_path, f"{scene:04d}", overlaps, index=TRAINING)
    assert len(read_held_out(tmp_path)) == 12
    read: list[Path] = []

    def counted(path: Path) -> dict[str, Any]:
        read.append(path)
        return read_index(path)

    monkeypatch.setattr("semisure.datasets.megadepth.read_index", counted)
    some = read_held_out(tmp_path, limit=3)
    # One pair of every second scene, and no other file is opened.
    assert [pair.scene for pair in some] == ["0000", "0002", "0004"]
    assert len(read) == 3
    assert [pair.scene for pair in read_held_out(tmp_path, limit=8)].count("0000") == 2


def test_size_protocol_and_limit_do_not_reach_the_calibration(
    root: Path, pool: Engine, cache: Path
) -> None:
    asked = {"calibrate_on": root / "mega", "limit": 1, "protocol": "mtv"}
    study = study_of(pool, cache, root / "planar", **asked)
    pairs = study.held_out("daisy")
    assert [one.size for one in pairs] == [CALIBRATION_SIZE] * 2
    assert len(study.exported("daisy")) == 1
    other = study.changed(calibration_pairs=1, calibration_size=SIZE)
    assert [one.size for one in other.held_out("daisy")] == [SIZE]


def test_one_folder_may_hold_both_indexes(root: Path) -> None:
    mega = root / "mega"
    assert Options(data=[mega], calibrate_on=mega).calibrate_on == mega
    with pytest.raises(InputError, match="another folder than --data"):
        Options(data=[root / "planar"], calibrate_on=root / "planar")
    with pytest.raises(InputError, match="--cross-validate fits to the data"):
        Options(data=[mega], calibrate_on=mega, cross_validate=True)


def test_laws_are_fitted_to_held_out_pairs_and_judged_on_the_test_pairs(
    root: Path, pool: Engine, cache: Path
) -> None:
    asked = {"calibrate_on": root / "mega", "calibration_size": SIZE}
    outcome = of_study("laws", study_of(pool, cache, root / "mega", **asked))
    assert {row["data"] for row in outcome.rows} == {"depth"}
    assert {row["law"] for row in outcome.rows} > {"fine_only", "mixture", "hard_gate"}
    ours = [row for row in outcome.tables[0].rows if "paper" not in str(row[0])]
    assert {row[0] for row in ours} == {"daisy, depth"}  # nothing about a fit
    (note,) = outcome.notes
    assert "judged on 2 pairs; calibrated on 2 pairs of mega at 160 × 120" in note


def test_a_law_given_as_a_file_is_judged_without_a_fit(
    root: Path, pool: Engine, cache: Path, tmp_path: Path
) -> None:
    file = tmp_path / "mine.json"
    save_calibration(load_calibration("daisy"), file)
    study = study_of(pool, cache, root / "mega", calibration=str(file))
    outcome = of_study("laws", study)
    assert [row["law"] for row in outcome.rows] == ["uncalibrated", "mixture"]
    assert "mine.json; the other laws need pairs" in outcome.notes[0]


def test_resolution_is_fitted_at_its_own_size_on_held_out_pairs(
    root: Path, pool: Engine, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from semisure.bench.studies import resolution

    monkeypatch.setattr(resolution, "SIZES", (SIZE,))
    monkeypatch.setattr(resolution, "FITTED_AT", (200, 150))
    study = study_of(pool, cache, root / "mega", calibrate_on=root / "mega")
    outcome = of_study("resolution", study)
    assert [row[:3] for row in outcome.tables[0].rows] == [
        ["daisy", "160x120", "fine_only"],
        ["daisy", "160x120", "mixture"],
    ]
    assert "calibrated on 2 pairs of mega at 200 × 150" in outcome.notes[0]


def test_quantity_judges_auc_by_homographies_and_nll_by_depth(
    root: Path, pool: Engine, cache: Path, tmp_path: Path
) -> None:
    file = tmp_path / "mine.json"
    save_calibration(load_calibration("daisy"), file)
    asked = {"calibrate_on": root / "mega", "calibration": str(file)}
    roots = (root / "planar", root / "mega")
    study = study_of(pool, cache, *roots, calibration_size=SIZE, **asked)
    outcome = of_study("quantity", study)
    given, drawn = outcome.rows  # of two pairs there is one subset
    assert (given["pairs"], drawn["pairs"]) == (0, 2)
    assert outcome.tables[0].rows[0][1] == "file"
    assert {"newton seconds", "powell seconds", "auc", "held-out nll"} <= set(drawn)
    assert "AUC on 2 pairs with homographies, NLL on 2 pairs by cameras" in str(
        outcome.notes
    )
    no_auc = of_study("quantity", study.on([root / "mega"])).rows
    assert all("auc" not in row for row in no_auc)


def test_the_papers_optimiser_fits_where_it_can(
    root: Path, pool: Engine, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"calibrate_on": root / "mega", "calibration_size": SIZE}
    study = study_of(pool, cache, root / "mega", optimiser="powell", **asked)
    exported = study.exported("daisy")
    calibrations, remark = study.calibrations("daisy", exported)
    assert remark.endswith("by powell.")
    by_newton, _ = study.changed(optimiser="newton").calibrations("daisy", exported)
    # Another path to the same optimum for the paper's law, the same fit for ours.
    assert calibrations[0].ours == by_newton[0].ours
    assert calibrations[0].paper != by_newton[0].paper


def test_without_shipped_law_or_held_out_pairs_every_row_says_so(
    root: Path,
    pool: Engine,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("semisure.io.files.SHIPPED", tmp_path)
    study = study_of(pool, cache, root / "planar")
    for name in ("homography", "weights", "initial", "posterior", "tail", "native"):
        for table in of_study(name, study).tables:
            ours = [str(row[0]) for row in table.rows if "paper" not in str(row[0])]
            assert ours, name
            assert all("cross-validated" in label for label in ours), name


def test_a_training_index_is_recognised_as_cameras_with_depth(root: Path) -> None:
    pairs = data.pairs_of(Options(data=[root / "mega"]), root / "mega", held_out=True)
    assert all(isinstance(pair, PosedPair) for pair in pairs)
    assert np.isfinite(pairs[0].P_01).all()
