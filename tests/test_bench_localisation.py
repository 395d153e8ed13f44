"""The bench of camera poses: by hand, and on small maps of both kinds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from semisure.bench import BENCHES
from semisure.bench.data import usable
from semisure.bench.exported import Exported, export, jobs_of
from semisure.bench.files import text_of
from semisure.bench.options import Options
from semisure.bench.run import of_study
from semisure.bench.studies.homography import MATCHERS
from semisure.bench.studies.localisation import (
    AACHEN,
    AACHEN_SIZE,
    JUDGE,
    aachen_table,
    located_table,
    observed,
)
from semisure.bench.study import Study
from semisure.cli import app
from semisure.datasets.queries import NETVLAD
from semisure.engine import Engine
from semisure.errors import FileError, InputError
from semisure.geometry import pose as se3
from semisure.io.colmap import MapImage, MapModel
from semisure.io.files import load_calibration, save_calibration
from semisure.io.images import write_png
from semisure.synthetic import SyntheticMatcher
from semisure.types import Pair
from test_maps import MAPPED, QUERY, write_aachen, write_located

INF = float("inf")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_located(tmp_path_factory.mktemp("located") / "place")


@pytest.fixture
def study(place: Path, pool: Engine, tmp_path: Path) -> Study:
    return Study(Options(data=[place], cache=tmp_path / "cache"), pool)


# -- by hand


def row(**changed) -> dict:
    formed = {"mapped": 5, "threshold_px": 3.0, "retrieval": "by hand"}
    return {"matcher": "daisy", "data": "x", "condition": "near", **formed, **changed}


def test_medians_and_recall_by_hand() -> None:
    rows = [
        row(**{"base m": 0.005, "base deg": 0.1, "core+ m": 0.004, "core+ deg": 0.3}),
        row(**{"base m": 0.015, "base deg": 0.1, "core+ m": 0.004, "core+ deg": 0.1}),
        row(**{"base m": INF, "base deg": INF, "core+ m": 0.06, "core+ deg": 0.1}),
    ]
    base, ours = located_table(rows, "ransac").rows
    # Within 1 cm and 0.2°: the first; within 2 cm and 0.5° the second too; one is lost.
    assert base[:3] == ["daisy, x", "near", "base"]
    np.testing.assert_allclose(base[3:9], [1.5, 0.1, 100 / 3, 200 / 3, 200 / 3, 3])
    assert base[9:] == [15, 3.0, "by hand"]  # five pairs for each of three queries
    # The angle of the first is too large for 0.2°; 6 cm are too far for all.
    np.testing.assert_allclose(ours[3:9], [0.4, 0.1, 100 / 3, 200 / 3, 200 / 3, 3])


def test_aachen_has_the_papers_numbers_beside_empty_cells() -> None:
    rows = [
        row(condition="day", matcher="loftr", **{"base pose": "1 0", "core pose": "1"}),
        row(condition="day", matcher="loftr", **{"base pose": None, "core pose": None}),
    ]
    printed = aachen_table(["loftr", "daisy"], rows, "ransac").rows
    assert printed[1][:6] == ["LoFTR, paper", "day", "core", 86.9, 92.0, 95.1]
    assert printed[1][6:] == [None, 824, 41200, None, "NetVLAD, top 50"]
    assert printed[2][:6] == ["LoFTR, paper", "night", "base", 65.4, 83.2, 91.6]
    assert printed[4][:8] == ["loftr, x", "day", "base", None, None, None, 1, 2]
    assert printed[4][8:] == [10, 3.0, "by hand"]
    assert len(printed) == 6  # the paper has no daisy
    assert {name for name, _ in AACHEN} == set(MATCHERS)


def test_observations_follow_the_image_to_its_size() -> None:
    image = MapImage("m", 0, np.eye(3, 4), np.array([[10.0, 20.0]]), np.array([0]))
    model = MapModel({}, {"m": image}, np.array([0]), np.ones((1, 3)), np.array([0.5]))
    points, _, error = observed(model, "m", (100, 50), (400, 50))
    # The pixel's centre at 10.5 goes to 42; a length, to twice itself on average.
    np.testing.assert_allclose(points, [[41.5, 20.0]])
    np.testing.assert_allclose(error, [1.0])
    assert observed(model, "m", (100, 50), (100, 50))[0].tolist() == [[10.0, 20.0]]


@pytest.mark.parametrize("name", ["daisy", "xfeat-star"])
def test_the_query_is_the_refined_side_and_keeps_its_orientation(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def matcher(image0, image1):
        asked.append((image0.shape[1::-1], image1.shape[1::-1]))
        matches, _ = SyntheticMatcher().match(np.eye(3), count=20)
        return matches if name == "daisy" else matches.swapped()  # as each refines

    monkeypatch.setattr("semisure.matchers._loaded", lambda *_: matcher)
    for file, shape in (("tall.png", (64, 48)), ("wide.png", (48, 64))):
        write_png(tmp_path / file, np.zeros(shape, np.uint8))
    pair = Pair(name="p", image0=tmp_path / "wide.png", image1=tmp_path / "tall.png")
    options = Options(data=[tmp_path], cache=tmp_path / "c")
    (job,) = jobs_of(options, name, [(pair, AACHEN_SIZE)], for_queries=True)
    query = export(job)
    assert isinstance(query, Exported)
    assert (query.matches().side == 0).all()
    assert query.sizes == ((64, 48), (48, 64))
    # One matcher gets the images in turned order; the tall one keeps its shape.
    wide, tall = AACHEN_SIZE, AACHEN_SIZE[::-1]
    assert asked == [(tall, wide) if name == "daisy" else (wide, tall)]


# -- on small maps


def test_a_map_with_truth_end_to_end(study: Study) -> None:
    outcome = of_study("localisation", study)
    assert [row["condition"] for row in outcome.rows] == ["near", "far"]
    near, far = outcome.rows
    assert (near["mapped"], far["mapped"]) == (4, 2)
    for one in outcome.rows:
        assert one["lifted"] > 50
        assert one["threshold_px"] == 3.0
        assert one["core+ m"] < 0.01  # of 4 to 8 m
        assert one["core+ deg"] < 0.1
        assert one["core+ m"] < one["base m"] < 0.2
        pose = np.array(one["core+ pose"].split(), float)
        apart, _ = se3.errors(se3.from_quaternion(pose[:4], pose[4:]), QUERY)
        assert apart == pytest.approx(one["core+ m"], abs=1e-9)
    (table,) = outcome.tables
    assert [line[2] for line in table.rows] == ["base", "core", "core+"] * 2
    assert outcome.files == {}  # nothing to submit


def test_cameras_and_map_follow_a_size(study: Study) -> None:
    outcome = of_study("localisation", study.changed(size=(288, 240)))
    assert all(one["core+ m"] < 0.02 for one in outcome.rows)
    assert "images at 288 × 240" in text_of(outcome)


def test_a_law_with_a_location_has_one_arm_more(study: Study, tmp_path: Path) -> None:
    path = tmp_path / "shifted.json"
    shifted = replace(load_calibration("daisy"), location=(0.05, 0.0))
    save_calibration(shifted, path)
    save_calibration(load_calibration("daisy"), tmp_path / "shifted-faithful.json")
    file = study.changed(calibration=str(path))
    shifted_row = of_study("localisation", file).rows[0]
    # A shift that is not there moves what it is taken off, and that only.
    plain = of_study("localisation", study).rows[0]
    assert shifted_row["base m"] == plain["base m"]
    assert shifted_row["core m"] == plain["core m"]
    assert shifted_row["base − shift m"] != shifted_row["base m"]
    assert shifted_row["core+ m"] > plain["core+ m"]


def test_aachen_end_to_end(pool: Engine, tmp_path: Path) -> None:
    root = write_aachen(tmp_path / "aachen")
    runner = CliRunner()
    out = tmp_path / "out"
    arguments = ["bench", "localisation", "--data", str(root), "-o", str(out)]
    done = runner.invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert JUDGE in done.stdout
    assert "inliers within 12 px" in done.stdout
    for arm in ("base", "core", "core+"):
        lines = (out / f"Aachen-v1.1_aachen_daisy_{arm}.txt").read_text().splitlines()
        numbers = {line.split()[0]: np.array(line.split()[1:], float) for line in lines}
        assert list(numbers) == ["q.png", "blank.png"]
        poses = {k: se3.from_quaternion(v[:4], v[4:]) for k, v in numbers.items()}
        assert se3.errors(poses["q.png"], QUERY)[0] < (0.02 if arm == "core+" else 0.3)
        # What sees nothing is put where the first image retrieved for it stands.
        assert se3.errors(poses["blank.png"], MAPPED["b.png"])[0] < 1e-9
    stored = json.loads((out / "localisation.json").read_text())
    rows = {one["query"]: one for one in stored["rows"]}
    assert rows["query/day/q.png"]["mapped"] == 2  # one retrieved is not in the map
    assert rows["query/day/blank.png"]["reason"].startswith("no matches")
    assert rows["query/night/n.png"]["reason"] == "no image of the map was retrieved"
    table = stored["tables"][0]["rows"]
    assert table[0][:8] == ["daisy, aachen", "day", "base", None, None, None, 1, 2]
    assert table[0][8:] == [3, 12.0, "pairs-query-netvlad50"]
    formed = "3 image pairs of 4 queries by pairs-query-netvlad50, images at 1180 × 896"
    assert formed in done.stdout


def test_what_cannot_be_localised_is_one_sentence(
    study: Study, place: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"needs a map .*but no map to localise in"):
        usable(study.on([tmp_path]).options, BENCHES["localisation"])
    with pytest.raises(InputError, match=r"camera pose must be one of .*'gc-ransac'"):
        of_study("localisation", study.changed(estimator="gc-ransac"))
    with pytest.raises(InputError, match="no true errors to fit loftr's law to"):
        of_study("localisation", study.changed(matchers=("loftr",)))
    turned = write_aachen(tmp_path / "turned")
    cameras = turned / "queries" / "day_time_queries_with_intrinsics.txt"
    cameras.write_text(cameras.read_text().replace("320 240", "240 320"))
    with pytest.raises(InputError, match=r"320 × 240 px, but its camera 240 × 320"):
        of_study("localisation", study.changed(data=[turned]))
    strange = write_aachen(tmp_path / "strange")
    (strange / "pairs" / NETVLAD).write_text("query/day/q.png db/gone.png\n")
    with pytest.raises(InputError, match="has none of the images retrieved"):
        of_study("localisation", study.changed(data=[strange]))
    both = study.on([tmp_path, turned, place]).options
    assert usable(both, BENCHES["localisation"])[0] == [turned, place]


def test_the_users_own_map_takes_the_place_of_the_one_that_is_there(
    pool: Engine, tmp_path: Path
) -> None:
    root = write_aachen(tmp_path / "aachen")
    own = tmp_path / "sfm_daisy"
    (root / "3D-models" / "aachen_v_1_1").rename(own)
    options = Options(data=[root], cache=tmp_path / "c", maps={"daisy": own})
    outcome = of_study("localisation", Study(options, pool))
    assert any("the map sfm_daisy; inliers within 12 px" in n for n in outcome.notes)
    posed = [row for row in outcome.rows if row["base pose"] is not None]
    assert [row["query"] for row in posed] == ["query/day/q.png"]
    with pytest.raises(FileError):
        of_study("localisation", Study(replace(options, maps={}), pool))
