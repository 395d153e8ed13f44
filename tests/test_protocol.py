"""The paper's protocol in numbers, copied from its text, not from the code they check.

Each constant has the sentence of the paper that it is from. A change of the code that
moves one of them is a change of the protocol, and fails here.
"""

from __future__ import annotations

from pathlib import Path

from semisure.bench import BENCHES, options
from semisure.bench.options import Options
from semisure.bench.studies import (
    homography,
    initial,
    laws,
    localisation,
    native,
    posterior,
    quantity,
    relative,
    runtime,
    tail,
)
from semisure.datasets import homographies, megadepth, queries
from semisure.law import powell
from semisure.law.fit_law import STRATA_PX
from semisure.refit import weights

# -- what is fitted to what, and how


def test_calibration_as_in_the_implementation_details() -> None:
    """ "calibrated post-hoc on 200 held-out MegaDepth pairs at 1280×960"."""
    assert options.CALIBRATION_PAIRS == 200
    assert options.CALIBRATION_SIZE == (1280, 960)
    plain = Options(data=[Path("x")])
    assert plain.calibration_pairs == 200
    # MegaDepth-1500 is of these two scenes.
    assert set(megadepth.TEST_SCENES) == {"0015", "0022"}


def test_powell_as_in_the_supplement() -> None:
    """ "a maximum of 120 iterations and a function-value tolerance of 10⁻⁷"."""
    assert powell.ITERATIONS == 120
    assert powell.FTOL == 1e-7


def test_quantities_as_in_supplement_b3() -> None:
    """ "N ∈ {2, 5, 10, 20, 50, 200, 500, 1000}", and "200 image pairs takes 67.2 s"."""
    assert quantity.QUANTITIES == (2, 5, 10, 20, 50, 200, 500, 1000)
    assert quantity.POWELL_SECONDS_200_PAIRS == 67.2
    assert quantity.TIMED_PAIRS == 200
    assert quantity.AUC_PX == 3  # "HPatches AUC@3px"


# -- sizes and thresholds


def test_sizes_and_thresholds_of_homographies() -> None:
    """ "HPatches is evaluated at 1280×960, while MTV is evaluated at 960×640".

    Figure 5: "calibrate the model at 960×640", then 640×480, 480×320 and 1280×960.
    """
    assert options.SIZES == {"hpatches": (1280, 960), "mtv": (960, 640)}
    assert options.THRESHOLDS == {"hpatches": (1, 3, 5, 10), "mtv": (10, 30, 50, 100)}
    assert homography.HPATCHES_PAIRS == 540
    assert sum(int(row[0]) for row in initial.BY_INITIAL.values()) == 540
    assert len(homographies.HPATCHES_EXCLUDED) == 8  # of 116 sequences of five pairs
    assert laws.FITTED_AT == (960, 640)
    assert {(640, 480), (480, 320), (1280, 960)} < set(laws.SIZES)


def test_aachen_as_in_table_2() -> None:
    """ "resized to 1180×896 … top-50 NetVLAD"; 12 px are hloc's."""
    assert localisation.AACHEN_SIZE == (1180, 896)
    assert localisation.AACHEN_RETRIEVED == 50
    assert queries.NETVLAD == "pairs-query-netvlad50.txt"
    assert localisation.AACHEN_SETTINGS.threshold_px == 12.0
    assert localisation.AACHEN_THRESHOLDS == ((0.25, 2.0), (0.5, 5.0), (5.0, 10.0))
    assert localisation.AACHEN_QUERIES == {"day": 824, "night": 191}


def test_native_uncertainties_as_in_supplement_b5() -> None:
    """ "HPatches at 1184×896 … we randomly sample 8.5K correspondences per pair"."""
    assert native.SIZE == (1184, 896)
    assert native.SAMPLE == 8500
    assert native.LARGE_PX == (8, 32, 64, 128)


def test_what_else_the_paper_states() -> None:
    assert weights.HUBER_THRESHOLD_PX == 2.0  # "thresholded at 2px"
    assert tail.TAIL_PX == 8.0  # "P(|r_x| > 8px)"
    assert runtime.PAIRS == 100  # "averaged over 100 image pairs"
    assert relative.THRESHOLDS[:4] == (1, 3, 5, 10)  # degrees
    strata = {"<8": (0.0, 8.0), "8-64": (8.0, 64.0), ">64": (64.0, float("inf"))}
    assert strata == STRATA_PX
    edges = [low for low, _ in initial.BINS_PX.values()]
    assert edges == [0, 1, 3, 10, 30, 100, 300]


# -- the paper's own numbers, typed once more from its tables

TABLE_1 = """
loftr 21.37 28.80 49.17 58.72 61.40 70.19 75.18 81.54 1.08 1.83 4.77 6.40 7.05 8.65 10.01 11.65
gim-loftr 24.82 29.87 50.87 59.47 62.23 71.11 76.53 82.87 0.44 1.31 3.63 6.27 6.43 9.85 11.41 15.24
eloftr 29.14 32.68 52.59 60.43 64.17 71.24 77.30 82.45 1.10 1.78 4.67 6.11 7.04 8.63 10.43 11.93
comatch 27.47 32.40 52.35 60.26 64.00 71.27 77.22 82.67 0.96 1.65 4.31 5.47 6.54 7.63 9.44 10.43
edm 24.39 29.45 50.25 58.15 62.07 69.80 76.01 81.56 1.32 2.23 5.87 7.49 8.82 10.80 13.10 15.17
xfeat-star-raw 0.23 0.33 22.30 25.43 40.19 47.38 62.18 69.51 0.46 0.91 2.39 3.77 3.67 5.39 5.83 7.86
"""  # noqa: E501
TABLE_2 = """
loftr 85.3 91.3 94.5 86.9 92.0 95.1 65.4 83.2 91.6 69.1 86.9 92.1
gim-loftr 86.9 92.8 97.0 87.9 93.4 97.1 68.6 80.1 89.0 67.0 81.2 90.1
eloftr 85.4 91.3 94.9 86.7 92.6 95.0 73.3 84.3 92.7 72.8 85.3 92.7
comatch 85.2 91.4 95.1 85.1 91.1 95.5 66.5 85.9 94.2 70.2 87.4 94.2
edm 87.3 93.1 96.8 88.0 93.2 97.0 70.2 89.5 97.9 73.3 90.6 97.9
xfeat-star-raw 63.2 70.3 77.8 67.1 74.0 79.6 23.6 34.0 45.5 28.8 38.2 49.7
"""
TABLE_3 = """
base 29.14 52.59 64.17 77.30 89.27
uniform 19.36 43.85 54.46 66.19 78.86
binary 33.11 56.87 67.50 79.55 90.20
huber 32.80 59.41 69.93 81.33 90.72
laplace-laplace 34.66 59.20 69.56 81.06 90.89
confidence 25.07 49.04 59.22 70.17 81.35
fine-std 33.65 59.47 70.06 81.60 91.08
core 32.85 60.50 71.25 82.44 91.32
"""
TABLE_4 = """
ransac 29.14 32.68 52.59 60.43 64.17 71.24 77.30 82.45
lo-ransac 33.89 32.73 58.82 60.69 69.85 71.56 81.30 82.77
prosac 33.76 32.78 57.82 60.46 67.98 71.11 79.41 82.09
gc-ransac 33.99 32.85 59.08 60.86 69.97 71.80 81.45 82.89
magsac++ 32.39 32.69 60.24 61.03 71.34 71.97 82.46 82.86
"""
TABLE_5 = """
fine_only 2.897 2.808 4.373 11.749 7.756 0.240
gaussian 1.665 1.516 6.092 12.158 4.191 0.348
uncalibrated 1.962 1.874 4.762 7.748 2.530 0.368
no_confidence_gate 1.554 1.440 5.724 7.914 1.575 0.355
hard_gate 1.724 1.552 7.300 13.100 1.579 0.347
mixture 1.546 1.437 5.532 7.694 1.612 0.360
"""
TABLE_B1 = """
<1 261 -0.00 47.9 5
1-3 144 0.42 85.4 78
3-10 96 1.65 87.5 88.5
10-30 18 4.26 94.4 39
30-100 6 6.61 66.7 33
100-300 3 57.7 100.0 28
>=300 12 735.6 58.3 0
"""
TABLE_B4 = """
base 8.06 28.52 41.81 60.42
core 8.91 21.32 28.51 38.98
depth-huber 12.14 28.87 38.58 52.48
depth-core 26.42 45.94 54.24 64.75
"""
TABLE_B5 = """
PDC-Net+ 89.73 93.54 94.19 95.13 9.58 5.52 4.21 2.77
RoMa_v2 95.82 96.60 96.49 96.24 8.52 6.18 5.43 4.50
EfficientLoFTR 88.64 95.73 96.87 97.88 2.70 0.51 0.32 0.20
"""


def typed(text: str) -> dict[str, tuple[float, ...]]:
    lines = (line.split() for line in text.split("\n") if line)
    return {name: tuple(map(float, numbers)) for name, *numbers in lines}


def pairs(numbers: tuple[float, ...]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Base and CoRe of columns in which they take turns."""
    return numbers[::2], numbers[1::2]


def test_table_1_is_the_papers() -> None:
    rows = typed(TABLE_1)
    assert {name: pairs(row[:8]) for name, row in rows.items()} == homography.HPATCHES
    assert {name: pairs(row[8:]) for name, row in rows.items()} == homography.MTV


def test_table_2_is_the_papers() -> None:
    expected = {
        (name, when): (half[:3], half[3:])
        for name, row in typed(TABLE_2).items()
        for when, half in (("day", row[:6]), ("night", row[6:]))
    }
    assert expected == localisation.AACHEN


def test_tables_3_and_4_and_5_are_the_papers() -> None:
    assert typed(TABLE_3) == homography.BY_WEIGHT
    by_estimator = {name: pairs(row) for name, row in typed(TABLE_4).items()}
    assert by_estimator == homography.BY_ESTIMATOR
    assert typed(TABLE_5) == laws.BY_LAW


def test_the_supplements_tables_are_the_papers() -> None:
    assert typed(TABLE_B1) == initial.BY_INITIAL
    assert typed(TABLE_B4) == relative.PAPER
    assert relative.PAPER_PAIRS == 1500
    stated = {n.replace("_", " "): row for n, row in typed(TABLE_B5).items()}
    assert {n: (row[:4], row[4:]) for n, row in stated.items()} == native.PAPER
    assert (posterior.PAPER_AUROC, posterior.PAPER_AUPRC) == (0.760, 0.951)
    assert runtime.OVERHEAD_MS == (11.4, 34.6)


# -- the benches


def test_every_table_and_figure_has_its_bench() -> None:
    papers = {part for e in BENCHES.values() for part in e.paper.split(", supplement")}
    every = {f"Fig. {k}" for k in (1, 3, 4, 5, 6)} | {f"Tab. {k}" for k in range(1, 6)}
    assert every <= papers
