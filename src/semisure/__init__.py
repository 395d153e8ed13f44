"""semisure: how sure a semi-dense match is, in pixels, and a better model from it."""

# ruff: noqa: I001 - names that are passed on, a statement for each module
from __future__ import annotations

from importlib import import_module

from semisure.__about__ import __version__ as __version__

TYPE_CHECKING = False  # not typing's, which takes longer to import than all the rest
if TYPE_CHECKING:
    from typing import Any

    from semisure.calibrate.photos import self_calibrate as self_calibrate
    from semisure.errors import InputError as InputError, SemisureError as SemisureError
    from semisure.estimators import (
        RansacSettings as RansacSettings,
        estimate_fundamental as estimate_fundamental,
        estimate_homography as estimate_homography,
        load_estimator as load_estimator,
    )
    from semisure.estimators.pose import estimate_pose as estimate_pose
    from semisure.estimators.relative import estimate_relative as estimate_relative
    from semisure.geometry.camera import Camera as Camera
    from semisure.geometry.homography import residual as residual
    from semisure.io.files import (
        load_calibration as load_calibration,
        load_matches as load_matches,
        save_calibration as save_calibration,
        save_matches as save_matches,
    )
    from semisure.io.images import read_image as read_image
    from semisure.law.error_laws import error_law as error_law
    from semisure.law.fit_law import FitReport as FitReport, fit as fit
    from semisure.law.mixture import (
        coarse_failure as coarse_failure,
        coarse_success as coarse_success,
        expected_abs_error as expected_abs_error,
    )
    from semisure.matchers import load_matcher as load_matcher
    from semisure.matchers.own_cues import (
        cues_from_scores as cues_from_scores,
        fine_std_from_heatmap as fine_std_from_heatmap,
    )
    from semisure.one_call import match as match
    from semisure.pairs.estimation import match_pair as match_pair
    from semisure.pairs.result import PairResult as PairResult
    from semisure.refit.core import without_bias as without_bias
    from semisure.refit.corners import expected_corner_error as expected_corner_error
    from semisure.refit.fundamental import refit_fundamental as refit_fundamental
    from semisure.refit.planes import (
        refit_homography as refit_homography,
        refit_points as refit_points,
    )
    from semisure.refit.poses import refit_pose as refit_pose
    from semisure.refit.relative import refit_relative as refit_relative
    from semisure.types import (
        Calibration as Calibration,
        Estimate as Estimate,
        Matches as Matches,
        Pair as Pair,
        Refit as Refit,
        WorldMatches as WorldMatches,
    )

# Each is loaded when it is first asked for: `semisure --help` needs none of them.
_ROOMS = {
    "calibrate.photos": "self_calibrate",
    "errors": "InputError SemisureError",
    "estimators": "RansacSettings estimate_fundamental estimate_homography "
    "load_estimator",
    "estimators.pose": "estimate_pose",
    "estimators.relative": "estimate_relative",
    "geometry.camera": "Camera",
    "geometry.homography": "residual",
    "io.files": "load_calibration load_matches save_calibration save_matches",
    "io.images": "read_image",
    "matchers": "load_matcher",
    "matchers.own_cues": "cues_from_scores fine_std_from_heatmap",
    "law.error_laws": "error_law",
    "law.fit_law": "FitReport fit",
    "law.mixture": "coarse_failure coarse_success expected_abs_error",
    "pairs.estimation": "match_pair",
    "one_call": "match",
    "pairs.result": "PairResult",
    "refit.core": "without_bias",
    "refit.fundamental": "refit_fundamental",
    "refit.corners": "expected_corner_error",
    "refit.planes": "refit_homography refit_points",
    "refit.poses": "refit_pose",
    "refit.relative": "refit_relative",
    "types": "Calibration Estimate Matches Pair Refit WorldMatches",
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names.split()}

__all__ = sorted(["__version__", *_HOME])


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'semisure' has no attribute {name!r}")
    value = getattr(import_module(f"semisure.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
