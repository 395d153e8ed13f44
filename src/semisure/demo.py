"""The demo: real photos with known truth, and a page of the results.

The photos come with the scikit-image package; nothing is downloaded. It matches a
stereo pair, whose disparity was measured, and random views of each photo, whose
homography is known. The calibration is the shipped one, made from other photos.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from semisure.calibrate.random_views import random_pair
from semisure.datasets.samples import PHOTOS, STEREO, sample_folder
from semisure.estimators import estimate_homography
from semisure.geometry.homography import true_residual
from semisure.io.files import load_calibration
from semisure.io.images import Image, read_image
from semisure.law.mixture import pooled_abs_quantile
from semisure.matchers import load_matcher
from semisure.metrics import corner_error
from semisure.pairs.estimation import match_pair
from semisure.pairs.result import PairResult
from semisure.refit.planes import refit_homography
from semisure.report.html import Picture, Section, write_report
from semisure.report.pair import picture_of_lines, picture_of_matches
from semisure.report.plots import plot_reliability, png
from semisure.types import Calibration, Matcher, PerMatch, Tick, silent

VIEWS = 3  # of each photo
ESTIMATORS = ("ransac", "magsac++")
ARMS = ("base", "core", "core+")


@dataclass(slots=True, eq=False)
class DemoResult:
    """Corner errors by estimator and arm, and errors of matches, true and expected."""

    errors: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    expected: list[PerMatch] = field(default_factory=list)
    observed: list[PerMatch] = field(default_factory=list)
    # Errors in x and y that a half, and 90 %, of the stereo pair's matches stay within.
    stereo_expected_px: tuple[float, float] = (0.0, 0.0)
    stereo_observed_px: tuple[float, float] = (0.0, 0.0)
    stereo: tuple[tuple[Image, Image], PairResult] | None = None

    def medians(self) -> dict[str, dict[str, float]]:
        """Median corner error in px by estimator and arm."""
        return {
            estimator: {arm: float(np.median(row)) for arm, row in arms.items()}
            for estimator, arms in self.errors.items()
        }

    def rows(self) -> list[list[str]]:
        """The same as a table."""
        rows = [
            [name, *(f"{value:.3f}" for value in arms.values())]
            for name, arms in self.medians().items()
        ]
        return [["estimator", "base", "core (paper)", "core+ (ours)"], *rows]


def run(page: Path, tick: Tick = silent) -> DemoResult:
    """Match all pairs and write the page."""
    folder = sample_folder()
    matcher, calibration = load_matcher("daisy"), load_calibration("daisy")
    result = DemoResult()
    views = VIEWS * len(PHOTOS)
    total = views + 2  # the stereo pair, and the page
    for i in range(views):
        photo = read_image(folder / PHOTOS[i % len(PHOTOS)])
        _try_view(photo, matcher, calibration, np.random.default_rng([0, i]), result)
        tick(i + 1, total)
    _try_stereo(folder, matcher, calibration, result)
    tick(views + 1, total)
    _write_page(page, result)
    tick(total, total)
    return result


def _try_view(
    photo: Image,
    matcher: Matcher,
    calibration: Calibration,
    rng: np.random.Generator,
    result: DemoResult,
) -> None:
    image0, image1, truth = random_pair(photo, rng)
    pair = match_pair(image0, image1, matcher, calibration, model="homography")
    matches = pair.matches
    result.expected.append(pair.expected_px)
    result.observed.append(np.abs(true_residual(truth, matches)).mean(axis=1))
    for estimator in ESTIMATORS:
        start = estimate_homography(matches, estimator)
        core = refit_homography(matches, calibration, start, method="core")
        plus = refit_homography(matches, calibration, start)
        for arm, H in zip(ARMS, (start.model, core.model, plus.model), strict=True):
            error = corner_error(H, truth, matches.source_size)
            result.errors.setdefault(estimator, {}).setdefault(arm, []).append(error)


def _try_stereo(
    folder: Path, matcher: Matcher, calibration: Calibration, result: DemoResult
) -> None:
    """A real pair that no homography explains; measured disparity is its truth."""
    left, right = (read_image(folder / name) for name in STEREO[:2])
    with np.load(folder / STEREO[2], allow_pickle=False) as stored:
        disparity = stored["arr_0"]
    pair = match_pair(left, right, matcher, calibration)
    x, y = np.round(pair.matches.source).astype(int).T
    shift = disparity[y, x]
    measured = np.isfinite(shift)
    shift = np.stack([shift[measured], np.zeros(measured.sum())], axis=1)
    truth = pair.matches.source[measured] - shift
    observed = np.abs(pair.matches.target[measured] - truth)
    law = pair.law.take(measured)
    half, most = (pooled_abs_quantile(law, share) for share in (0.5, 0.9))
    result.stereo_expected_px = half, most
    half, most = np.quantile(observed, (0.5, 0.9)).tolist()
    result.stereo_observed_px = half, most
    result.stereo = (left, right), pair


def _write_page(page: Path, result: DemoResult) -> None:
    write_report(
        page,
        "semisure: how sure is a match?",
        "Two photos in, an expected error for every match and a better homography out.",
        [*_real_pair(result), _homographies(result), _errors(result)],
    )


def _real_pair(result: DemoResult) -> list[Section]:
    assert result.stereo is not None
    images, pair = result.stereo
    expected, observed = result.stereo_expected_px, result.stereo_observed_px
    table = [
        ["errors in x and y", "half within", "90 % within"],
        ["expected", *(f"{px:.2f} px" for px in expected)],
        ["observed, against measured depth", *(f"{px:.2f} px" for px in observed)],
    ]
    about = "Motorcycle, Middlebury stereo 2014, from scikit-image."
    sections = [
        Section(
            heading="A real pair",
            text=pair.summary(),
            pictures=[picture_of_matches(images, pair, about)],
        ),
        Section(heading="Its errors, expected and observed", table=table),
    ]
    lines = picture_of_lines(images, pair)
    if lines is not None:
        sections.insert(1, Section(heading="Its geometry", pictures=[lines]))
    return sections


def _homographies(result: DemoResult) -> Section:
    return Section(
        heading="A better homography",
        text=f"Median corner error in px over {VIEWS * len(PHOTOS)} pairs of views of "
        f"{len(PHOTOS)} photos with known homographies: the robust estimator "
        "alone, the paper's refit (core), ours (core+).",
        table=result.rows(),
    )


def _errors(result: DemoResult) -> Section:
    expected, observed = map(np.concatenate, (result.expected, result.observed))
    curve = png(plot_reliability(expected, observed))
    caption = "Reliability in bins of equal count."
    return Section(
        heading="Expected and observed errors",
        text=f"Expected against observed error of {len(expected):,} matches between "
        "views with known homographies.",
        pictures=[Picture(curve, caption)],
    )
