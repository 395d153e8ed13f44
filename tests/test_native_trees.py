"""Every bench on made-up data in the native layouts, from one command.

HPatches, MTV, MegaDepth-1500 with its training index, and Aachen v1.1, each as it
unpacks, under one folder; the paper's sizes, split and protocols, the embedded matcher.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench_trees import add_sequence, write_mtv, write_scene
from semisure.bench import BENCHES
from semisure.bench.studies.localisation import AACHEN_SIZE
from semisure.cli import app
from test_maps import write_aachen

pytest.importorskip("h5py", reason="needs the extra store")
pytestmark = pytest.mark.slow
HPATCHES, MEGADEPTH = "hpatches-sequences-release", "megadepth"


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("trees")
    for k, name in enumerate(("i_ajuntament", "v_abstract", "i_dc")):
        add_sequence(root / HPATCHES / name, 20 + k)
    for k, scene in enumerate(("Racing", "jinxia")):
        write_mtv(root / "MTV", scene, 30 + k)
    for scene in ("0015", "0022"):
        write_scene(root / MEGADEPTH, scene)
    for scene in ("0001", "0004", "0015"):
        write_scene(root / MEGADEPTH, scene, index="index/scene_info_0.1_0.7")
    write_aachen(root / "aachen_v1.1")
    return root


@pytest.fixture(scope="module")
def done(trees: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `semisure bench all --json` says."""
    out = tmp_path_factory.mktemp("out")
    asked = ["bench", "all", "--data", str(trees), "--json", "-o", str(out)]
    asked += ["--calibrate-on", str(trees / MEGADEPTH)]
    answer = CliRunner().invoke(app, asked)
    assert answer.exit_code == 0, answer.output
    return json.loads(answer.stdout)


def test_every_bench_ran(done: dict[str, Any]) -> None:
    assert set(done["benches"]) | set(done["skipped"]) == set(BENCHES)
    assert done["skipped"] == {}, done["skipped"]
    assert all(one["tables"][0]["rows"] for one in done["benches"].values())


def test_laws_were_fitted_to_training_scenes_at_the_papers_size(
    done: dict[str, Any],
) -> None:
    note = "calibrated on 2 pairs of megadepth at 1280 × 960 by newton"
    for name in ("homography", "weights", "estimators", "initial", "posterior", "tail"):
        assert any(note in text for text in done["benches"][name]["notes"]), name
    laws = " ".join(done["benches"]["laws"]["notes"])
    assert "daisy, depth: judged on 2 pairs; calibrated on 2 pairs" in laws
    sized = " ".join(done["benches"]["resolution"]["notes"])
    assert "calibrated on 2 pairs of megadepth at 960 × 640" in sized
    for name, one in done["benches"].items():
        text = json.dumps(one["tables"], ensure_ascii=False)
        assert "cross-validated" not in text, name


def test_each_data_set_has_its_protocol(done: dict[str, Any]) -> None:
    data = done["benches"]["homography"]["settings"]["data"]
    sizes = {Path(root).name: one["size"] for root, one in data.items()}
    assert (sizes[HPATCHES], sizes["MTV"]) == ([1280, 960], [960, 640])
    names = [table["name"] for table in done["benches"]["homography"]["tables"]]
    assert {"homography", "homography_mtv"} <= set(names)
    # i_dc is one of the sequences that evaluations leave out.
    pairs = {row["pair"] for row in done["benches"]["weights"]["rows"]}
    assert pairs == {"i_ajuntament_2", "v_abstract_2"}


def test_easy_pairs_come_out_right(done: dict[str, Any]) -> None:
    """Everything moves by 5 px of 320; `core`, which has no guard, is left out."""
    for row in done["benches"]["homography"]["rows"]:
        assert max(row["base"], row["core+"]) < 1.0, row


def test_aachen_is_localised_as_the_paper_does(done: dict[str, Any]) -> None:
    notes = " ".join(done["benches"]["localisation"]["notes"])
    width, height = AACHEN_SIZE
    assert f"by pairs-query-netvlad50, images at {width} × {height}" in notes
    assert "inliers within 12 px" in notes
