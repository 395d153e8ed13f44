"""The doors: each bad input gets one sentence with the offender."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from semisure.errors import InputError
from semisure.synthetic import EXAMPLE_CALIBRATION
from semisure.types import Matches

GOOD = {
    "source": np.zeros((3, 2)),
    "target": np.ones((3, 2)),
    "confidence": np.array([0.1, 0.5, 1.0]),
    "fine_std": np.ones((3, 2)),
    "coarse_std": np.ones((3, 2)),
    "source_size": (640, 480),
    "target_size": (320, 240),
}


def spoilt(name: str, index: object, value: float) -> dict:
    changed = np.array(GOOD[name], dtype=float)
    changed[index] = value
    return {**GOOD, name: changed}


@pytest.mark.parametrize(
    ("name", "index", "value", "sentence"),
    [
        ("source", (1, 0), np.nan, r"source must be finite.* 1 of 3 .*first: match 1"),
        ("confidence", 1, 1.7, r"match 1 has 1.7. Raw scores need a softmax"),
        ("confidence", slice(0, 2), -1, r"2 of 3 do not; first: match 0"),
        ("fine_std", (0, 0), -0.1, r"fine_std must not be negative"),
    ],
)  # fmt: skip
def test_bad_entries_are_named(name, index, value, sentence) -> None:
    with pytest.raises(InputError, match=sentence):
        Matches(**spoilt(name, index, value))


def test_wrong_shapes_and_sizes_are_named() -> None:
    with pytest.raises(
        InputError, match=r"target must have shape \(3, 2\).*has \(2, 2\)"
    ):
        Matches(**{**GOOD, "target": np.ones((2, 2))})
    with pytest.raises(InputError, match="fine_std must be numbers"):
        Matches(**{**GOOD, "fine_std": [["a", "b"]] * 3})

    with pytest.raises(InputError, match="source_size must be numbers"):
        Matches(**{**GOOD, "source_size": "640x480"})
    for size in (0, 5), None:
        with pytest.raises(InputError, match=r"source_size must be \(width, height\)"):
            Matches(**{**GOOD, "source_size": size})


def test_side_is_zero_or_one_for_all_or_each() -> None:
    assert Matches(**GOOD).side.tolist() == [1, 1, 1]
    assert Matches(**GOOD, side=0).side.tolist() == [0, 0, 0]
    mixed = Matches(**GOOD, side=[0, 1, 0])
    # The spread is measured against the refined image: 640 or 320 wide.
    assert mixed.spread[:, 0].tolist() == [100 / 640, 100 / 320, 100 / 640]
    with pytest.raises(InputError, match="side must be 0 or 1"):
        Matches(**GOOD, side=[0, 2, 1])
    with pytest.raises(InputError, match="fine_window must be positive"):
        Matches(**GOOD, fine_window=0)


def test_no_match_and_a_standard_deviation_of_zero_are_allowed() -> None:
    assert Matches(**GOOD).take(slice(0, 0)).spread.shape == (0, 2)
    assert len(Matches(**spoilt("coarse_std", slice(None), 0.0))) == 3


def test_shift_moves_the_refined_points_only() -> None:
    mixed = Matches(**GOOD, side=[0, 1, 1]).shifted(np.full((3, 2), 0.5))
    assert mixed.source[:, 0].tolist() == [0.5, 0, 0]
    assert mixed.target[:, 0].tolist() == [1, 1.5, 1.5]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"fine_var_gain": (1.0, 0.0)}, "fine_var_gain must be positive"),
        ({"coarse_var_gain": (1.0,)}, "coarse_var_gain must have shape"),
        ({"spread_slope": "steep"}, "spread_slope must be numbers"),
        ({"law": "cauchy"}, "law must be one of mixture, fine_only"),
    ],
)
def test_bad_calibrations_are_named(wrong: dict, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        replace(EXAMPLE_CALIBRATION, **wrong)


def test_calibration_without_spread_slope_has_no_knees() -> None:
    flat = replace(EXAMPLE_CALIBRATION, spread_slope=0)
    assert flat.paper_symbols()["t_x"] is None


CELLS = np.array([[[4.0, 0.0, 10.0], [0.0, 4.0, 20.0]]] * 3)


def test_a_point_on_the_edge_of_a_cell_lies_in_it_and_a_turned_cell_is_no_box() -> None:
    matches = Matches(**GOOD, cell=CELLS)
    # The cell reaches from (6, 16) to (14, 24).
    points = np.array([[14.0, 16.0], [14.1, 20.0], [10.0, 24.1]])
    assert matches.in_cell(points).tolist() == [True, False, False]
    assert Matches(**GOOD).in_cell(points) is None
    # By 45°: corners at (10 ± 4√2, 20) and (10, 20 ± 4√2), so at 5.6 but not at 5.7 px.
    turned = CELLS.copy()
    turned[:, :, :2] = 4.0 * np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2.0)
    points = np.array([[15.6, 20.0], [15.7, 20.0], [13.9, 23.9]])
    assert Matches(**GOOD, cell=turned).in_cell(points).tolist() == [True, False, False]


def test_cells_follow_their_matches() -> None:
    cells = CELLS + np.arange(3.0)[:, None, None]
    matches = Matches(**GOOD, cell=cells)
    np.testing.assert_array_equal(matches.take(np.array([2, 0])).cell, cells[[2, 0]])
    np.testing.assert_array_equal(matches.swapped().cell, cells)
    np.testing.assert_array_equal(matches.shifted(np.ones((3, 2))).cell, cells)
    assert Matches(**GOOD).take(slice(1)).cell is None


def test_cells_without_an_area_are_named() -> None:
    flat = CELLS.copy()
    flat[1, :, 1] = 0.0
    with pytest.raises(InputError, match=r"cell must have an area.*first: match 1"):
        Matches(**GOOD, cell=flat)
    with pytest.raises(InputError, match=r"cell must have shape \(3, 2, 3\)"):
        Matches(**GOOD, cell=flat[:2])
