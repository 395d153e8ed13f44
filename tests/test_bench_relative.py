"""Benches of relative poses and fundamental matrices: by hand, on a small scene."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

from bench_trees import posed_pair, small_matches
from semisure.bench import BENCHES
from semisure.bench.data import usable
from semisure.bench.files import document
from semisure.bench.options import Options
from semisure.bench.run import of_study
from semisure.bench.studies import fundamental as bench
from semisure.bench.studies.relative import (
    ARMS,
    ERROR,
    GAIN,
    THRESHOLDS,
    anchor_depth,
    block,
)
from semisure.bench.study import Study
from semisure.datasets.layouts import has_depth, is_posed, read_pairs, read_posed_pairs
from semisure.engine import Engine
from semisure.errors import FileError, InputError
from semisure.io.images import write_png
from two_planes import K, posed, render

POSES = {
    "a.png": posed(0, 0, 0, 0, 0, 0),
    "b.png": posed(0.01, -0.03, 0.02, -0.5, 0.05, 0.1),
    "c.png": posed(0.0, 0.04, -0.01, 0.6, 0.0, 0.0),
}
PAIRS = "name0,name1,overlap,tri_angle_deg\na.png,b.png,0.8,7\na.png,c.png,0.8,8\n"


def write_list(root: Path, pairs: str = PAIRS, depth: bool = True) -> Path:
    """Images, cameras, pairs and, if wanted, depth, in the layout of a list."""
    for folder in ("images", "depth") if depth else ("images",):
        (root / folder).mkdir(parents=True)
    lines = ["# name K R t", ""]
    for name, pose in POSES.items():
        image, metres = render(pose)
        write_png(root / "images" / name, image)
        if depth:
            stored = (1000 * metres).round().astype(np.uint16)
            cv2.imwrite(str(root / "depth" / name), stored)
        numbers = [*K.ravel(), *pose[:, :3].ravel(), *pose[:, 3]]
        lines.append(" ".join([name, *(repr(float(v)) for v in numbers)]))
    (root / "cameras.txt").write_text("\n".join(lines) + "\n")
    (root / "pairs.csv").write_text(pairs)
    return root


def write_phototourism(root: Path) -> Path:
    """The first pair in the layout of the Image Matching Challenge."""
    h5py = pytest.importorskip("h5py", reason="needs the extra store")
    for folder in ("images", "calibration", "new-vis-pairs"):
        (root / folder).mkdir(parents=True)
    corner = np.array([[1.0, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
    for name in ("a", "b"):
        pose = POSES[f"{name}.png"]
        cv2.imwrite(str(root / "images" / f"{name}.jpg"), render(pose)[0])
        with h5py.File(root / "calibration" / f"calibration_{name}.h5", "w") as file:
            file["K"], file["R"], file["T"] = corner @ K, pose[:, :3], pose[:, 3]
    np.save(root / "new-vis-pairs" / "keys-th-0.1.npy", np.array(["b-a"]))
    return root


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_list(tmp_path_factory.mktemp("listed") / "boards")


# -- by hand


def test_a_block_of_the_table_by_hand() -> None:
    rows = [{"base": 2.0, "core+": 1.0}, {"base": 2.0, "core+": 1.0, "core": 3.0}]
    printed = {line[1]: line for line in block("daisy, x", rows, seed=0)}
    assert list(printed) == ["base", "core", "core+", GAIN, ERROR]
    # Two errors of 2: recall rises to ½ on [0, 2], then is 1, so that the area up to 10
    # is 2 · ½ / 2 + 8 = 8.5; two of 1: ¼ + 9; one of 3: 3 / 2 + 7.
    at10 = 2 + THRESHOLDS.index(10)
    assert printed["base"][at10] == pytest.approx(85.0)
    assert printed["core+"][at10] == pytest.approx(92.5)
    assert printed["core"][at10] == pytest.approx(85.0)
    assert [printed[arm][-2:] for arm in ("base", "core")] == [[2.0, 2], [3.0, 1]]
    # Every draw has the same two errors: nothing is uncertain.
    assert printed[GAIN][at10] == pytest.approx(7.5)
    assert printed[ERROR][at10] == pytest.approx(0.0, abs=1e-9)
    # One of two pairs is lost by the base and exact after ours: a draw of two has 0, 1
    # or 2 of the exact one: 100 √(½ · ½ / 2).
    rows = [{"base": np.inf, "core+": 0.0}, {"base": np.inf, "core+": np.inf}]
    *_, gained, error = block("x", rows, seed=0)
    assert (gained[1], error[1]) == (GAIN, ERROR)
    assert gained[2:7] == pytest.approx([50.0] * 5)
    assert error[2:7] == pytest.approx([100 * np.sqrt(1 / 8)] * 5, rel=0.08)
    assert block("x", rows, seed=0)[-1] == error  # seeded


def test_depth_is_that_of_the_unrefined_point(tmp_path: Path) -> None:
    pair = posed_pair(tmp_path, hidden_from_row=30)  # 2 m there in image 1, else 4 m
    matches = small_matches(
        source=np.array([[10.0, 40.0], [10.0, 40.0], [99.0, 40.0]]),
        target=np.array([[14.0, 40.0]] * 3),
        side=np.array([1, 0, 1]),
    )
    depth = anchor_depth(pair, matches)
    assert depth is not None
    np.testing.assert_array_equal(depth, [4.0, 2.0, np.nan])
    blind = replace(pair, camera1=replace(pair.camera1, depth=None))
    assert anchor_depth(blind, matches) is None


# -- on a small scene


def test_a_list_with_depth_end_to_end(
    listed: Path, pool: Engine, tmp_path: Path
) -> None:
    options = Options(data=[listed], cache=tmp_path / "cache")
    outcome = of_study("relative", Study(options, pool))
    assert [row["pair"] for row in outcome.rows] == ["boards_a_b", "boards_a_c"]
    for row in outcome.rows:
        assert row["matches"] > 200
        assert row["threshold_px"] == 1.0
        # Rendered without noise: the likelihood is as good as the interpolation.
        assert row["core+"] < 0.15
        assert row["core+"] < row["base"] < 3.0
        assert row["depth-core"] < 1.0
    shown = [line[1] for line in outcome.tables[0].rows if line[0] == "daisy, boards"]
    # The shipped law of daisy has no location: nothing to take off.
    assert shown == [*(arm for arm in ARMS if arm != "base − shift"), GAIN, ERROR]
    assert not any(str(line[0]).endswith(", all") for line in outcome.tables[0].rows)
    published = outcome.tables[0].rows[0]
    assert published[:3] == ["EfficientLoFTR, MegaDepth-1500, paper", "base", 8.06]
    stored = document("relative", options, outcome)
    assert stored["settings"]["size"] is None  # as they are


def test_two_folders_are_pooled_and_a_size_scales_the_cameras(
    listed: Path, pool: Engine, tmp_path: Path
) -> None:
    other = write_phototourism(tmp_path / "internet")
    options = Options(
        data=[listed, other], size=(280, 240), limit=1, cache=tmp_path / "cache"
    )
    outcome = of_study("relative", Study(options, pool))
    lines = {tuple(line[:2]): line for line in outcome.tables[0].rows}
    assert lines["daisy, all", "core+"][-1] == 2
    assert lines["daisy, all", "depth-core"][-1] == 1  # the list's pair
    assert ("daisy, internet", "depth-core") not in lines
    # 320 px of width brought to 280, K along with them: the poses stay right.
    assert all(row["core+"] < 0.5 for row in outcome.rows)


def test_every_layout_is_recognised(listed: Path, tmp_path: Path, study) -> None:
    assert is_posed(listed)
    assert has_depth(read_pairs(listed))
    internet = write_phototourism(tmp_path / "internet")
    assert is_posed(internet)
    assert not has_depth(read_pairs(internet))
    (pair,) = read_posed_pairs(internet)
    np.testing.assert_allclose(pair.camera0.K, K)  # its corners, our centres
    np.testing.assert_allclose(pair.P_01, POSES["b.png"], atol=1e-12)
    plane = tmp_path / "plane"
    (plane / "v_a").mkdir(parents=True)
    np.savetxt(plane / "v_a" / "H_1_2", np.eye(3))
    mixed = study.on([plane, internet]).options
    assert usable(mixed, BENCHES["relative"])[0] == [internet]
    assert usable(mixed, BENCHES["laws"])[0] == [plane]  # the other has no depth


@pytest.fixture
def study(listed: Path, pool: Engine, tmp_path: Path) -> Study:
    return Study(Options(data=[listed], cache=tmp_path), pool)


# -- what goes wrong


def test_what_cannot_be_used_is_one_sentence(study: Study, tmp_path) -> None:
    with pytest.raises(InputError, match=r"one of ransac, .* but is 'gc-ransac'"):
        of_study("relative", study.changed(estimator="gc-ransac"))
    with pytest.raises(InputError, match=r"needs pairs with cameras.*but no cameras"):
        usable(study.on([tmp_path]).options, BENCHES["relative"])
    # Pairs of too little overlap or too small an angle are left out.
    narrow = PAIRS.replace("0.8,7", "0.2,7").replace("0.8,8", "0.8,4")
    root = write_list(tmp_path / "stereo", narrow, depth=False)
    with pytest.raises(InputError, match="There is no pair to use"):
        of_study("relative", study.on([root]))


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("pairs.csv", None, r"There is no .*pairs\.csv"),
        ("pairs.csv", PAIRS.replace("b.png", "z.png"), "'z.png' breaks this"),
        ("cameras.txt", "a.png 1 2 3\n", "must hold 21 numbers"),
    ],
)
def test_damaged_lists_are_named(
    tmp_path: Path, name: str, content: str | None, sentence: str
) -> None:
    root = write_list(tmp_path / "list", depth=False)
    (root / name).unlink()
    if content is not None:
        (root / name).write_text(content)
    with pytest.raises(FileError, match=sentence):
        read_posed_pairs(root)


def test_damaged_phototourism_is_named(tmp_path: Path) -> None:
    root = write_phototourism(tmp_path / "internet")
    for file, words in (
        ("calibration/calibration_a.h5", "is not a camera"),
        ("new-vis-pairs/keys-th-0.1.npy", "is not a list of pairs"),
    ):
        (root / file).write_bytes(b"neither HDF5 nor NumPy")
        with pytest.raises(FileError, match=rf"{file} {words}"):
            read_posed_pairs(root)


# -- fundamental matrices


def test_the_distance_of_lines_by_hand() -> None:
    """Lines of a sideways move are rows: the distance is that of the rows."""
    matches = small_matches(
        source=np.array([[10.0, 10.0], [20.0, 20.0], [30.0, 30.0]]),
        target=np.array([[5.0, 10.0], [15.0, 22.0], [25.0, 37.0]]),
    )
    F = np.array([[0.0, 0, 0], [0, 0, -1], [0, 1, 0]])
    assert bench.median_distance(F, matches) == pytest.approx(2.0)
    assert bench.median_distance(None, matches) == np.inf


def test_lines_of_the_tables_by_hand() -> None:
    rows = [{"base": 2.0, "core": 2.0, "core+": 1.0} for _ in range(2)]
    for row, far in zip(rows, (0.4, 0.8), strict=True):
        row |= {"base px": far, "core px": far, "core+ px": far - 0.3}
    base, _, ours = bench.arm_lines("x", rows)
    # Two errors of 2: recall rises to ½ on [0, 2], then is 1: (2 · ½ / 2 + 8) / 10.
    assert base[5] == pytest.approx(85.0)
    assert ours[5] == pytest.approx(92.5)
    assert base[-3:] == pytest.approx([0.6, 2.0, 2])
    assert ours[-3:] == pytest.approx([0.3, 1.0, 2])
    core, plus = bench._gains("x", rows, seed=0)
    assert core[5:] == ["+0.0 ± 0.0", "+0.0 ± 0.0", "+0.000 ± 0.000", 2]
    assert plus[5] == "+7.5 ± 0.0"
    assert plus[7:] == ["-0.300 ± 0.000", 2]
    blind = [{"base": 2.0, "core": 2.0, "core+": np.inf}]
    assert bench.arm_lines("x", blind)[0][-3:] == [None, 2.0, 1]
    assert bench._gains("x", blind, seed=0)[1][-2:] == [None, 1]


def test_scenes_with_and_without_depth_end_to_end(
    pool: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "FUNDAMENTAL_ESTIMATORS", ("ransac",))
    roots = [write_list(tmp_path / "boards"), write_phototourism(tmp_path / "internet")]
    options = Options(data=roots, limit=1, cache=tmp_path / "cache")
    outcome = of_study("fundamental", Study(options, pool))
    listed, internet = outcome.rows
    assert (listed["data"], internet["data"]) == ("boards", "internet")
    # Rendered without noise: a fraction of a pixel, and better after the refit.
    assert listed["core+ px"] < 0.1
    assert listed["core+ px"] < listed["base px"]
    assert listed["core+"] < 1.0
    assert listed["kept"] is None
    assert internet["core+"] < 1.0
    assert f"base{bench.PX}" not in internet
    arms = [arm for arm in bench.ARMS if arm != "base − shift"]  # daisy has no location
    names = [line[:2] for line in outcome.tables[0].rows]
    assert [arm for name, arm in names if name == "daisy, all, ransac"] == arms
