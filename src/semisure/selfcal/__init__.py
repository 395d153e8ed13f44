"""Calibration without a ground-truth data set, and its test on held-out photos."""

from semisure.selfcal.from_photos import (
    SelfCalibration,
    SelfCalSettings,
    self_calibrate,
)
from semisure.selfcal.held_out import Trust, trial

__all__ = ["SelfCalSettings", "SelfCalibration", "Trust", "self_calibrate", "trial"]
