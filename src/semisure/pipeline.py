"""Two images in, calibrated matches and a refitted homography out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from semisure import mixture
from semisure.error_laws import error_law
from semisure.estimators import RansacSettings, estimate_homography
from semisure.geometry import homography as plane
from semisure.geometry.significance import model_failure
from semisure.io.images import Image
from semisure.mixture import ErrorLaw
from semisure.refit import (
    RefitMethod,
    expected_corner_error,
    refit_homography,
    without_bias,
)
from semisure.types import (
    Calibration,
    Estimate,
    Matcher,
    Matches,
    Matrix3,
    PerMatch,
    Refit,
)

UNRELATED = 0.5  # chance of a meaningless model above which the images are called so


@dataclass(frozen=True, eq=False, kw_only=True)
class PairResult:
    """What semisure has to say about two images.

    `matches` are as the matcher gave them, and what is said of each, its expected
    error included, is said of those points. Where the calibration has a location,
    ``semisure.without_bias(result.matches, result.calibration)`` takes it off.
    """

    matches: Matches
    calibration: Calibration
    estimate: Estimate
    refit: Refit
    model_failure: float  # chance that the homography means nothing; 1 without one

    @cached_property
    def law(self) -> ErrorLaw:
        """The law of each match's error."""
        return error_law(self.matches, self.calibration)

    @cached_property
    def expected_px(self) -> PerMatch:
        """Expected error of each match."""
        return mixture.expected_abs_error(self.law)

    @cached_property
    def failure(self) -> PerMatch:
        """Chance of each match that its coarse cell was wrong."""
        return mixture.coarse_failure(self.law)

    @property
    def related(self) -> bool:
        """False where nothing speaks for a common plane in the two images."""
        return self.refit.model is not None and self.model_failure < UNRELATED

    def summary(self) -> str:
        """One sentence for people."""
        n = len(self.matches)
        if self.refit.model is None:
            return f"No homography: {self.refit.reason}."
        if not self.related:
            return (
                f"The images seem unrelated: {n:,} matches, of which so few agree that "
                f"chance alone explains them (probability {self.model_failure:.2f})."
            )
        middle, behind = np.median(self.expected_px), self.refit.weight.sum()
        sentence = (
            f"{n:,} matches, median expected error {middle:.2f} px; the homography "
            f"rests on {behind:,.0f} of them"
        )
        C = self.refit.covariance
        if C is not None:
            sentence += f", expected corner error {expected_corner_error(C):.2f} px"
        sentence += "."
        if self.refit.reason is None:
            return sentence
        return f"{sentence} The initial model was kept: {self.refit.reason}."


def match_pair(
    image0: Image,
    image1: Image,
    matcher: Matcher,
    calibration: Calibration,
    *,
    estimator: str = "magsac++",
    method: RefitMethod = "core+",
    settings: RansacSettings | None = None,
) -> PairResult:
    """Match two images, estimate their homography, refit it.

    >>> import semisure
    >>> blobs = np.random.default_rng(0).normal(size=(30, 40))
    >>> image0 = np.uint8(128 + 40 * np.clip(blobs, -3, 3)).repeat(8, 0).repeat(8, 1)
    >>> image1 = np.roll(image0, (9, 14), axis=(0, 1))
    >>> matcher, calibration = (
    ...     semisure.load_matcher("daisy"), semisure.load_calibration("daisy"))
    >>> result = match_pair(image0, image1, matcher, calibration)
    >>> result.related, result.refit.model[:2, 2].round().tolist()
    (True, [14.0, 9.0])
    """
    matches = matcher(image0, image1)
    return refit_matches(
        matches, calibration, estimator=estimator, method=method, settings=settings
    )


def refit_matches(
    matches: Matches,
    calibration: Calibration,
    *,
    estimator: str = "magsac++",
    method: RefitMethod = "core+",
    settings: RansacSettings | None = None,
    initial: Matrix3 | None = None,
) -> PairResult:
    """The same from matches, such as those of a file.

    With `initial`, the refit starts from that homography and nothing is estimated.
    """
    # Estimators know no location: it is taken off what they see, and only there.
    unbiased, _ = without_bias(matches, calibration)
    if initial is None:
        estimate = estimate_homography(unbiased, estimator, settings)
    else:
        estimate = _given(initial, unbiased, settings or RansacSettings())
    refit = refit_homography(matches, calibration, estimate, method=method)
    chance = 1.0 if refit.model is None else model_failure(refit.model, unbiased)
    return PairResult(
        matches=matches,
        calibration=calibration,
        estimate=estimate,
        refit=refit,
        model_failure=chance,
    )


def _given(initial: Matrix3, matches: Matches, settings: RansacSettings) -> Estimate:
    """A homography from elsewhere as an estimate, with the inliers it has here."""
    distance = np.linalg.norm(plane.residual(initial, matches), axis=1)
    inliers = distance <= settings.threshold_px
    return Estimate(model=initial, inliers=inliers, estimator="given")
