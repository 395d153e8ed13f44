"""Tables and figures of planes and of laws: by hand, and on small trees."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench_trees import SMALL, posed_pair, small_matches, study_of
from semisure.bench.figures import MAX_AREA, draw, rendered
from semisure.bench.files import write_outcome
from semisure.bench.options import Options
from semisure.bench.outcome import Panel, PhotoPanel
from semisure.bench.run import of_study, run_bench
from semisure.bench.studies import laws
from semisure.bench.studies.blur import AXES, SIGMA_PX, blurred, easiest, refined_side
from semisure.bench.studies.homography import BY_WEIGHT, MATCHERS
from semisure.bench.studies.initial import binned
from semisure.bench.studies.laws import LAWS, LawScores
from semisure.bench.studies.posterior import curves
from semisure.bench.studies.qualitative import chosen
from semisure.bench.studies.quantity import DRAWS
from semisure.bench.studies.runtime import STAGES
from semisure.bench.studies.tail import total
from semisure.bench.study import Study
from semisure.datasets.posed import depth_residual
from semisure.engine import Engine
from semisure.errors import FileError
from semisure.estimators import PAPER_ESTIMATORS
from semisure.io.files import load_calibration, save_calibration
from semisure.io.images import write_png


@pytest.fixture
def study(sequences: Path, cache: Path, pool: Engine) -> Study:
    """Three sequences of two pairs each."""
    return study_of(pool, cache, sequences)


@pytest.fixture
def study_of_both(both: Path, cache: Path, pool: Engine) -> Callable[..., Study]:
    """Studies of two planar sequences, of MegaDepth, or of other folders."""

    def study(*names: str, **changed: Any) -> Study:
        return study_of(pool, cache, *(both / name for name in names), **changed)

    return study


# -- tables of homographies


def test_homography_bench_is_right_on_easy_pairs(study: Study) -> None:
    outcome = of_study("homography", study)
    assert len(outcome.rows) == 6
    assert all(row["core"] < 2.0 and row["core+"] < 2.0 for row in outcome.rows)
    assert any("daisy: the shipped calibration" in note for note in outcome.notes)


def test_estimators_and_weights_print_the_paper_beside_ours(study: Study) -> None:
    table = of_study("estimators", study).tables[0]
    assert len(table.rows) == 5 * (2 + 3)
    table = of_study("weights", study).tables[0]
    arms = [row[1] for row in table.rows if row[0] == "daisy"]
    assert [arm for arm in arms if arm in BY_WEIGHT] == list(BY_WEIGHT)
    assert arms[-3:] == ["fine-std", "core", "core+"]


def test_a_pair_without_matches_errs_infinitely(tmp_path: Path, cache: Path) -> None:
    folder = tmp_path / "v_flat"
    for k in (1, 2):
        write_png(folder / f"{k}.png", np.full((120, 160), 128, np.uint8))
    np.savetxt(folder / "H_1_2", np.eye(3))
    options = Options(data=[tmp_path], size=SMALL, cache=cache)
    (row,) = run_bench("homography", options).rows
    assert row["base"] == row["core+"] == float("inf")


def test_bins_of_initial_error_by_hand(study: Study) -> None:
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
    table = of_study("initial", study).tables[0]
    assert sum(row[3] for row in table.rows if row[:2] == ["daisy", "core"]) == 6


def test_radar_has_the_papers_spokes_and_ours(study: Study) -> None:
    panels = of_study("radar", study).figures["radar"]
    # One matcher makes no radar; five estimators do.
    assert [panel.radar for panel in panels] == [False, True, True, True]
    spokes = [dict(zip(*panel.lines["core"], strict=True)) for panel in panels]
    _, published, ours, theirs = spokes
    assert list(ours) == list(PAPER_ESTIMATORS)
    assert list(published) == list(MATCHERS.values())
    assert published["LoFTR"] == 58.72
    assert theirs["MAGSAC++"] == 61.03


def test_runtime_has_the_mean_time_of_each_stage(study: Study) -> None:
    outcome = of_study("runtime", study)
    cues = ("coarse cues", "fine cues")
    timed = [stage for stage in STAGES if stage not in cues]
    assert all(row[stage] > 0 for row in outcome.rows for stage in timed)
    # The embedded matcher's cues come with its search.
    assert all(row[stage] == 0 for row in outcome.rows for stage in cues)
    mean = np.mean([row["core"] for row in outcome.rows])
    assert outcome.tables[0].rows[0][2 + STAGES.index("core")] == pytest.approx(mean)


# -- tables of laws


def test_laws_bench_prefers_a_calibrated_mixture(study: Study, tmp_path: Path) -> None:
    outcome = of_study("laws", study)
    ours = {row["law"]: row for row in outcome.rows}
    assert set(LAWS) < set(ours)
    assert ours["mixture"]["nll"] < ours["uncalibrated"]["nll"]
    assert "fitted on the other sequences" in outcome.notes[0]
    names = [str(row[0]) for row in outcome.tables[0].rows]
    assert all("paper" in name or "cross-validated" in name for name in names)
    # A law that is given as a file is judged without a fit.
    file = tmp_path / "mine.json"
    save_calibration(load_calibration("daisy"), file)
    outcome = of_study("laws", study.changed(calibration=str(file)))
    assert [row["law"] for row in outcome.rows] == ["uncalibrated", "mixture"]
    assert "mine.json; the other laws need pairs" in outcome.notes[0]


def test_strata_and_ece_of_a_law_by_hand() -> None:
    scores = LawScores(
        nll=np.array([1.0, 2.0, 6.0]),
        expected=np.array([1.0, 2.0, 10.0]),
        observed=np.array([1.0, 3.0, 20.0]),
        densities=np.zeros((2, 81)),
    )
    # Mean 3; below 8 px the mean of 1 and 2; nothing beyond 64. One match a bin: the
    # gaps are 0, 1 and 10. The order is the same.
    numbers = scores.numbers()
    np.testing.assert_allclose(numbers[:3], [3.0, 1.5, 6.0])
    assert np.isnan(numbers[3])
    np.testing.assert_allclose(numbers[4:], [11 / 3, 1.0])


def test_roc_and_precision_by_hand(study: Study) -> None:
    score = np.array([0.9, 0.8, 0.8, 0.1])
    positive = np.array([True, True, False, False])
    false, recall, precision = curves(score, positive)
    np.testing.assert_allclose(false, [0, 0.5, 1])
    np.testing.assert_allclose(recall, [0.5, 1, 1])
    np.testing.assert_allclose(precision, [1, 2 / 3, 0.5])
    _, by_cell, by_window, *_ = of_study("posterior", study).tables[0].rows
    assert by_cell[:2] == ["daisy", "cell"]
    assert by_window[:2] == ["daisy", "window"]
    # The window is twice as wide as the cell, so that no success by it is rarer.
    assert 0.2 < by_cell[4] <= by_window[4] <= 1.0


def test_quantity_fits_subsets_of_one_half_only(study: Study) -> None:
    rows = of_study("quantity", study).rows
    # Three sequences of two pairs: halves of four and two pairs, so N = 2 in both; of
    # the two pairs there is but one subset.
    assert [row["pairs"] for row in rows] == [2] * (DRAWS + 1)
    assert all("newton seconds" in row for row in rows)
    assert sum("powell seconds" in row for row in rows) == 2
    assert all(np.isfinite(row["held-out nll"]) for row in rows)


def test_quantity_judges_auc_by_homographies_and_nll_by_depth(
    study_of_both: Callable[..., Study], both: Path
) -> None:
    asked = {"calibrate_on": both / "mega", "calibration_size": SMALL}
    outcome = of_study("quantity", study_of_both("planar", "mega", **asked))
    (drawn,) = outcome.rows  # of two pairs there is one subset
    assert drawn["pairs"] == 2
    assert {"newton seconds", "powell seconds", "auc", "held-out nll"} <= set(drawn)
    judged = "AUC on 2 pairs with homographies, NLL on 2 pairs by cameras"
    assert judged in str(outcome.notes)
    (row,) = of_study("quantity", study_of_both("mega", **asked)).rows
    assert "auc" not in row


def test_resolution_is_judged_where_it_was_not_fitted(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(laws, "SIZES", (SMALL, (200, 150)))
    monkeypatch.setattr(laws, "FITTED_AT", SMALL)
    shown = [row[1:3] for row in of_study("resolution", study).tables[0].rows]
    both_laws = ("fine_only", "mixture")
    assert shown == [[at, law] for at in ("160x120", "200x150") for law in both_laws]


def test_tail_is_over_all_matches_and_observed_where_truth_is_known(
    study: Study,
) -> None:
    rows = [
        {"matches": 30, "known": 10, "predicted": 0.1, "observed": 0.5},
        {"matches": 10, "known": 0, "predicted": 0.5, "observed": None},
        {"matches": 0, "known": 0, "predicted": None, "observed": None},
    ]
    # (30 · 0.1 + 10 · 0.5) / 40 over all, and 0.5 of the ten whose error is known.
    assert total(rows) == (pytest.approx(0.2), 0.5, 3, 40, 10)
    predicted, observed, pairs = of_study("tail", study).tables[0].rows[0][2:5]
    assert 0 < predicted < 1
    assert 0 <= observed < 1
    assert pairs == 6


@pytest.mark.parametrize(
    "name", ["homography", "weights", "initial", "posterior", "tail", "native"]
)
def test_without_shipped_law_or_held_out_pairs_every_row_says_so(
    name: str,
    study_of_both: Callable[..., Study],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("semisure.io.files.SHIPPED", tmp_path)
    for table in of_study(name, study_of_both("planar")).tables:
        ours = [str(row[0]) for row in table.rows if "paper" not in str(row[0])]
        assert ours
        assert all("cross-validated" in label for label in ours)


# -- true errors by depth


@pytest.mark.parametrize("side", [0, 1])
def test_residual_from_depth_by_hand(tmp_path: Path, side: int) -> None:
    pair = posed_pair(tmp_path, hidden_from_row=30)
    source = np.array([[10.0, 10.0], [20.0, 20.0], [10.0, 40.0], [62.0, 10.0]])
    matches = small_matches(source, source + np.array([5.0, -2.0]), side)
    residual = depth_residual(pair, matches)
    # The truth is 4 px to the right: off by (1, −2) in image 1, by (−1, 2) in image 0.
    off = np.array([1.0, -2.0]) * (1 if side else -1)
    np.testing.assert_allclose(residual[:2], [off, off], atol=1e-9)
    # Hidden in image 1; and beyond its edge, or of no depth there.
    assert np.isnan(residual[2:]).all()
    blind = replace(pair, camera0=replace(pair.camera0, depth=None))
    with pytest.raises(FileError, match=r"There is no depth of .*0\.jpg"):
        depth_residual(blind, matches)


# -- other matchers


def write_native(folder: Path, name: str, **changed: Any) -> None:
    """Six matches at twice the study's size, three of them 20 px off there."""
    x = np.array([[20.0, 20], [60, 30], [100, 80], [150, 90], [200, 40], [240, 200]])
    # In pixels of images twice as large everything moves by 5 px.
    off = np.array([0.0, 0, 0, 20, 20, 20])
    arrays = {
        "source": x,
        "target": x + np.column_stack([5 + off, 0 * off]),
        "uncertainty": np.array([0.1, 0.2, 5.0, 1.0, 2.0, 3.0]),
        "source_size": np.array([320, 240]),
        "target_size": np.array([320, 240]),
        **changed,
    }
    folder.mkdir(exist_ok=True)
    np.savez(folder / f"{name}.npz", **arrays)


def test_other_matchers_uncertainties_by_hand(
    study_of_both: Callable[..., Study], tmp_path: Path
) -> None:
    for name in ("i_a_2", "v_b_2"):
        write_native(tmp_path / "roma", name)
    study = study_of_both("planar", native={"RoMa v2": tmp_path / "roma"})
    table = of_study("native", study).tables[0]
    rows = {(row[0], row[1]): row[2:] for row in table.rows}
    # At the study's size three matches of six err by 10 px, beyond 8 and below 32.
    assert rows["RoMa v2", "errors"] == [50.0, 0.0, 0.0, 0.0, 12]
    # Of nine pairs of a large and a small error, the three with 5.0 are out of order.
    assert rows["RoMa v2", "its own"][0] == pytest.approx(100 * 6 / 9)
    assert np.isnan(rows["RoMa v2", "its own"][1])
    assert rows["RoMa v2, paper", "AUROC"][0] == 95.82
    scores = ["expected error", "confidence", "fine std", "coarse std", "errors"]
    assert [score for name, score in rows if name == "daisy"] == scores
    write_native(tmp_path / "roma", "v_b_2", uncertainty=np.ones(5))
    with pytest.raises(FileError, match="cannot be used: uncertainty must have shape"):
        of_study("native", study)
    (tmp_path / "roma" / "v_b_2.npz").unlink()
    with pytest.raises(FileError, match=r"There is no file .*v_b_2\.npz"):
        of_study("native", study)


def test_the_example_of_another_matcher_is_judged(
    study_of_both: Callable[..., Study], both: Path, tmp_path: Path
) -> None:
    example = Path(__file__).parents[1] / "examples" / "native_uncertainty.py"
    subprocess.run([sys.executable, example, both / "planar", tmp_path], check=True)
    study = study_of_both("planar", native={"S": tmp_path})
    table = of_study("native", study).tables[0]
    (row,) = [row for row in table.rows if row[:2] == ["S", "its own"]]
    # The two best distances tell a wrong match from a right one.
    assert row[2] > 80
    assert row[-1] > 100


# -- pictures


def test_blur_is_along_one_axis() -> None:
    dot = np.zeros((61, 61), np.uint8)
    dot[30, 30] = 255
    across = blurred(np.repeat(dot[..., None], 3, axis=2), AXES["horizontal"])[..., 0]
    assert across[29].max() == across[31].max() == 0
    assert across[:, 30].argmax() == 30
    # The height of a Gaussian's peak is 1 / (σ √2π).
    assert across[30, 30] == pytest.approx(255 / (SIGMA_PX * np.sqrt(2 * np.pi)), abs=1)
    down = blurred(dot, AXES["vertical"])
    np.testing.assert_array_equal(down, across.T)
    assert blurred(dot, AXES["none"]) is dot


def test_blur_bench_blurs_the_refined_image(
    study_of_both: Callable[..., Study],
) -> None:
    study = study_of_both("planar")
    outcome = of_study("blur", study)
    assert [row["blur"] for row in outcome.rows] == [*AXES, *AXES]
    by_blur = {row[1]: row for row in outcome.tables[0].rows}
    # True errors grow with blur, and the law says so.
    assert by_blur["horizontal"][2] > by_blur["none"][2]
    assert by_blur["horizontal"][5] > by_blur["none"][5]
    # More along x than along y, in relation to the sharp image.
    assert by_blur["horizontal"][7] > by_blur["vertical"][7]
    exported = study.exported("daisy")
    assert refined_side(exported[0]) == 1
    assert {one.group for one in easiest(exported)} == {"i_a/1.png", "v_b/1.png"}
    assert rendered(outcome.figures["blur"], None, "png")


def test_pairs_shown_go_from_easy_to_hard(
    study_of_both: Callable[..., Study], tmp_path: Path
) -> None:
    assert chosen([float("inf")]) == []
    assert chosen([2.0]) == [0]
    assert chosen([9.0, 1, 8, 2, 7, 3, 6, 4]) == [3, 7, 0]
    study = study_of_both("planar")
    outcome = of_study("qualitative", study)
    panels = outcome.figures["qualitative_planar"]
    assert len(panels) == 2
    assert {"base", "core+"} <= set(panels[0].title.split())
    write_outcome("qualitative", study.options, outcome, tmp_path)
    assert (tmp_path / "qualitative_planar.svg").is_file()


def test_panels_are_drawn_the_same_each_time_and_markers_by_their_pairs() -> None:
    x = np.array([1.0, 2.0])
    names = ["<1", "1-3", ">=3"]
    counted = Panel(
        title="c",
        lines={"a": (names, np.array([10.0, 20.0, np.nan]))},
        counts={"a": np.array([40.0, 10.0, 0.0])},
    )
    panels = [
        counted,
        Panel(title="p", lines={"a": (x, x)}),
        Panel(title="b", lines={"a": (names, np.ones(3))}),
        Panel(title="r", lines={"a": (names, np.ones(3))}, radar=True),
        PhotoPanel(title="m", sizes=[(4, 3)], draw=lambda axes: axes.axis("off")),
    ]
    assert rendered(panels, None, "svg") == rendered(panels, None, "svg")
    axes = draw([counted]).axes[0]
    (dots,) = axes.collections
    np.testing.assert_allclose(dots.get_sizes() / MAX_AREA, [1.0, 0.25, 0.0])
    assert [label.get_text() for label in axes.get_xticklabels()] == names
