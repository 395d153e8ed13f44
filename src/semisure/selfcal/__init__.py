"""Calibration without a ground-truth data set, and its test on what was held out."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from semisure.selfcal.from_maps import MapSource
    from semisure.selfcal.from_photos import (
        SelfCalibration,
        SelfCalSettings,
        self_calibrate,
    )
    from semisure.selfcal.from_scenes import calibrate_scenes
    from semisure.selfcal.held_out import Trust, trial
    from semisure.selfcal.scene_matching import SceneSettings

# Each is loaded when it is first asked for: matching two photos needs none of them.
_HOME = {
    "MapSource": "from_maps",
    "SceneSettings": "scene_matching",
    "SelfCalSettings": "from_photos",
    "SelfCalibration": "from_photos",
    "Trust": "held_out",
    "calibrate_scenes": "from_scenes",
    "self_calibrate": "from_photos",
    "trial": "held_out",
}

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


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
