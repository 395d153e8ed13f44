"""Robust estimators: a file for each model, and in it a function for each library.

`pose` and `relative` are not loaded here: most pairs are matched without cameras.
"""

from semisure.estimators.fundamental import FUNDAMENTAL_ESTIMATORS, estimate_fundamental
from semisure.estimators.homography import (
    ESTIMATOR_NAMES,
    PAPER_ESTIMATORS,
    estimate_homography,
    load_estimator,
)
from semisure.estimators.settings import RansacSettings

__all__ = [
    "ESTIMATOR_NAMES",
    "FUNDAMENTAL_ESTIMATORS",
    "PAPER_ESTIMATORS",
    "RansacSettings",
    "estimate_fundamental",
    "estimate_homography",
    "load_estimator",
]
