"""Two images in, calibrated matches and a refitted homography out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure import mixture
from semisure.covariance import expected_corner_error
from semisure.estimators import estimate_homography
from semisure.estimators.settings import RansacSettings
from semisure.geometry.significance import model_failure
from semisure.images import Image
from semisure.refit import RefitMethod, refit_homography, without_bias
from semisure.types import Calibration, Estimate, FloatArray, Matcher, Matches, Refit
from semisure.variants import error_law

UNRELATED = 0.5  # chance of a meaningless model above which the images are called so


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PairResult:
    """What semisure has to say about two images."""

    matches: Matches
    expected_px: FloatArray  # (n,) expected error of each match
    failure: FloatArray  # (n,) chance that its coarse cell was wrong
    estimate: Estimate
    refit: Refit
    model_failure: float  # chance that the homography means nothing; 1 without one

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
    """Match two images, estimate their homography, refit it."""
    # Estimators know no location: it is taken off the matches before they see them.
    matches, unbiased = without_bias(matcher(image0, image1), calibration)
    law = error_law(matches, unbiased)
    estimate = estimate_homography(matches, estimator, settings)
    refit = refit_homography(matches, unbiased, estimate, method=method)
    chance = 1.0 if refit.model is None else model_failure(refit.model, matches)
    return PairResult(
        matches=matches,
        expected_px=mixture.expected_abs_error(law),
        failure=mixture.coarse_failure(law),
        estimate=estimate,
        refit=refit,
        model_failure=chance,
    )
