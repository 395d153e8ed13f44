"""PoseLib's options, which all its solvers share."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from semisure.errors import MissingExtraError
from semisure.estimators.settings import RansacSettings


def load_poselib() -> ModuleType:
    """The module, or the line that installs it."""
    try:
        import poselib
    except ImportError:
        raise MissingExtraError("poselib", "ransac", "PoseLib's RANSAC") from None
    return poselib


def ransac_options(
    available: Mapping[str, Any], settings: RansacSettings, threshold: str
) -> dict[str, Any]:
    """Our settings under the names that the installed PoseLib has `available`.

    It ignores unknown names in silence, and renamed `threshold` to ``max_error``.
    """
    options = {
        threshold if threshold in available else "max_error": settings.threshold_px,
        "max_iterations": settings.max_iterations,
        "min_iterations": min(1000, settings.max_iterations),
        "success_prob": settings.confidence,
        "seed": settings.seed,
    }
    unknown = sorted(set(options) - set(available))
    if unknown:
        raise MissingExtraError(
            f"poselib with the option {unknown[0]}",
            "ransac",
            "This version of semisure",
        )
    return options
