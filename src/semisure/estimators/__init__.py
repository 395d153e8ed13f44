"""Robust estimators: a room for each model, and in it a file for each library."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from semisure.estimators.fundamental import (
    FUNDAMENTAL_ESTIMATORS,
    estimate_fundamental,
)
from semisure.estimators.homography import (
    ESTIMATOR_NAMES,
    PAPER_ESTIMATORS,
    estimate_homography,
    load_estimator,
)
from semisure.estimators.settings import RansacSettings

if TYPE_CHECKING:
    from semisure.estimators.pose import POSE_ESTIMATOR_NAMES, estimate_pose
    from semisure.estimators.relative import RELATIVE_ESTIMATORS, estimate_relative

# Loaded when they are first asked for: most pairs are matched without cameras.
_OF_CAMERAS = {
    "POSE_ESTIMATOR_NAMES": "pose",
    "estimate_pose": "pose",
    "RELATIVE_ESTIMATORS": "relative",
    "estimate_relative": "relative",
}

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


def __getattr__(name: str) -> Any:
    if name not in _OF_CAMERAS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_OF_CAMERAS[name]}"), name)
