"""Real images with published homographies, where they lie beside the project."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from semisure.datasets.homographies import read_sequences
from semisure.estimators import PAPER_ESTIMATORS, estimate_homography
from semisure.geometry.homography import residual
from semisure.io.files import load_calibration
from semisure.io.images import read_image
from semisure.law.error_laws import error_law
from semisure.law.mixture import cdf, expected_abs_error
from semisure.matchers import load_matcher
from semisure.metrics import auc, corner_error
from semisure.refit.planes import refit_homography
from semisure.types import FloatArray, Matches

DATA = Path(__file__).parents[2] / "shared" / "data" / "homography"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not DATA.is_dir(), reason="the real sequences are not beside the project"
    ),
]


@pytest.fixture(scope="module")
def oxford() -> list[tuple[Matches, FloatArray]]:
    """The 20 Oxford pairs, matched by the embedded matcher."""
    daisy, pairs = load_matcher("daisy"), []
    for pair in read_sequences(DATA):
        if pair.name.startswith("oxford"):
            assert pair.H_01 is not None
            matches = daisy(read_image(pair.image0), read_image(pair.image1))
            pairs.append((matches, pair.H_01))
    return pairs


@pytest.mark.parametrize("estimator", PAPER_ESTIMATORS)
def test_core_plus_holds_its_bound_from_every_start(estimator: str, oxford) -> None:
    calibration = load_calibration("daisy")
    errors: dict[str, list[float]] = {"base": [], "core": [], "core+": []}
    for matches, truth in oxford:
        start = estimate_homography(matches, estimator)
        core = refit_homography(matches, calibration, start, method="core")
        plus = refit_homography(matches, calibration, start)
        for arm, H in zip(errors, (start.model, core.model, plus.model), strict=True):
            errors[arm].append(corner_error(H, truth, matches.source_size))
    areas = {arm: auc(row, [3, 5, 10]) for arm, row in errors.items()}
    # Published homographies are off by 0.7 px: a point either way is their noise.
    for i, least in enumerate((0.50, 0.62, 0.78)):
        assert areas["core+"][i] > least
        assert areas["core+"][i] > areas["base"][i] - 0.02
        assert areas["core+"][i] > areas["core"][i] - 0.02


def test_calibration_on_photos_holds_on_real_pairs(oxford) -> None:
    calibration = load_calibration("daisy")
    expected, observed, pit = [], [], []
    for matches, truth in oxford:
        law = error_law(matches, calibration)
        r = residual(truth, matches)
        expected.append(expected_abs_error(law))
        observed.append(np.abs(r).mean(axis=1))
        pit.append(cdf(law, r).ravel())
    ratio = np.concatenate(observed).mean() / np.concatenate(expected).mean()
    assert 0.5 < ratio < 2
    # The law's central 90 % hold two thirds even of errors that include the published
    # truth's own, which are larger than the matcher's.
    inside = np.abs(np.concatenate(pit) - 0.5) < 0.45
    assert 0.6 < inside.mean() < 0.98
