"""What benches share: data, kept matches, laws, files; on small trees."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from bench_trees import (
    SMALL,
    TRAINING,
    add_sequence,
    study_of,
    texture,
    write_megadepth,
    write_scene,
)
from semisure.bench import BENCHES, exported
from semisure.bench.calibrations import (
    CROSS_VALIDATED,
    FAITHFUL,
    Calibrations,
    both_laws,
    folds,
    given,
)
from semisure.bench.data import LIST_PAIRS, pairs_of, parts_of, usable
from semisure.bench.exported import Exported, MatchJob, export, jobs_of, with_truth
from semisure.bench.files import document, write_outcome
from semisure.bench.options import CALIBRATION_SIZE, Options
from semisure.bench.outcome import Outcome, Table
from semisure.bench.run import of_study, run_bench
from semisure.cli import app
from semisure.datasets.layouts import find_sets, read_pairs
from semisure.datasets.megadepth import read_held_out, read_megadepth
from semisure.engine import Engine, EngineSettings
from semisure.errors import FileError, InputError, MissingExtraError
from semisure.io.files import load_calibration, save_calibration
from semisure.io.images import write_png
from semisure.types import Pair
from settings_file import config

# -- matches are kept


@pytest.fixture
def job(sequences: Path, tmp_path: Path) -> MatchJob:
    image0, image1 = (sequences / "i_a" / f"{k}.png" for k in (1, 2))
    pair = Pair(name="one", image0=image0, image1=image1, H_01=np.eye(3))
    options = Options(data=[sequences], cache=tmp_path / "cache")
    return jobs_of(options, "daisy", [(pair, SMALL)])[0]


def exported_by(job: MatchJob) -> Exported:
    answer = export(job)
    assert isinstance(answer, Exported)
    return answer


def test_a_pair_is_matched_again_only_if_its_file_is_damaged(
    job: MatchJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = exported_by(job)
    np.testing.assert_allclose(first.H_01, np.eye(3), atol=1e-12)
    assert first.matches().source_size == SMALL
    assert first.group == "i_a/1.png"
    good = first.file.read_bytes()
    middle = len(good) // 2
    flipped = good[:middle] + bytes([good[middle] ^ 255]) + good[middle + 1 :]
    for damaged in (good[:middle], flipped):
        first.file.write_bytes(damaged)
        again = exported_by(job).matches()
        np.testing.assert_array_equal(again.confidence, first.matches().confidence)
        assert len(again) > 20
    seconds = exported_by(job).seconds
    monkeypatch.setattr(exported, "_match", lambda job: pytest.fail("matched again"))
    assert exported_by(job).seconds == seconds


def test_a_changed_setting_never_reuses_a_file(job: MatchJob, sequences: Path) -> None:
    other = replace(job.pair, image1=sequences / "i_a" / "3.png")
    changed = [
        replace(job, size=(176, 128)),
        replace(job, code="y"),
        replace(job, pair=other),
        replace(job, for_queries=True),
    ]
    files = {exported_by(one).file for one in [job, *changed]}
    assert len(files) == 5
    # The truth is no part of the matches: a mended homography costs no matching.
    mended = replace(job, pair=replace(job.pair, H_01=2 * np.eye(3)))
    assert exported_by(mended).file == exported_by(job).file


def test_a_missing_extra_is_reported_from_a_worker_too() -> None:
    error = MissingExtraError("kornia", "torch", "XFeat*")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (type(again), str(again)) == (MissingExtraError, str(error))


def test_results_do_not_depend_on_the_number_of_workers(
    sequences: Path, tmp_path: Path
) -> None:
    texts = []
    for count in (1, 2):
        options = Options(data=[sequences], size=SMALL, cache=tmp_path / str(count))
        outcome = run_bench("homography", options, engine=EngineSettings(workers=count))
        stored = document("homography", options, outcome)
        texts.append(json.dumps([stored["tables"], stored["rows"], stored["notes"]]))
    assert texts[0] == texts[1]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder of data sets: planar, thermal by its name, and photos without truth."""
    for k, name in enumerate(("planar/i_a", "planar/v_b", "thermal/x", "photos/one")):
        add_sequence(tmp_path / "data" / name, k)
    (tmp_path / "data" / "photos" / "one" / "H_1_2").unlink()
    return tmp_path / "data"


def test_damaged_pairs_are_named_and_the_others_matched(
    root: Path, pool: Engine, tmp_path: Path
) -> None:
    (root / "planar" / "i_a" / "2.png").write_bytes(b"no image")
    study = study_of(pool, tmp_path / "c", root / "planar")
    with pytest.raises(FileError, match=r"1 of 2 pairs cannot .*i_a.2\.png"):
        study.exported("daisy")
    # The sound one is in the cache already.
    assert len(list((tmp_path / "c").rglob("*.npz"))) == 1


# -- which data


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
    assert options.size_of(thermal) == (960, 640)
    assert options.size_of(planar) == (1280, 960)
    parts = study_of(pool, root, planar, thermal).by_truth()
    roots = {name: part.options.data for name, part in parts.items()}
    assert roots == {"hpatches": [planar], "mtv": [thermal]}
    kept, (remark,) = usable(options, BENCHES["weights"])
    assert kept == [planar]
    assert remark.startswith("Left out, another protocol")
    # Table 1 has both.
    assert usable(options, BENCHES["homography"])[0] == [planar, thermal]


def test_views_have_the_homography_they_were_made_by(
    root: Path, pool: Engine, tmp_path: Path
) -> None:
    study = study_of(pool, tmp_path, root / "planar", views=2)
    first, second, *_ = views = study.exported("daisy")
    names = ["i_a_2_view0", "i_a_2_view1", "v_b_2_view0", "v_b_2_view1"]
    assert [view.name for view in views] == names
    assert not np.allclose(first.H_01, second.H_01)
    for view in views:
        matches, residual = with_truth(view)
        assert len(matches) > 50
        assert np.median(np.abs(residual)) < 1.0
    (again, *_) = pairs_of(replace(study.options, limit=1), root / "planar")
    (whole, *_) = pairs_of(study.options, root / "planar")
    assert again.image1 == whole.image1  # a limit changes no view


def test_photos_without_truth_give_two_views_each(pool: Engine, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    for k in range(2):
        write_png(photos / f"{k}.png", texture(k).astype(np.uint8))
    assert find_sets(photos) == [photos]
    # Only where they are named: they have no truth of their own.
    with pytest.raises(FileError, match="or photos in the folder itself"):
        find_sets(tmp_path)
    study = study_of(pool, tmp_path / "c", photos, views=2)
    exported = study.exported("daisy")
    names = ["0_view0", "0_view1", "1_view0", "1_view1"]
    assert [pair.name for pair in exported] == names
    # Two views of a photo are never on both sides of a split.
    assert [e.group for e in exported] == ["0.png", "0.png", "1.png", "1.png"]


def test_lists_of_video_pairs_are_thinned(tmp_path: Path, sequences: Path) -> None:
    data = tmp_path / "video"
    (data / "images").mkdir(parents=True)
    names = [f"{k:03d}.png" for k in range(20)]
    camera = "100 0 50 0 100 50 0 0 1 1 0 0 0 1 0 0 0 1 0 0 0"
    (data / "cameras.txt").write_text("".join(f"{n} {camera}\n" for n in names))
    rows = [f"{a},{b},0.5,9" for a in names for b in names if a < b]
    (data / "pairs.csv").write_text(
        "\n".join(["name0,name1,overlap,tri_angle_deg", *rows])
    )
    assert len(read_pairs(data)) == 190
    options = Options(data=[data], cache=tmp_path)
    assert len(pairs_of(options, data)) == LIST_PAIRS
    assert len(pairs_of(replace(options, limit=150), data)) == 150
    with pytest.raises(InputError, match="no depth, so the matches' true errors"):
        usable(options, BENCHES["laws"])
    some = pairs_of(replace(options, limit=3), sequences)
    assert [pair.name for pair in some] == ["i_a_2", "v_b_2", "v_c_2"]


def test_megadepth_from_its_index_to_true_errors(pool: Engine, tmp_path: Path) -> None:
    root = tmp_path / "mega"
    write_scene(root, "0001")
    (pair,) = study_of(pool, tmp_path / "c", root).exported("daisy")
    matches, r = with_truth(pair)
    # Half the size: the wall moves by 2.5 px, which the truth takes off.
    assert len(matches) > 100
    assert np.median(np.abs(r)) < 0.5
    moved = matches.target - matches.source
    assert np.median(moved[:, 0]) == pytest.approx(2.5, abs=0.3)
    (root / "phoenix" / "S6" / "0001" / "1.h5").unlink()
    with pytest.raises(FileError, match=r"phoenix.S6.0001.1\.h5"):
        with_truth(pair)


# -- which laws


def test_the_papers_law_is_the_twin_or_has_no_location(tmp_path: Path) -> None:
    plain, located = (str(tmp_path / name) for name in ("plain.json", "mine.json"))
    paper = replace(load_calibration("daisy"), spread_slope=0.5)
    ours = replace(load_calibration("daisy"), location=(0.05, 0.0))
    save_calibration(paper, plain)
    save_calibration(ours, located)
    assert given(plain) == (Calibrations(paper, paper), "calibration plain.json")
    # Refused before any pair is read, let alone matched.
    with pytest.raises(InputError, match=r"beside it, as mine-faithful\.json") as lone:
        run_bench("homography", Options(data=[Path("data")], calibration=located))
    assert str(lone.value).startswith(f"{located} was fitted with a location")
    twin = tmp_path / "mine-faithful.json"
    save_calibration(paper, twin)
    both, remark = given(located)
    assert both == Calibrations(paper, ours)
    assert both.of_arm("core+") == ours
    assert both.of_arm("core") == both.of_arm("huber") == paper
    files = "mine.json for core+, mine-faithful.json for the paper's arms"
    assert remark == f"calibration {files}"
    save_calibration(ours, twin)
    with pytest.raises(InputError, match="must be a law without a location"):
        given(located)


def test_the_shipped_pair_of_laws_is_kept_together() -> None:
    both = both_laws("xfeat-star")
    assert both.paper == load_calibration(f"xfeat-star{FAITHFUL}")
    assert both.ours == load_calibration("xfeat-star")
    assert both.ours.location is not None


def test_no_sequence_is_split_by_folds() -> None:
    groups = [name for name in "abcdefg" for _ in range(3)]
    fold = folds(groups, 5)
    assert all(len(set(fold[k : k + 3])) == 1 for k in range(0, 21, 3))
    assert set(fold.tolist()) == {0, 1, 2, 3, 4}
    with pytest.raises(InputError, match="at least 2 sequences"):
        folds(["a", "a"], 5)


def test_without_a_shipped_calibration_the_fit_is_cross_validated(
    sequences: Path, cache: Path, pool: Engine, monkeypatch, tmp_path: Path
) -> None:
    study = study_of(pool, cache, sequences)
    exported = study.exported("daisy")
    monkeypatch.setattr("semisure.io.files.SHIPPED", tmp_path)
    calibrations = study.calibrations("daisy", exported)
    assert "fitted on the other sequences" in study.log[0]
    gains = {both.paper.fine_var_gain for both in calibrations}
    assert len(gains) == 3  # one law for each sequence


def test_scenes_of_one_folder_are_judged_apart_by_laws_of_the_other(
    both: Path, pool: Engine, cache: Path
) -> None:
    study = study_of(pool, cache, both / "mega", cross_validate=True)
    label, scenes = f"daisy{CROSS_VALIDATED}", ["mega 0015", "mega 0022"]
    tails = of_study("tail", study).tables[0].rows
    assert [line[:2] for line in tails] == [[label, scene] for scene in scenes]
    parts = [row["data"] for row in of_study("laws", study).rows]
    assert list(dict.fromkeys(parts)) == ["depth 0015", "depth 0022", "depth"]
    poses = of_study("relative", study).tables[0].rows
    names = [line[0] for line in poses if line[1] == "core+"]
    assert names == [f"{label}, {part}" for part in (*scenes, "all")]
    laws = study.calibrations("daisy", study.exported("daisy"))
    assert laws[0].paper != laws[1].paper
    # Several folders are told apart by their names alone.
    pairs = study.exported("daisy")
    assert parts_of(["a", "b"], pairs) == ["a", "b"]


def test_true_residuals_by_depth_are_computed_once(
    both: Path, pool: Engine, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pair, _) = study_of(pool, cache, both / "mega").exported("daisy")
    matches, residual = with_truth(pair)
    monkeypatch.delattr("semisure.bench.exported.depth_residual")
    again, kept = with_truth(pair)
    assert len(again) == len(matches) > 0
    np.testing.assert_array_equal(kept, residual)


def test_calibrations_fitted_to_data_are_files_that_commands_take(
    root: Path, pool: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = study_of(pool, tmp_path / "c", root / "planar")
    outcome = of_study("calibration", study)
    write_outcome("calibration", study.options, outcome, tmp_path / "out")
    files = [str(tmp_path / "out" / f"daisy{twin}.json") for twin in ("", FAITHFUL)]
    ours, faithful = (load_calibration(file) for file in files)
    assert ours.location is not None
    assert faithful.location is None
    assert faithful.paper_symbols()["k_m"] == outcome.tables[0].rows[0][6]
    assert ours.provenance["pairs"] == 2
    again = study.changed(calibration=files[0])
    arms = "daisy.json for core+, daisy-faithful.json for the paper's arms"
    assert f"daisy: calibration {arms}." in of_study("homography", again).notes


def test_held_out_pairs_are_of_training_scenes_only(both: Path, tmp_path: Path) -> None:
    assert [pair.scene for pair in read_held_out(both / "mega")] == ["0001", "0002"]
    assert [pair.scene for pair in read_megadepth(both / "mega")] == ["0015", "0022"]
    write_scene(tmp_path, "0015")
    with pytest.raises(FileError, match=r"MegaDepth-1500's own scenes \(0015, 0022\)"):
        read_held_out(tmp_path)


def test_an_index_is_thinned_before_pairs_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six scenes of four pairs, two of them of too much or too little overlap."""
    for scene in range(6):
        write_megadepth(tmp_path, f"{scene:04d}", [0.05, 0.2, 0.6, 0.9], index=TRAINING)
    assert len(read_held_out(tmp_path)) == 12
    assert [pair.scene for pair in read_held_out(tmp_path, limit=8)].count("0000") == 2
    unread = [tmp_path / TRAINING / f"000{k}_0.1_0.7.npz" for k in (1, 3, 5)]
    for path in unread:
        path.write_bytes(b"")
    # One pair of every second scene, and no other file is opened.
    some = read_held_out(tmp_path, limit=3)
    assert [pair.scene for pair in some] == ["0000", "0002", "0004"]


def test_size_and_limit_do_not_reach_the_calibration(
    both: Path, pool: Engine, cache: Path
) -> None:
    asked = {"calibrate_on": both / "mega", "limit": 1}
    study = study_of(pool, cache, both / "planar", **asked)
    pairs = study.held_out("daisy")
    assert [one.size for one in pairs] == [CALIBRATION_SIZE] * 2
    assert len(study.exported("daisy")) == 1
    other = study.changed(calibration_pairs=1, calibration_size=SMALL)
    assert [one.size for one in other.held_out("daisy")] == [SMALL]
    # MegaDepth has an index of its own for it.
    mega = both / "mega"
    assert Options(data=[mega], calibrate_on=mega).calibrate_on == mega
    with pytest.raises(InputError, match="another folder than --data"):
        Options(data=[both / "planar"], calibrate_on=both / "planar")


def test_the_papers_optimiser_fits_where_it_can(
    both: Path, pool: Engine, cache: Path
) -> None:
    asked = {"calibrate_on": both / "mega", "calibration_size": SMALL}
    study = study_of(pool, cache, both / "mega", optimiser="powell", **asked)
    exported = study.exported("daisy")
    by_powell = study.calibrations("daisy", exported)[0]
    assert study.log[0].endswith("by powell.")
    by_newton = study.changed(optimiser="newton").calibrations("daisy", exported)[0]
    # Another path to the same optimum for the paper's law, the same fit for ours.
    assert by_powell.ours == by_newton.ours
    assert by_powell.paper != by_newton.paper


# -- what is written


def test_table_text_by_hand(tmp_path: Path) -> None:
    rows = [["one", 1.0], ["x", None], ["y", 12]]
    table = Table(name="t", title="Title", head=["", "a"], rows=rows, digits=1)
    assert table.text() == "Title\n       a\n--------\none  1.0\nx      –\ny     12\n"
    asked = Options(data=[tmp_path])
    write_outcome("weights", asked, Outcome(tables=[table]), tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"weights.txt", "t.csv", "weights.json"}


def test_command_lists_runs_and_complains(sequences: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    assert all(name in runner.invoke(app, ["bench"]).stdout for name in BENCHES)
    data = ["bench", "homography", "--data", str(sequences), "--size", "160x120"]
    asked = [*data, "--limit", "2", "-o", str(tmp_path)]
    done = runner.invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert "daisy" in done.stdout
    printed = runner.invoke(app, [*asked, "--json"])
    stored = json.loads((tmp_path / "homography.json").read_text())
    assert json.loads(printed.stdout) == stored
    with pytest.raises(InputError, match="The bench must be one of homography"):
        runner.invoke(app, ["bench", "nonsense"], catch_exceptions=False)
    assert runner.invoke(app, ["bench", "homography"]).exit_code == 2
    wrong = config(tmp_path, 'optimiser = "x"')
    with pytest.raises(InputError, match="optimiser must be one of"):
        runner.invoke(app, [*data, *wrong], catch_exceptions=False)
    others = runner.invoke(app, [*asked, "--calibrate-on", "others"])
    assert CROSS_VALIDATED in others.stdout
    quiet = runner.invoke(app, [*asked, "-q"])
    assert (quiet.exit_code, quiet.stdout) == (0, "")


def test_all_on_one_page_with_what_is_missing(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = {name: BENCHES[name] for name in ("tail", "laws")}
    monkeypatch.setattr("semisure.bench.run.BENCHES", some)
    # A single sequence: whatever needs cross-validation is skipped with its reason.
    asked = ["bench", "all", "--data", str(root / "thermal"), "--size", "160x120"]
    done = CliRunner().invoke(app, [*asked, "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "Skipped laws: Cross-validation needs pairs" in done.stdout
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "tail (Fig. 4)" in page
    assert "data:image/png;base64," in page
    assert "://" not in page
