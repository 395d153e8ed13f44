"""Radar, native uncertainties, blur and qualitative panels, and how all are drawn."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from semisure.bench.native_files import read_native
from semisure.bench.outcome_files import write_outcome

from semisure.bench import paper
from semisure.bench.figures import MAX_AREA, draw, rendered
from semisure.bench.options import Options
from semisure.bench.outcome import EllipsePanel, MatchPanel, Panel, Radar
from semisure.bench.run import of_study
from semisure.bench.studies.blur import AXES, SIGMA_PX, blurred, easiest, refined_side
from semisure.bench.studies.qualitative import chosen
from semisure.bench.study import Study
from semisure.engine import Engine
from semisure.errors import FileError
from semisure.io.images import write_png
from semisure.synthetic import SyntheticMatcher

SIZE = (160, 120)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sequences of one pair, moved by 4 px to the right."""
    root = tmp_path_factory.mktemp("pictures") / "set"
    H = np.array([[1, 0, 4.0], [0, 1, 0], [0, 0, 1]])
    for seed, name in enumerate(("i_a", "v_b")):
        noise = np.random.default_rng(seed).normal(size=(120, 160))
        smooth = cv2.GaussianBlur(noise, (0, 0), 1.5)
        grey = (128 + 90 * smooth / np.abs(smooth).max()).astype(np.uint8)
        write_png(root / name / "1.png", grey)
        write_png(root / name / "2.png", cv2.warpPerspective(grey, H, (160, 120)))
        np.savetxt(root / name / "H_1_2", H)
    return root


@pytest.fixture(scope="module")
def study(tree: Path, pool: Engine, tmp_path_factory: pytest.TempPathFactory) -> Study:
    cache = tmp_path_factory.mktemp("cache")
    return Study(Options(data=[tree], size=SIZE, cache=cache), pool)


def test_radar_has_the_papers_spokes_and_ours(study: Study, tmp_path: Path) -> None:
    outcome = of_study("radar", study)
    bars, ours, published, theirs = outcome.figures["radar"]
    # One matcher makes no radar; five estimators do.
    assert isinstance(bars, Panel)
    assert isinstance(ours, Radar)
    assert isinstance(published, Radar)
    assert isinstance(theirs, Radar)
    assert list(ours.spokes) == list(paper.ESTIMATORS)
    assert list(published.spokes) == list(paper.MATCHERS.values())
    assert published.lines["core"][0] == 58.72
    assert theirs.lines["base"][-1] == 60.24
    assert {row["estimator"] for row in outcome.rows} == set(paper.ESTIMATORS)
    write_outcome("radar", study.options, outcome, tmp_path)
    assert (tmp_path / "radar.svg").stat().st_size > 1000


def write_native(folder: Path, name: str, **changed: Any) -> Path:
    """Six matches at twice the study's size, three of them 20 px off there."""
    x = np.array([[20.0, 20], [60, 30], [100, 80], [150, 90], [200, 40], [240, 200]])
    # In pixels of images twice as large everything moves by 8 px.
    off = np.array([0.0, 0, 0, 20, 20, 20])
    arrays = {
        "source": x,
        "target": x + np.column_stack([8 + off, 0 * off]),
        "uncertainty": np.array([0.1, 0.2, 5.0, 1.0, 2.0, 3.0]),
        "source_size": np.array([320, 240]),
        "target_size": np.array([320, 240]),
        **changed,
    }
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.npz"
    np.savez(path, **{k: v for k, v in arrays.items() if v is not None})
    return path


def test_other_matchers_uncertainties_by_hand(
    tree: Path, pool: Engine, tmp_path: Path
) -> None:
    folder = tmp_path / "roma"
    for name in ("i_a_2", "v_b_2"):
        write_native(folder, name)
    options = Options(
        data=[tree], size=SIZE, cache=tmp_path / "c", native={"RoMa v2": folder}
    )
    outcome = of_study("native", Study(options, pool))
    rows = {(row[0], row[1]): row[2:] for row in outcome.tables[0].rows}
    # At the study's size three matches of six err by 10 px, beyond 8 and below 32.
    assert rows["RoMa v2", "errors"] == [50.0, 0.0, 0.0, 0.0, 12]
    # Of nine pairs of a large and a small error, the three with 5.0 are out of order.
    assert rows["RoMa v2", "its own"][0] == pytest.approx(100 * 6 / 9)
    assert np.isnan(rows["RoMa v2", "its own"][1])
    assert rows["RoMa v2, paper", "AUROC"][0] == 95.82
    assert {score for name, score in rows if name == "daisy"} == {
        "expected error",
        "confidence",
        "fine std",
        "coarse std",
        "errors",
    }
    (folder / "v_b_2.npz").unlink()
    with pytest.raises(FileError, match=r"There is no .*v_b_2\.npz: expected an NPZ"):
        of_study("native", Study(options, pool))


def test_the_example_of_another_matcher_is_judged(
    tree: Path, pool: Engine, tmp_path: Path
) -> None:
    example = Path(__file__).parents[1] / "examples" / "native_uncertainty.py"
    asked = [sys.executable, str(example), str(tree), str(tmp_path / "sift")]
    subprocess.run(asked, check=True)
    options = Options(
        data=[tree], size=SIZE, cache=tmp_path / "c", native={"S": tmp_path / "sift"}
    )
    outcome = of_study("native", Study(options, pool))
    (row,) = [row for row in outcome.tables[0].rows if row[:2] == ["S", "its own"]]
    # The two best distances tell a wrong match from a right one.
    assert row[2] > 80
    assert row[-1] > 100


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"uncertainty": None}, "lacks uncertainty"),
        ({"uncertainty": np.ones(5)}, "must hold 6 finite uncertainties"),
        ({"uncertainty": np.full(6, np.nan)}, "not finite"),
        ({"target": np.ones((5, 2))}, "cannot be used"),
        ({"source": np.ones((6, 3))}, "cannot be used"),
        ({"source_size": np.array([0, 0])}, "cannot be used"),
    ],
)
def test_bad_native_files_are_one_sentence(
    tmp_path: Path, changed: dict[str, Any], sentence: str
) -> None:
    path = write_native(tmp_path, "a", **changed)
    with pytest.raises(FileError, match=sentence):
        read_native(path, (SIZE, SIZE))


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


def test_blur_bench_blurs_the_refined_image(study: Study, tmp_path: Path) -> None:
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
    write_outcome("blur", study.options, outcome, tmp_path)
    assert (tmp_path / "blur.png").is_file()


def test_pairs_shown_go_from_easy_to_hard(study: Study, tmp_path: Path) -> None:
    assert chosen([float("inf")]) == []
    assert chosen([2.0]) == [0]
    assert chosen([9.0, 1, 8, 2, 7, 3, 6, 4]) == [3, 7, 0]
    outcome = of_study("qualitative", study)
    panels = outcome.figures["qualitative_set"]
    assert all(isinstance(panel, MatchPanel) for panel in panels)
    first = panels[0]
    assert isinstance(first, MatchPanel)
    assert "base" in first.title
    assert "core+" in first.title
    write_outcome("qualitative", study.options, outcome, tmp_path)
    assert (tmp_path / "qualitative_set.svg").is_file()


def test_every_kind_of_panel_is_drawn_the_same_each_time() -> None:
    matches, _ = SyntheticMatcher().match(np.eye(3), count=40, seed=0)
    image = np.full((48, 64), 200, np.uint8)
    x = np.array([1.0, 2.0])
    panels = [
        Panel(title="p", xlabel="x", ylabel="y", lines={"a": (x, x)}),
        Panel(title="b", xlabel="x", ylabel="y", lines={"a": (["u", "v"], x)}),
        Radar(title="r", spokes=["a", "b", "c"], lines={"l": np.ones(3)}),
        EllipsePanel(
            title="e",
            image=image,
            points=np.array([[20.0, 20.0]]),
            half_axes=np.array([[3.0, 1.0]]),
            expected=np.array([1.0]),
            magnified=2.0,
        ),
        MatchPanel(
            title="m",
            image0=image,
            image1=image,
            matches=matches,
            expected=np.ones(len(matches)),
        ),
    ]
    svg = rendered(draw(panels), "svg")
    assert svg == rendered(draw(panels), "svg")
    assert len(draw(panels).axes) >= 5
    single = draw(panels[:2], columns=1)
    assert single.get_figheight() > single.get_figwidth()


def test_the_area_of_a_marker_is_in_proportion_to_its_pairs() -> None:
    names = ["<1", "1-3", ">=3"]
    panel = Panel(
        title="",
        xlabel="e0",
        ylabel="%",
        lines={"a": (names, np.array([10.0, 20.0, np.nan]))},
        counts={"a": np.array([40.0, 10.0, 0.0])},
    )
    axes = draw([panel]).axes[0]
    (dots,) = axes.collections
    np.testing.assert_allclose(dots.get_sizes() / MAX_AREA, [1.0, 0.25, 0.0])
    assert [label.get_text() for label in axes.get_xticklabels()] == names


def test_initial_draws_its_pairs_as_areas(study: Study) -> None:
    panel = of_study("initial", study).figures["initial"][0]
    assert isinstance(panel, Panel)
    assert panel.counts["daisy, core"].sum() == 2


def test_the_papers_palette_is_green_to_red_with_grey_below() -> None:
    matches, _ = SyntheticMatcher().match(np.eye(3), count=3, seed=0)
    image = np.full((480, 640), 200, np.uint8)
    panel = MatchPanel(
        title="m",
        image0=image,
        image1=image,
        matches=matches,
        expected=np.array([0.15, 30.0, 5.0]),  # px, in 640 of them
        palette="paper",
        grey=np.array([False, False, True]),
    )
    lines = draw([panel]).axes[0].collections[0].get_colors()
    grey, red, green = lines  # from below: grey, then the least certain
    assert np.ptp(grey[:3]) == 0
    assert grey[3] < 0.5
    assert red[0] > 0.8 > 0.2 > red[1]
    assert green[1] > 0.5 > 0.2 > green[0]


def test_outliers_are_grey_only_in_the_papers_palette(study: Study) -> None:
    ours = of_study("qualitative", study).figures["qualitative_set"][0]
    asked = of_study("qualitative", study.changed(palette="paper"))
    theirs = asked.figures["qualitative_set"][0]
    assert isinstance(ours, MatchPanel)
    assert isinstance(theirs, MatchPanel)
    assert (ours.palette, ours.grey) == ("semisure", None)
    assert theirs.grey is not None
    # Everything moves by 4 px: what lies within 3 px of the model is no outlier.
    moved = theirs.matches.target - theirs.matches.source - np.array([4.0, 0.0])
    far = np.linalg.norm(moved, axis=1) > 4.5
    assert theirs.grey[far].all()
    assert not theirs.grey[np.linalg.norm(moved, axis=1) < 1.5].any()
