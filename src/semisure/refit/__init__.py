"""CoRe: the posterior-weighted refit after any robust estimator, model by model.

`refit_homography`, `refit_fundamental`, `refit_pose` and `refit_relative` share one
contract. Each takes raw matches, the calibration of their law, and a start: an estimate
or a plain model. Each takes a calibrated location off the matches itself, so that files
and results hold nothing but raw matches. Each returns a :class:`semisure.types.Refit`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from semisure.refit.corners import expected_corner_error
from semisure.refit.fundamental import (
    FUNDAMENTAL_METHODS,
    FundamentalMethod,
    refit_fundamental,
)
from semisure.refit.homography import refit_homography, refit_points
from semisure.refit.initial import without_bias
from semisure.refit.weights import REFIT_METHODS, RefitMethod

if TYPE_CHECKING:
    from semisure.refit.pose import refit_pose
    from semisure.refit.relative import RELATIVE_METHODS, RelativeMethod, refit_relative

# Loaded when they are first asked for: most pairs are matched without cameras.
_OF_CAMERAS = {
    "refit_pose": "pose",
    "RELATIVE_METHODS": "relative",
    "RelativeMethod": "relative",
    "refit_relative": "relative",
}

__all__ = [
    "FUNDAMENTAL_METHODS",
    "REFIT_METHODS",
    "RELATIVE_METHODS",
    "FundamentalMethod",
    "RefitMethod",
    "RelativeMethod",
    "expected_corner_error",
    "refit_fundamental",
    "refit_homography",
    "refit_points",
    "refit_pose",
    "refit_relative",
    "without_bias",
]


def __getattr__(name: str) -> Any:
    if name not in _OF_CAMERAS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_OF_CAMERAS[name]}"), name)
