"""Robust estimators: a file for each model, and in it a function for each library."""

from semisure.estimators.fundamental import FUNDAMENTAL_ESTIMATORS, estimate_fundamental
from semisure.estimators.homography import (
    ESTIMATOR_NAMES,
    PAPER_ESTIMATORS,
    estimate_homography,
    load_estimator,
)
from semisure.estimators.pose import POSE_ESTIMATOR_NAMES, estimate_pose
from semisure.estimators.relative import RELATIVE_ESTIMATORS, estimate_relative
from semisure.estimators.settings import RansacSettings

__all__ = [
    "ESTIMATOR_NAMES",
    "FUNDAMENTAL_ESTIMATORS",
    "PAPER_ESTIMATORS",
    "POSE_ESTIMATOR_NAMES",
    "RELATIVE_ESTIMATORS",
    "RansacSettings",
    "estimate_fundamental",
    "estimate_homography",
    "estimate_pose",
    "estimate_relative",
    "load_estimator",
]
