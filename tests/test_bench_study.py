"""What benches share: data sets found, protocols, damaged pairs, rows that are kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from bench_trees import add_sequence, texture, write_scene
from semisure.bench import BENCHES
from semisure.bench.data import LIST_PAIRS, pairs_of, usable
from semisure.bench.options import Options
from semisure.bench.outcome_files import write_outcome
from semisure.bench.row_cache import Call, described, remembered
from semisure.bench.run import of_study
from semisure.bench.study import Study
from semisure.bench.true_errors import with_truth
from semisure.bench.views import with_views
from semisure.cli import app
from semisure.datasets.layouts import find_sets, has_depth, read_pairs
from semisure.datasets.posed import PosedPair
from semisure.engine import Engine
from semisure.errors import FileError, FitError, InputError
from semisure.geometry.homography import project
from semisure.io.files import load_calibration
from semisure.io.images import read_image, write_png

SIZE = (160, 120)
LAWS = ("daisy", "daisy-faithful")  # files that the bench calibration writes


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of data sets: planar, thermal by its name, and photos without truth."""
    for k, name in enumerate(("planar/i_a", "planar/v_b", "thermal/x", "photos/one")):
        add_sequence(tmp_path / "data" / name, k)
    (tmp_path / "data" / "photos" / "one" / "H_1_2").unlink()
    return tmp_path / "data"


def study_of(pool: Engine, cache: Path, *roots: Path, **changed: Any) -> Study:
    return Study(Options(data=roots, size=SIZE, cache=cache, **changed), pool)


def test_data_sets_below_a_folder_are_found(root: Path, tmp_path: Path) -> None:
    assert find_sets(root) == [root / "planar", root / "thermal"]
    assert find_sets(root / "thermal") == [root / "thermal"]
    assert find_sets(tmp_path) == [root / "planar", root / "thermal"]
    with pytest.raises(
        FileError, match=r"There is no data set in .*expected sequences"
    ):
        find_sets(root / "photos")
    with pytest.raises(FileError, match=r"There is no folder .*nowhere"):
        find_sets(tmp_path / "nowhere")


def test_a_folders_name_asks_for_its_protocol(root: Path, pool: Engine) -> None:
    planar, thermal = find_sets(root)
    options = Options(data=[planar, thermal])
    assert options.protocol_of(thermal) == "mtv"
    assert options.size_of(thermal) == (960, 640)
    assert options.size_of(planar) == (1280, 960)
    assert replace(options, protocol="hpatches").size_of(thermal) == (1280, 960)
    study = Study(options, pool)
    assert {k: s.options.data for k, s in study.by_protocol().items()} == {
        "hpatches": [planar],
        "mtv": [thermal],
    }
    one = usable(options, BENCHES["weights"])
    assert one.roots == [planar]
    (remark,) = one.remarks
    assert remark.startswith("Left out, another protocol")
    assert remark.endswith(": thermal.")
    # Table 1 has both.
    assert usable(options, BENCHES["homography"]).roots == [planar, thermal]


def test_table_1_judges_each_protocol_at_its_thresholds(
    root: Path, pool: Engine, tmp_path: Path
) -> None:
    outcome = of_study("homography", study_of(pool, tmp_path, *find_sets(root)))
    heads = {table.name: table.head[2] for table in outcome.tables}
    assert heads["homography"] == heads["homography_gain"] == "@1px"
    assert heads["homography_mtv"] == heads["homography_mtv_gain"] == "@10px"
    assert [row["protocol"] for row in outcome.rows] == ["hpatches", "hpatches", "mtv"]


def test_damaged_pairs_are_named_and_the_others_matched(
    root: Path, pool: Engine, tmp_path: Path
) -> None:
    (root / "planar" / "i_a" / "2.png").write_bytes(b"no image")
    study = study_of(pool, tmp_path / "c", root / "planar")
    with pytest.raises(FileError, match=r"1 of 2 pairs .*i_a.2\.png.*--keep-going"):
        study.exported("daisy")
    # The sound one is in the cache already.
    assert len(list((tmp_path / "c").rglob("*.npz"))) == 1
    going = study_of(pool, tmp_path / "c", root / "planar", keep_going=True)
    outcome = of_study("homography", going)
    assert [row["pair"] for row in outcome.rows] == ["v_b_2"]
    assert any("1 of 2 pairs are left out" in note for note in outcome.notes)


def test_keep_going_does_not_go_on_without_any_pair(
    root: Path, pool: Engine, tmp_path: Path
) -> None:
    (root / "thermal" / "x" / "1.png").write_bytes(b"")
    study = study_of(pool, tmp_path, root / "thermal", keep_going=True)
    with pytest.raises(FileError, match="1 of 1 pairs cannot be matched"):
        study.exported("daisy")


@dataclass(frozen=True)
class Work:
    number: float
    log: str  # a file's name


def tripled(work: Work) -> dict[str, Any]:
    with Path(work.log).open("a") as log:
        log.write("x")
    return {"tripled": 3 * work.number, "nothing": None, "far": float("inf")}


def test_rows_are_made_once_and_come_back_bit_for_bit(tmp_path: Path) -> None:
    log = tmp_path / "log"
    call = Call(tripled, Work(0.1, str(log)), tmp_path / "rows")
    first = remembered(call)
    assert first == {"tripled": 3 * 0.1, "nothing": None, "far": float("inf")}
    assert remembered(call) == first
    assert log.read_text() == "x"
    other = replace(call, argument=replace(call.argument, number=0.2))
    assert remembered(other)["tripled"] == 3 * 0.2
    assert log.read_text() == "xx"


@pytest.mark.parametrize("how", ["cut", "changed", "foreign"])
def test_damaged_rows_are_made_again(tmp_path: Path, how: str) -> None:
    call = Call(tripled, Work(2.0, str(tmp_path / "log")), tmp_path / "rows")
    first = remembered(call)
    (file,) = (tmp_path / "rows").iterdir()
    text = file.read_text()
    damaged = {"cut": text[:30], "changed": text.replace("6", "7", 1), "foreign": "[]"}
    assert damaged[how] != text
    file.write_text(damaged[how])
    assert remembered(call) == first


def test_whatever_a_row_rests_on_is_described(tmp_path: Path) -> None:
    file = tmp_path / "depth"
    file.write_text("one")
    before = described([file, np.zeros(2), {"a": np.float64(1)}])
    assert described([file, np.zeros(2), {"a": 1.0}]) == before
    assert described([file, np.ones(2), {"a": 1.0}]) != before
    file.write_text("longer")
    assert described([file, np.zeros(2), {"a": 1.0}]) != before
    with pytest.raises(TypeError, match="object cannot be described"):
        described(object())


def test_an_interrupted_evaluation_goes_on(
    root: Path, pool: Engine, tmp_path: Path
) -> None:
    study = study_of(pool, tmp_path, root / "planar")
    first = of_study("homography", study)
    rows = sorted((tmp_path / "rows").iterdir())
    assert len(rows) == 2
    rows[0].unlink()
    kept = rows[1].stat().st_mtime_ns
    again = of_study("homography", study)
    assert list(again.rows) == list(first.rows)
    assert rows[0].exists()
    assert rows[1].stat().st_mtime_ns == kept
    other = study_of(pool, tmp_path, root / "planar", threshold_px=2.0)
    of_study("homography", other)
    assert len(list((tmp_path / "rows").iterdir())) == 4


def test_views_are_seen_by_their_homography(root: Path, tmp_path: Path) -> None:
    pairs = read_pairs(root / "planar")
    first, second, *_ = views = with_views(pairs, 2, 0, tmp_path)
    assert [pair.name for pair in views] == [
        "i_a_2_view0",
        "i_a_2_view1",
        "v_b_2_view0",
        "v_b_2_view1",
    ]
    assert first.H_01 is not None
    assert second.H_01 is not None
    assert not np.allclose(first.H_01, second.H_01)
    again = with_views(pairs[1:], 2, 0, tmp_path)[0]
    assert again.image1 == views[2].image1
    # Image 0 carried by the truth looks like the view wherever both are.
    view = read_image(first.image1).astype(float)
    image = read_image(first.image0)
    carried = cv2.warpPerspective(image, first.H_01, (320, 240), flags=cv2.INTER_AREA)
    inside = np.zeros((240, 320), bool)
    inside[40:200, 60:260] = True
    inside &= (carried.min(axis=2) > 0) & (view.min(axis=2) > 0)
    assert inside.sum() > 5000
    assert np.abs(carried - view)[inside].mean() < 6.0
    assert np.abs(image - view)[inside].mean() > 12.0


def test_photos_without_truth_are_seen_twice(pool: Engine, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    for k in range(2):
        write_png(photos / f"{k}.png", texture(k).astype(np.uint8))
    assert find_sets(photos) == [photos]
    with pytest.raises(FileError, match="or photos in the folder itself"):
        find_sets(
            tmp_path
        )  # only where they are named: they have no truth of their own
    study = study_of(pool, tmp_path / "c", photos, views=2)
    pairs = pairs_of(study.options, photos)
    assert [pair.name for pair in pairs] == ["0_view0", "0_view1", "1_view0", "1_view1"]
    exported = study.exported("daisy")
    # Two views of a photo are never on both sides of a split.
    assert [e.group for e in exported] == ["0.png", "0.png", "1.png", "1.png"]
    matches, r = with_truth(exported[0])
    assert len(matches) > 50
    assert np.median(np.abs(r)) < 1.0


def test_calibration_on_another_data_set(
    root: Path, pool: Engine, tmp_path: Path
) -> None:
    planar, thermal = find_sets(root)
    study = study_of(pool, tmp_path, thermal, calibrate_on=planar)
    outcome = of_study("homography", study)
    asked = "daisy: calibrated on 2 pairs of planar at 1280 × 960 by newton."
    assert asked in outcome.notes
    with pytest.raises(InputError, match="another folder than --data"):
        study_of(pool, tmp_path, planar, calibrate_on=planar)


def test_calibrations_fitted_to_data_are_files_that_commands_take(
    root: Path, pool: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = study_of(pool, tmp_path / "c", root / "planar")
    with pytest.raises(FitError, match=r"at least 1,000 matches, but daisy found \d+"):
        of_study("calibration", study)
    monkeypatch.setattr("semisure.bench.studies.calibration.LEAST", 100)
    outcome = of_study("calibration", study)
    write_outcome("calibration", study.options, outcome, tmp_path / "out")
    ours = load_calibration(tmp_path / "out" / "daisy.json")
    faithful = load_calibration(tmp_path / "out" / "daisy-faithful.json")
    assert ours.location is not None
    assert faithful.location is None
    assert faithful.paper_symbols()["k_m"] == outcome.tables[0].rows[0][6]
    assert ours.provenance["pairs"] == 2
    files = {name: str(tmp_path / "out" / f"{name}.json") for name in LAWS}
    again = study.changed(calibration=files["daisy"], faithful=files["daisy-faithful"])
    assert (
        "daisy: calibration daisy.json for core+, daisy-faithful.json for the paper's "
        "arms."
    ) in of_study("homography", again).notes


def test_megadepth_from_its_index_to_true_errors(pool: Engine, tmp_path: Path) -> None:
    for scene in ("0001", "0002"):
        write_scene(tmp_path / "mega", scene)
    root = tmp_path / "mega"
    assert find_sets(root) == [root]
    pairs = read_pairs(root)
    assert has_depth(pairs)
    assert [pair.name for pair in pairs] == ["0001_0.1_0.7_0_1", "0002_0.1_0.7_0_1"]
    assert all(isinstance(pair, PosedPair) for pair in pairs)
    study = study_of(pool, tmp_path / "c", root)
    matches, r = with_truth(study.exported("daisy")[0])
    # Half the size: the wall moves by 2.5 px, which the truth takes off.
    assert len(matches) > 100
    assert np.median(np.abs(r)) < 0.5
    moved = matches.target - matches.source
    assert np.median(moved[:, 0]) == pytest.approx(2.5, abs=0.3)
    outcome = of_study("laws", study)
    assert {row["data"] for row in outcome.rows} == {"depth"}
    (root / "phoenix" / "S6" / "0001" / "1.h5").unlink()
    with pytest.raises(FileError, match=r"phoenix.S6.0001.1\.h5"):
        of_study("laws", study)


def test_lists_of_video_pairs_are_thinned(pool: Engine, tmp_path: Path) -> None:
    data = tmp_path / "video"
    (data / "images").mkdir(parents=True)
    K = "100 0 50 0 100 50 0 0 1"
    names = [f"{k:03d}.png" for k in range(20)]
    camera = f"{K} 1 0 0 0 1 0 0 0 1 0 0 0"
    (data / "cameras.txt").write_text("".join(f"{n} {camera}\n" for n in names))
    rows = [f"{a},{b},0.5,9" for a in names for b in names if a < b]
    (data / "pairs.csv").write_text(
        "\n".join(["name0,name1,overlap,tri_angle_deg", *rows])
    )
    assert len(read_pairs(data)) == 190
    options = study_of(pool, tmp_path, data).options
    assert len(pairs_of(options, data)) == LIST_PAIRS
    assert len(pairs_of(replace(options, limit=150), data)) == 150
    with pytest.raises(InputError, match="no depth, so the matches' true errors"):
        usable(options, BENCHES["laws"])


def test_command_finds_the_data_and_reads_its_flags(root: Path, tmp_path: Path) -> None:
    base = ["bench", "homography", "--data", str(root), "--size", "160x120"]
    out = ["-o", str(tmp_path / "out")]
    done = CliRunner().invoke(app, [*base, *out, "--views", "1"])
    assert done.exit_code == 0, done.output
    assert "homography_mtv: gain" in done.stdout
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"homography.csv", "homography_mtv.csv", "homography_mtv.png"} <= names


def test_a_point_of_a_view_is_where_the_homography_says(tmp_path: Path) -> None:
    """A single bright dot, followed through a random view."""
    photo = np.zeros((120, 160), np.uint8)
    photo[57:64, 77:84] = 255
    for name in ("1.png", "2.png"):
        write_png(tmp_path / "s" / name, photo)
    np.savetxt(tmp_path / "s" / "H_1_2", np.eye(3))
    (pair,) = with_views(read_pairs(tmp_path), 1, 3, tmp_path / "views")
    view = read_image(pair.image1).mean(axis=2)
    y, x = np.mgrid[:120, :160]
    middle = np.array([(x * view).sum(), (y * view).sum()]) / view.sum()
    assert pair.H_01 is not None
    expected = project(pair.H_01, np.array([[80.0, 60.0]]))[0]
    np.testing.assert_allclose(middle, expected, atol=0.3)
