"""The benches: caches, workers, tables; on small trees made here."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from bench_trees import texture
from semisure.bench import BENCHES, match_cache, paper
from semisure.bench.cross_validation import folds
from semisure.bench.data import pairs_of, usable
from semisure.bench.exported import resizing
from semisure.bench.figures import draw
from semisure.bench.law_scores import LawScores
from semisure.bench.match_cache import Job, Setup
from semisure.bench.options import Options
from semisure.bench.outcome import Outcome, Panel, Table, plain, rows_as_csv
from semisure.bench.outcome_files import document, text_of, write_outcome
from semisure.bench.run import run_bench
from semisure.bench.studies.initial import binned
from semisure.bench.studies.posterior import curves
from semisure.bench.study import Study
from semisure.cli import app
from semisure.datasets.depth_truth import depth_residual
from semisure.datasets.posed import PosedCamera, PosedPair
from semisure.engine import (
    Engine,
    EngineSettings,
    in_order,
)
from semisure.errors import FileError, InputError, MissingExtraError
from semisure.io.images import write_png
from semisure.synthetic import SyntheticMatcher
from semisure.types import Matches, Pair
from settings_file import config

SIZE = (160, 120)
SCENES = ("fountain-P11", "redkitchen")


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sequences of one photo and two views each."""
    root = tmp_path_factory.mktemp("sequences")
    for seed, name in enumerate(("i_a", "v_b", "v_c")):
        folder = root / name
        folder.mkdir()
        grey = texture(seed)
        write_png(folder / "1.png", grey.astype(np.uint8))
        for k in (2, 3):
            H = np.array([[1, 0.01 * k, 3.0 * k], [0, 1, -2.0 * seed], [0, 0, 1]])
            view = cv2.warpPerspective(grey, H, (320, 240))
            write_png(folder / f"{k}.png", view.astype(np.uint8))
            np.savetxt(folder / f"H_1_{k}", H)
    return root


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def options_for(tree: Path, cache: Path) -> Options:
    return Options(data=[tree], size=SIZE, cache=cache)


@pytest.fixture
def study(tree: Path, cache: Path, pool: Engine) -> Study:
    return Study(options_for(tree, cache), pool)


def job_for(tree: Path, cache: Path) -> Job:
    pair = Pair(
        name="one",
        image0=tree / "i_a" / "1.png",
        image1=tree / "i_a" / "2.png",
        H_01=np.eye(3),
    )
    setup = Setup(matcher="daisy", size=SIZE)
    return Job(pair=pair, setup=setup, cache=cache, fingerprint="x")


def test_resizing_maps_pixel_centres() -> None:
    # The centre of pixel 0 of 100 lies at 0.5; twice as large, at 1: pixel 0.5.
    H = resizing(np.array([100, 50]), np.array([200, 100]))
    np.testing.assert_allclose(H @ [0, 0, 1], [0.5, 0.5, 1])
    np.testing.assert_allclose(H @ [99, 49, 1], [198.5, 98.5, 1])


def test_truth_follows_the_images_to_their_size(tree: Path, tmp_path: Path) -> None:
    done = match_cache.export(job_for(tree, tmp_path))
    np.testing.assert_allclose(done.truth, np.eye(3), atol=1e-12)
    assert done.matches().source_size == SIZE
    assert done.group == "i_a/1.png"


def test_second_export_runs_no_matcher(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_for(tree, tmp_path)
    first = match_cache.export(job)
    monkeypatch.setattr(match_cache, "_match", lambda job: pytest.fail("matched again"))
    assert match_cache.export(job).seconds == first.seconds


@pytest.mark.parametrize("how", ["cut", "flip", "empty", "foreign"])
def test_damaged_cache_is_made_again(tree: Path, tmp_path: Path, how: str) -> None:
    job = job_for(tree, tmp_path)
    file = match_cache.export(job).file
    good = file.read_bytes()
    middle = len(good) // 2
    damaged = {
        "cut": good[:middle],
        "flip": good[:middle] + bytes([good[middle] ^ 255]) + good[middle + 1 :],
        "empty": b"",
        "foreign": b"not a zip file",
    }[how]
    file.write_bytes(damaged)
    assert len(match_cache.export(job).matches()) > 20


def test_arrays_changed_inside_a_sound_file_are_noticed(
    tree: Path, tmp_path: Path
) -> None:
    job = job_for(tree, tmp_path)
    file = match_cache.export(job).file
    with np.load(file) as stored:
        arrays = dict(stored)
    arrays["confidence"] = arrays["confidence"] * 0.5
    np.savez(file, **arrays)
    before = arrays["confidence"].max()
    assert match_cache.export(job).matches().confidence.max() > before


def test_a_changed_setting_never_reuses_a_file(tree: Path, tmp_path: Path) -> None:
    job = job_for(tree, tmp_path)
    turned = replace(job.pair, image1=tree / "i_a" / "3.png")
    changed = [
        replace(job, setup=replace(job.setup, size=(176, 128))),
        replace(job, setup=replace(job.setup, max_side=128)),
        replace(job, setup=replace(job.setup, device="cuda")),
        replace(job, fingerprint="y"),
        replace(job, pair=turned),
    ]
    files = {match_cache._file(one) for one in [job, *changed]}
    assert len(files) == 6
    # The truth is no part of the matches: a mended homography costs no matching.
    mended = replace(job, pair=replace(job.pair, H_01=2 * np.eye(3)))
    assert match_cache._file(mended) == match_cache._file(job)


def test_missing_image_is_named(tree: Path, tmp_path: Path) -> None:
    job = job_for(tree, tmp_path)
    lost = replace(job.pair, image1=tree / "i_a" / "9.png")
    with pytest.raises(FileError, match=r"There is no image .*9\.png"):
        match_cache.export(replace(job, pair=lost))


def test_results_do_not_depend_on_the_number_of_workers(
    tree: Path, tmp_path: Path
) -> None:
    texts = []
    for count in (1, 2):
        options = options_for(tree, tmp_path / str(count))
        outcome = run_bench("homography", options, engine=EngineSettings(workers=count))
        stored = document("homography", options, outcome)
        texts.append(json.dumps([stored["tables"], stored["rows"], stored["notes"]]))
    assert texts[0] == texts[1]


def test_interrupted_export_goes_on(tree: Path, tmp_path: Path, pool: Engine) -> None:
    study = Study(options_for(tree, tmp_path), pool)
    files = [e.file for e in study.exported("daisy")]
    kept = {file: file.stat().st_mtime_ns for file in files[1:]}
    files[0].unlink()
    again = study.exported("daisy")
    assert [e.file for e in again] == files
    assert {file: file.stat().st_mtime_ns for file in files[1:]} == kept


def test_errors_of_workers_come_back_as_sentences(tmp_path: Path, pool: Engine) -> None:
    job = job_for(tmp_path, tmp_path)
    with pytest.raises(FileError, match="There is no image"):
        in_order(pool, match_cache.export, [job])


def test_a_missing_extra_is_reported_from_a_worker_too() -> None:
    error = MissingExtraError("kornia", "torch", "XFeat*")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert isinstance(again, MissingExtraError)
    assert str(again) == str(error)


def test_no_group_is_split_by_folds() -> None:
    groups = [name for name in "abcdefg" for _ in range(3)]
    fold = folds(groups, 5)
    assert all(len(set(fold[k : k + 3])) == 1 for k in range(0, 21, 3))
    assert set(fold.tolist()) == {0, 1, 2, 3, 4}
    with pytest.raises(InputError, match="at least 2 sequences"):
        folds(["a", "a"], 5)


def test_limit_takes_pairs_from_everywhere(study: Study) -> None:
    options = replace(study.options, limit=3)
    some = pairs_of(options, options.data[0])
    assert [pair.name for pair in some] == ["i_a_2", "v_b_2", "v_c_2"]


def test_table_text_by_hand() -> None:
    table = Table(
        name="t",
        title="Title",
        head=["", "a"],
        rows=[["one", 1.0], ["x", None], ["y", 12]],
        digits=1,
    )
    assert table.text() == "Title\n       a\n--------\none  1.0\nx      –\ny     12\n"


def test_json_and_csv_of_awkward_numbers() -> None:
    assert plain({"a": (np.float64("inf"), float("nan"), np.int64(3))}) == {
        "a": [None, None, 3]
    }
    assert rows_as_csv([{"a": 1}, {"b": None, "a": 2}]) == b"a,b\n1,\n2,\n"


def test_the_papers_tables_are_whole() -> None:
    assert set(paper.HPATCHES) == set(paper.MTV) == set(paper.MATCHERS)
    assert set(paper.BY_ESTIMATOR) == set(paper.ESTIMATORS)
    assert sum(int(row[0]) for row in paper.BY_INITIAL.values()) == 540
    assert paper.BY_ESTIMATOR["ransac"] == paper.HPATCHES["eloftr"]


def test_homography_bench_is_right_on_easy_pairs(study: Study, tmp_path: Path) -> None:
    from semisure.bench.studies.homography import homography

    outcome = homography(study)
    assert len(outcome.rows) == 6
    assert all(row["core"] < 2.0 and row["core+"] < 2.0 for row in outcome.rows)
    write_outcome("homography", study.options, outcome, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert {f"homography.{k}" for k in ("txt", "csv", "json", "png", "svg")} <= names
    stored = json.loads((tmp_path / "homography.json").read_text())
    root = str(study.options.data[0])
    asked = {"protocol": "hpatches", "size": list(SIZE)}
    assert stored["settings"]["data"] == {root: asked}
    assert stored["settings"]["threshold_px"] == 3.0
    assert stored["versions"]["semisure"]
    assert len(stored["rows"]) == 6
    assert "daisy: the shipped calibration" in text_of(outcome)


def test_estimators_and_weights_print_the_paper_beside_ours(study: Study) -> None:
    from semisure.bench.studies.estimators import estimators
    from semisure.bench.studies.weights import weights

    table = estimators(study).tables[0]
    assert len(table.rows) == 5 * (2 + 3)
    table = weights(study).tables[0]
    arms = [row[1] for row in table.rows if row[0] == "daisy"]
    readings = ["fine-std-inliers", "fine-std-blind"]
    assert [arm for arm in arms if arm in paper.BY_WEIGHT] == list(paper.BY_WEIGHT)
    assert arms[-6:] == ["fine-std", *readings, "core", "core-guarded", "core+"]


def test_without_a_shipped_calibration_the_fit_is_cross_validated(
    study: Study, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    exported = study.exported("daisy")
    monkeypatch.setattr("semisure.io.files.SHIPPED", tmp_path)
    calibrations, remark = study.calibrations("daisy", exported)
    assert "3-fold cross-validation by sequence" in remark
    assert study.label("daisy") == "daisy (law fitted on these data, cross-validated)"
    pairs = zip(exported, calibrations, strict=True)
    by_group = {e.group: both.paper.fine_var_gain for e, both in pairs}
    assert len(set(by_group.values())) == 3


def test_a_pair_without_matches_errs_infinitely(tmp_path: Path, cache: Path) -> None:
    folder = tmp_path / "v_flat"
    folder.mkdir()
    for k in (1, 2):
        write_png(folder / f"{k}.png", np.full((120, 160), 128, np.uint8))
    np.savetxt(folder / "H_1_2", np.eye(3))
    outcome = run_bench("homography", options_for(tmp_path, cache))
    assert outcome.rows[0]["base"] == float("inf")
    assert outcome.rows[0]["core+"] == float("inf")


def test_command_lists_runs_and_complains(tree: Path, tmp_path: Path) -> None:
    runner = CliRunner()
    listed = runner.invoke(app, ["bench"])
    assert all(name in listed.stdout for name in BENCHES)
    arguments = ["bench", "homography", "--data", str(tree), "--size", "160x120"]
    done = runner.invoke(app, [*arguments, "--limit", "2", "-o", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "daisy" in done.stdout
    assert (tmp_path / "homography_rows.csv").is_file()
    quiet = runner.invoke(app, [*arguments, "--limit", "2", "-q", "-o", str(tmp_path)])
    assert (quiet.exit_code, quiet.stdout) == (0, "")
    printed = runner.invoke(
        app, [*arguments, "--limit", "2", "--json", "-o", str(tmp_path)]
    )
    assert json.loads(printed.stdout) == json.loads(
        (tmp_path / "homography.json").read_text()
    )
    with pytest.raises(InputError, match="The bench must be one of homography"):
        runner.invoke(app, ["bench", "nonsense"], catch_exceptions=False)
    assert runner.invoke(app, ["bench", "homography"]).exit_code == 2
    with pytest.raises(InputError, match="protocol must be one of"):
        runner.invoke(
            app,
            [*arguments, *config(tmp_path, 'protocol = "x"')],
            catch_exceptions=False,
        )


def test_outcome_without_figures_is_fine(tmp_path: Path, tree: Path) -> None:
    table = Table(name="t", title="T", head=["a"], rows=[["b"]])
    options = Options(data=[tree])
    write_outcome("weights", options, Outcome(tables=[table]), tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {
        "weights.txt",
        "t.csv",
        "weights.json",
    }


def test_narrow_logarithmic_axes_have_ticks_that_can_be_read() -> None:
    x = np.linspace(0.03, 0.9, 20)
    panel = Panel(title="", xlabel="", ylabel="", lines={"a": (x, x)}, xscale="log")
    axes = draw([panel]).axes[0]
    axes.set_xlim(0.03, 0.9)
    shown = [t.get_text() for t in axes.get_xticklabels() if t.get_text()]
    assert {"0.05", "0.1", "0.2", "0.5"} <= set(shown)
    assert not any(t.get_text() for t in axes.get_xticklabels(minor=True))


def test_laws_bench_prefers_a_calibrated_mixture(study: Study) -> None:
    from semisure.bench.studies.laws import laws

    outcome = laws(study)
    ours = {row["law"]: row for row in outcome.rows}
    assert set(paper.LAWS) < set(ours)
    assert ours["mixture"]["nll"] < ours["uncalibrated"]["nll"]
    assert "cross-validation by sequence" in outcome.notes[0]
    names = [str(row[0]) for row in outcome.tables[0].rows]
    assert all("paper" in name or "cross-validated" in name for name in names)


def test_strata_and_ece_of_a_law_by_hand() -> None:
    scores = LawScores(
        nll=np.array([1.0, 2.0, 6.0]),
        expected=np.array([1.0, 2.0, 10.0]),
        observed=np.array([1.0, 3.0, 20.0]),
    )
    # Mean 3; below 8 px the mean of 1 and 2; nothing beyond 64. One match a bin: the
    # gaps are 0, 1 and 10. The order is the same.
    numbers = scores.numbers()
    np.testing.assert_allclose(numbers[:3], [3.0, 1.5, 6.0])
    assert np.isnan(numbers[3])
    np.testing.assert_allclose(numbers[4:], [11 / 3, 1.0])


def test_bins_of_initial_error_by_hand() -> None:
    rows = [
        {"base": base, "core": core, "base inliers": 10, "core inliers": n}
        for base, core, n in ((0.5, 0.6, 9), (2.0, 1.0, 15), (2.5, 2.0, 11))
    ]
    rows.append({**rows[0], "base": float("inf"), "core": float("inf")})
    bins = binned(rows, "core")
    assert len(bins) == 7
    # Reductions 1 and 0.5, both better; 5 and 1 more inliers; 50 % and 20 %.
    np.testing.assert_allclose(bins[1], [2, 0.75, 100, 3, 35])
    np.testing.assert_allclose(bins[0], [1, -0.1, 0, -1, -20])
    assert [row[0] for row in bins[2:]] == [0] * 5


def test_roc_and_precision_by_hand() -> None:
    score = np.array([0.9, 0.8, 0.8, 0.1])
    positive = np.array([True, True, False, False])
    false, recall, precision = curves(score, positive)
    np.testing.assert_allclose(false, [0, 0.5, 1])
    np.testing.assert_allclose(recall, [0.5, 1, 1])
    np.testing.assert_allclose(precision, [1, 2 / 3, 0.5])


def test_initial_and_posterior_benches_run(study: Study, tmp_path: Path) -> None:
    from semisure.bench.studies.initial import initial
    from semisure.bench.studies.posterior import posterior

    outcome = initial(study)
    counts = [row[3] for row in outcome.tables[0].rows if row[:2] == ["daisy", "core"]]
    assert sum(counts) == 6
    write_outcome("initial", study.options, outcome, tmp_path)
    assert (tmp_path / "initial.svg").is_file()
    outcome = posterior(study)
    ours = outcome.tables[0].rows[1]
    assert ours[:2] == ["daisy", "cell"]
    assert outcome.tables[0].rows[2][:2] == ["daisy", "window"]
    # The window is twice as wide as the cell, so that no success by it is rarer.
    assert 0.2 < ours[4] <= outcome.tables[0].rows[2][4] <= 1.0
    write_outcome("posterior", study.options, outcome, tmp_path)


def test_quantity_fits_subsets_of_one_half_only(study: Study) -> None:
    from semisure.bench.studies.quantity import DRAWS, quantity

    rows = quantity(study).rows
    # Three sequences of two pairs: halves of four and two pairs, so N = 2 in both; of
    # the two pairs there is but one subset.
    assert [row["pairs"] for row in rows] == [2] * (DRAWS + 1)
    assert all("newton seconds" in row for row in rows)
    assert sum("powell seconds" in row for row in rows) == 2
    assert all(np.isfinite(row["held-out nll"]) for row in rows)


def test_resolution_is_judged_where_it_was_not_fitted(
    study: Study, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from semisure.bench.studies import resolution

    monkeypatch.setattr(resolution, "SIZES", (SIZE, (200, 150)))
    monkeypatch.setattr(resolution, "FITTED_AT", SIZE)
    outcome = resolution.resolution(study)
    shown = [row[1:3] for row in outcome.tables[0].rows]
    assert shown == [
        ["160x120", "fine_only"],
        ["160x120", "mixture"],
        ["200x150", "fine_only"],
        ["200x150", "mixture"],
    ]
    write_outcome("resolution", study.options, outcome, tmp_path)


def test_tail_and_runtime_benches_run(study: Study, tmp_path: Path) -> None:
    from semisure.bench.studies.runtime import STAGES, runtime
    from semisure.bench.studies.tail import tail

    outcome = tail(study)
    predicted, observed, pairs = outcome.tables[0].rows[0][2:5]
    assert 0 < predicted < 1
    assert 0 <= observed < 1
    assert pairs == 6
    write_outcome("tail", study.options, outcome, tmp_path)
    outcome = runtime(study)
    cues = ("coarse cues", "fine cues")
    timed = [stage for stage in STAGES if stage not in cues]
    assert all(row[stage] > 0 for row in outcome.rows for stage in timed)
    # The embedded matcher's cues come with its search.
    assert all(row[stage] == 0 for row in outcome.rows for stage in cues)
    mean = np.mean([row["core"] for row in outcome.rows])
    assert outcome.tables[0].rows[0][2 + STAGES.index("core")] == pytest.approx(mean)
    write_outcome("runtime", study.options, outcome, tmp_path)


def test_tail_is_over_all_matches_and_observed_where_truth_is_known() -> None:
    from semisure.bench.studies.tail import _total

    about = {"matcher": "m", "data": "d"}
    rows = [
        {**about, "matches": 30, "known": 10, "predicted": 0.1, "observed": 0.5},
        {**about, "matches": 10, "known": 0, "predicted": 0.5, "observed": None},
        {**about, "matches": 0, "known": 0, "predicted": None, "observed": None},
    ]
    # (30 · 0.1 + 10 · 0.5) / 40 over all, and 0.5 of the ten whose error is known.
    assert _total(rows, "m", "d") == (pytest.approx(0.2), 0.5, 3, 40, 10)


def test_all_on_one_page_with_what_is_missing(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = {name: BENCHES[name] for name in ("homography", "laws")}
    monkeypatch.setattr("semisure.bench.run.BENCHES", some)
    # A single sequence: whatever needs cross-validation is skipped with its reason.
    for name in ("1.png", "2.png", "H_1_2"):
        target = tmp_path / "data" / "i_a" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((tree / "i_a" / name).read_bytes())
    arguments = ["bench", "all", "--data", str(tmp_path / "data")]
    arguments += ["--size", "160x120", "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "Skipped laws: Cross-validation needs pairs" in done.stdout
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "homography (Tab. 1)" in page
    assert "data:image/png;base64," in page
    assert "http://" not in page
    assert "https://" not in page


def posed_pair(folder: Path, hidden_from_row: int) -> PosedPair:
    """A wall 4 m away seen by two cameras 0.25 m apart: everything moves by 4 px."""
    cameras = []
    for k in (0, 1):
        depth = np.full((48, 64), 4000, np.uint16)
        if k == 1:
            depth[hidden_from_row:] = 2000  # something stands before the wall
        cv2.imwrite(str(folder / f"{k}.png"), depth)
        camera = PosedCamera(
            image=folder / f"{k}.jpg",
            K=np.diag([64.0, 64.0, 1.0]),
            R=np.eye(3),
            t=np.array([0.25 * k, 0, 0]),
            depth=folder / f"{k}.png",
        )
        cameras.append(camera)
    return PosedPair(name="p", camera0=cameras[0], camera1=cameras[1], scene="s")


@pytest.mark.parametrize("side", [0, 1])
def test_residual_from_depth_by_hand(tmp_path: Path, side: int) -> None:
    pair = posed_pair(tmp_path, hidden_from_row=30)
    source = np.array([[10.0, 10.0], [20.0, 20.0], [10.0, 40.0], [62.0, 10.0]])
    matches = Matches(
        source=source,
        target=source + np.array([5.0, -2.0]),
        confidence=np.ones(4),
        fine_std=np.ones((4, 2)),
        coarse_std=np.ones((4, 2)),
        source_size=(64, 48),
        target_size=(64, 48),
        side=side,
    )
    residual = depth_residual(pair, matches)
    # The truth is 4 px to the right: off by (1, −2) in image 1, by (−1, 2) in image 0.
    off = np.array([1.0, -2.0]) * (1 if side else -1)
    np.testing.assert_allclose(residual[:2], [off, off], atol=1e-9)
    # Hidden in image 1; and beyond its edge, or of no depth there.
    assert np.isnan(residual[2:]).all()


def test_posed_pairs_without_depth_or_for_homographies_are_refused(
    study: Study, tmp_path: Path
) -> None:
    pair = posed_pair(tmp_path, 48)
    blind = replace(pair, camera0=replace(pair.camera0, depth=None))
    one = SyntheticMatcher().match(np.eye(3), count=20, seed=0)[0]
    with pytest.raises(FileError, match=r"There is no depth of .*0\.jpg"):
        depth_residual(blind, one)
    (tmp_path / "cameras.txt").touch()
    (tmp_path / "pairs.csv").touch()
    with pytest.raises(InputError, match="no homographies: "):
        usable(study.on([tmp_path]).options, BENCHES["homography"])
    tree = study.options.data[0]
    both = study.on([tree, tmp_path]).options
    planar = usable(both, BENCHES["homography"])
    assert planar.roots == [tree]
    assert "no homographies" in planar.remarks[0]
    assert usable(both, BENCHES["laws"]).roots == [tree, tmp_path]


def test_laws_on_posed_scenes(cache: Path, pool: Engine) -> None:
    roots = [Path(__file__).parents[2] / "shared/data/posed" / name for name in SCENES]
    if not all(root.is_dir() for root in roots):
        pytest.skip("needs ../shared/data/posed")
    from semisure.bench.studies.laws import laws

    options = Options(data=roots, size=(320, 240), cache=cache, limit=2)
    rows = laws(Study(options, pool)).rows
    ours = {row["law"]: row["nll"] for row in rows}
    assert ours["mixture"] < ours["fine_only"]
