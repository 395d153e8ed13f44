"""PoseLib's LO-RANSAC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from semisure.errors import MissingExtraError
from semisure.estimators.settings import RansacSettings, outcome, too_few
from semisure.types import Estimate, FloatArray


@dataclass(frozen=True, slots=True)
class PoseLib:
    """LO-RANSAC with truncated bundle adjustment; ignores confidences."""

    settings: RansacSettings

    def __call__(
        self, source: FloatArray, target: FloatArray, confidence: FloatArray
    ) -> Estimate:
        try:
            import poselib
        except ImportError:
            raise MissingExtraError("poselib", "ransac", "PoseLib's RANSAC") from None
        lacking = too_few(source, "poselib")
        if lacking is not None:
            return lacking
        options = _options(dict(poselib.RansacOptions()), self.settings)
        H, info = poselib.estimate_homography(source, target, options)
        found = np.asarray(H) if info["num_inliers"] else None
        return outcome(found, source, target, self.settings.threshold_px, "poselib")


def _options(known: dict[str, Any], settings: RansacSettings) -> dict[str, Any]:
    """Our settings under the names that the installed PoseLib knows.

    It ignores unknown names in silence, and the threshold's was changed.
    """
    threshold = "max_reproj_error" if "max_reproj_error" in known else "max_error"
    options = {
        threshold: settings.threshold_px,
        "max_iterations": settings.max_iterations,
        "min_iterations": min(1000, settings.max_iterations),
        "success_prob": settings.confidence,
        "seed": settings.seed,
    }
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise MissingExtraError(
            f"poselib with the option {unknown[0]}",
            "ransac",
            "This version of semisure",
        )
    return options
