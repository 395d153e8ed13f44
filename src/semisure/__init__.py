"""semisure: how sure a semi-dense match is, in pixels, and a better model from it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from semisure.__about__ import __version__

if TYPE_CHECKING:
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
    from semisure.images import read_image
    from semisure.matchers import load_matcher
    from semisure.mixture import coarse_failure, coarse_success, expected_abs_error
    from semisure.pipeline import match_pair
    from semisure.posefit import refit_pose
    from semisure.refit import refit_homography, refit_points, without_bias
    from semisure.relative import refit_relative
    from semisure.selfcal import self_calibrate
    from semisure.types import Calibration, Estimate, Matches, Pair, Refit
    from semisure.variants import error_law
    from semisure.world import WorldMatches

# Each is loaded when it is first asked for: `semisure --help` needs none of them.
_ROOMS = {
    "calibrate": "FitReport fit",
    "covariance": "expected_corner_error",
    "errors": "InputError SemisureError",
    "estimators": "estimate_homography load_estimator",
    "estimators.pose": "estimate_pose",
    "estimators.relative": "estimate_relative",
    "estimators.settings": "RansacSettings",
    "files": "load_calibration load_matches save_calibration save_matches",
    "geometry.camera": "Camera",
    "geometry.homography": "residual",
    "images": "read_image",
    "matchers": "load_matcher",
    "mixture": "coarse_failure coarse_success expected_abs_error",
    "pipeline": "match_pair",
    "posefit": "refit_pose",
    "refit": "refit_homography refit_points without_bias",
    "relative": "refit_relative",
    "selfcal": "self_calibrate",
    "types": "Calibration Estimate Matches Pair Refit",
    "variants": "error_law",
    "world": "WorldMatches",
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names.split()}

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
    if name not in _HOME:
        raise AttributeError(f"module 'semisure' has no attribute {name!r}")
    found = getattr(import_module(f"semisure.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
