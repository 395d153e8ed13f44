"""The bench of fundamental matrices: by hand, and on a small scene with known depth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from semisure.bench.fundamental_errors import ARMS, PX, median_distance
from semisure.bench.options import Options
from semisure.bench.outcome_files import write_outcome
from semisure.bench.run import of_study
from semisure.bench.studies import fundamental as bench
from semisure.bench.study import Study
from semisure.engine import Engine
from semisure.types import Matches
from test_bench_relative import write_list, write_phototourism


def test_the_median_distance_by_hand() -> None:
    """Lines of a sideways move are rows: the distance is that of the rows."""
    matches = Matches(
        source=np.array([[10.0, 10.0], [20.0, 20.0], [30.0, 30.0]]),
        target=np.array([[5.0, 10.0], [15.0, 22.0], [25.0, 37.0]]),
        confidence=np.ones(3),
        fine_std=np.ones((3, 2)),
        coarse_std=np.ones((3, 2)),
        source_size=(64, 48),
        target_size=(64, 48),
    )
    F = np.array([[0.0, 0, 0], [0, 0, -1], [0, 1, 0]])
    assert median_distance(F, matches) == pytest.approx(2.0)
    assert median_distance(None, matches) == np.inf


def test_lines_of_the_tables_by_hand() -> None:
    rows = [{"base": 2.0, "core": 2.0, "core+": 1.0} for _ in range(2)]
    for row, far in zip(rows, (0.4, 0.8), strict=True):
        row |= {"base px": far, "core px": far, "core+ px": far - 0.3}
    base, _, ours = bench.arm_rows("x", rows)
    # Two errors of 2: recall rises to ½ on [0, 2], then is 1: (2 · ½ / 2 + 8) / 10.
    assert base[5] == pytest.approx(85.0)
    assert ours[5] == pytest.approx(92.5)
    assert base[-3:] == pytest.approx([0.6, 2.0, 2])
    assert ours[-3:] == pytest.approx([0.3, 1.0, 2])
    core, plus = bench.gains("x", rows, seed=0)
    assert core[5:] == ["+0.0 ± 0.0", "+0.0 ± 0.0", "+0.000 ± 0.000", 2]
    assert plus[5] == "+7.5 ± 0.0"
    assert plus[7:] == ["-0.300 ± 0.000", 2]
    blind = [{"base": 2.0, "core": 2.0, "core+": np.inf}]
    assert bench.arm_rows("x", blind)[0][-3:] == [None, 2.0, 1]
    assert bench.gains("x", blind, seed=0)[1][-2:] == [None, 1]
    lost = [row | dict.fromkeys(row, np.inf) for row in rows]
    assert bench.change_px(lost, "core+", seed=0) == "+nan ± nan"


def test_scenes_with_and_without_depth_end_to_end(
    pool: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "FUNDAMENTAL_ESTIMATORS", ("ransac", "poselib"))
    monkeypatch.setattr(bench, "_PACKAGES", {"poselib": "no_such_package"})
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
    assert f"base{PX}" not in internet
    arms = [arm for arm in ARMS if arm != "base − shift"]  # daisy has no location
    names = [line[:2] for line in outcome.tables[0].rows]
    assert [arm for name, arm in names if name == "daisy, all, ransac"] == arms
    assert "Left out, not installed: poselib." in outcome.notes
    write_outcome("fundamental", options, outcome, tmp_path)
    assert (tmp_path / "fundamental_gain.csv").is_file()
