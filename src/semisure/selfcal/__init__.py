"""Calibration without a ground-truth data set, and its test on what was held out."""

from semisure.selfcal.from_maps import MapSource
from semisure.selfcal.from_photos import (
    SelfCalibration,
    SelfCalSettings,
    self_calibrate,
)
from semisure.selfcal.from_scenes import calibrate_scenes
from semisure.selfcal.held_out import Trust, trial
from semisure.selfcal.scene_matching import SceneSettings

__all__ = [
    "MapSource",
    "SceneSettings",
    "SelfCalSettings",
    "SelfCalibration",
    "Trust",
    "calibrate_scenes",
    "self_calibrate",
    "trial",
]
