"""semisure: how sure a semi-dense match is, in pixels, and a better model from it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from semisure.__about__ import __version__
from semisure.calibrate import FitReport, fit
from semisure.covariance import expected_corner_error
from semisure.errors import InputError, SemisureError
from semisure.estimators import estimate_homography, load_estimator
from semisure.estimators.pose import estimate_pose
from semisure.estimators.relative import estimate_relative
from semisure.estimators.settings import RansacSettings
from semisure.files import (
    load_calibration,
    load_matches,
    save_calibration,
    save_matches,
)
from semisure.geometry.camera import Camera
from semisure.geometry.homography import residual
from semisure.matchers import load_matcher
from semisure.mixture import coarse_failure, coarse_success, expected_abs_error
from semisure.posefit import refit_pose
from semisure.refit import refit_homography, refit_points, without_bias
from semisure.relative import refit_relative
from semisure.types import Calibration, Estimate, Matches, Pair, Refit
from semisure.variants import error_law
from semisure.world import WorldMatches

if TYPE_CHECKING:
    from semisure.images import read_image
    from semisure.pipeline import match_pair
    from semisure.selfcal import self_calibrate

# These need OpenCV, which is loaded when the first of them is asked for.
_WITH_OPENCV = {
    "match_pair": "semisure.pipeline",
    "read_image": "semisure.images",
    "self_calibrate": "semisure.selfcal",
}

__all__ = [
    "Calibration",
    "Camera",
    "Estimate",
    "FitReport",
    "InputError",
    "Matches",
    "Pair",
    "RansacSettings",
    "Refit",
    "SemisureError",
    "WorldMatches",
    "__version__",
    "coarse_failure",
    "coarse_success",
    "error_law",
    "estimate_homography",
    "estimate_pose",
    "estimate_relative",
    "expected_abs_error",
    "expected_corner_error",
    "fit",
    "load_calibration",
    "load_estimator",
    "load_matcher",
    "load_matches",
    "match_pair",
    "read_image",
    "refit_homography",
    "refit_points",
    "refit_pose",
    "refit_relative",
    "residual",
    "save_calibration",
    "save_matches",
    "self_calibrate",
    "without_bias",
]


def __getattr__(name: str) -> Any:
    if name in _WITH_OPENCV:
        return getattr(import_module(_WITH_OPENCV[name]), name)
    raise AttributeError(f"module 'semisure' has no attribute {name!r}")
