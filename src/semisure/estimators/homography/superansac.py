"""SupeRANSAC. Its Python module takes no seed: results differ from run to run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure.errors import MissingExtraError
from semisure.estimators.settings import RansacSettings, outcome, too_few
from semisure.types import Estimate, PerMatch, Points


@dataclass(frozen=True, slots=True)
class SupeRansac:
    """PROSAC sampling by confidence, MAGSAC score, nested local optimisation."""

    settings: RansacSettings

    def __call__(
        self, source: Points, target: Points, confidence: PerMatch
    ) -> Estimate:
        try:
            import pysuperansac
        except ImportError:
            raise MissingExtraError(
                "pysuperansac", "superansac", "SupeRANSAC"
            ) from None
        lacking = too_few(len(source), "superansac")
        if lacking is not None:
            return lacking
        config = pysuperansac.RANSACSettings()
        config.inlier_threshold = self.settings.threshold_px
        config.confidence = self.settings.confidence
        config.max_iterations = self.settings.max_iterations
        config.min_iterations = min(1000, self.settings.max_iterations)
        # It buckets points by image size; the points' own extent will do.
        extent = [*source.max(axis=0), *target.max(axis=0)]
        H, inliers, _, _ = pysuperansac.estimateHomography(
            np.hstack([source, target]),
            [float(v) + 1.0 for v in extent],
            confidence.tolist(),
            config,
        )
        model = np.asarray(H) if len(inliers) else None
        return outcome(model, source, target, self.settings.threshold_px, "superansac")
