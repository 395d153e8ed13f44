"""PoseLib's LO-RANSAC for homographies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure.estimators.poselib_options import load_poselib, ransac_options
from semisure.estimators.settings import RansacSettings, outcome, too_few
from semisure.types import Estimate, PerMatch, Points


@dataclass(frozen=True, slots=True)
class PoseLib:
    """LO-RANSAC with truncated bundle adjustment; ignores confidences."""

    settings: RansacSettings

    def __call__(
        self, source: Points, target: Points, confidence: PerMatch
    ) -> Estimate:
        poselib = load_poselib()
        lacking = too_few(len(source), "poselib")
        if lacking is not None:
            return lacking
        options = ransac_options(
            poselib.RansacOptions(), self.settings, "max_reproj_error"
        )
        H, info = poselib.estimate_homography(source, target, options)
        model = np.asarray(H) if info["num_inliers"] else None
        return outcome(model, source, target, self.settings.threshold_px, "poselib")
