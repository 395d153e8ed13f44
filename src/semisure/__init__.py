"""semisure: how sure a semi-dense match is, in pixels, and a better model from it."""

from semisure.__about__ import __version__
from semisure.calibrate import FitReport, fit
from semisure.errors import InputError, SemisureError
from semisure.estimators import estimate_homography, load_estimator
from semisure.estimators.settings import RansacSettings
from semisure.files import (
    load_calibration,
    load_matches,
    save_calibration,
    save_matches,
)
from semisure.geometry.homography import residual
from semisure.mixture import coarse_failure, coarse_success, expected_abs_error
from semisure.refit import refit_homography, refit_points, without_bias
from semisure.types import Calibration, Estimate, Matches, Pair, Refit
from semisure.variants import error_law

__all__ = [
    "Calibration",
    "Estimate",
    "FitReport",
    "InputError",
    "Matches",
    "Pair",
    "RansacSettings",
    "Refit",
    "SemisureError",
    "__version__",
    "coarse_failure",
    "coarse_success",
    "error_law",
    "estimate_homography",
    "expected_abs_error",
    "fit",
    "load_calibration",
    "load_estimator",
    "load_matches",
    "refit_homography",
    "refit_points",
    "residual",
    "save_calibration",
    "save_matches",
    "without_bias",
]
