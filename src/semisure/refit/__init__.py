"""CoRe: the posterior-weighted refit after any robust estimator, model by model.

`refit_homography`, `refit_fundamental`, `refit_pose` and `refit_relative` share one
contract. Each takes raw matches, the calibration of their law, and a start: an estimate
or a plain model. Each takes a calibrated location off the matches itself, so that files
and results hold nothing but raw matches. Each returns a :class:`semisure.types.Refit`.
"""

from semisure.refit.corners import expected_corner_error
from semisure.refit.fundamental import (
    FUNDAMENTAL_METHODS,
    FundamentalMethod,
    refit_fundamental,
)
from semisure.refit.homography import refit_homography, refit_points
from semisure.refit.initial import without_bias
from semisure.refit.pose import refit_pose
from semisure.refit.relative import RELATIVE_METHODS, RelativeMethod, refit_relative
from semisure.refit.weights import REFIT_METHODS, RefitMethod

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
