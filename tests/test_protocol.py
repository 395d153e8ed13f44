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


# -- the paper's own numbers: a row of each table, and what stands alone


def test_rows_of_the_tables_are_the_papers() -> None:
    ours = (32.68, 60.43, 71.24, 82.45)
    assert homography.HPATCHES["eloftr"] == ((29.14, 52.59, 64.17, 77.30), ours)
    assert homography.MTV["loftr"] == (
        (1.08, 4.77, 7.05, 10.01),
        (1.83, 6.40, 8.65, 11.65),
    )
    assert localisation.AACHEN["edm", "night"] == (
        (70.2, 89.5, 97.9),
        (73.3, 90.6, 97.9),
    )
    assert homography.BY_WEIGHT["core"] == (32.85, 60.50, 71.25, 82.44, 91.32)
    assert homography.BY_ESTIMATOR["ransac"] == homography.HPATCHES["eloftr"]
    assert laws.BY_LAW["mixture"] == (1.546, 1.437, 5.532, 7.694, 1.612, 0.360)
    assert initial.BY_INITIAL["1-3"] == (144, 0.42, 85.4, 78)
    assert relative.PAPER["depth-core"] == (26.42, 45.94, 54.24, 64.75)
    roma = (95.82, 96.60, 96.49, 96.24), (8.52, 6.18, 5.43, 4.50)
    assert native.PAPER["RoMa v2"] == roma
    assert relative.PAPER_PAIRS == 1500
    assert (posterior.PAPER_AUROC, posterior.PAPER_AUPRC) == (0.760, 0.951)
    assert runtime.OVERHEAD_MS == (11.4, 34.6)


# -- the benches


def test_every_table_and_figure_has_its_bench() -> None:
    papers = {part for e in BENCHES.values() for part in e.paper.split(", supplement")}
    every = {f"Fig. {k}" for k in (1, 3, 4, 5, 6)} | {f"Tab. {k}" for k in range(1, 6)}
    assert every <= papers
