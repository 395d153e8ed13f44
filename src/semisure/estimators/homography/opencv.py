"""The paper's five estimators by OpenCV."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from semisure.estimators.settings import RansacSettings, outcome, too_few
from semisure.estimators.usac import seeded_order, usac_params
from semisure.types import Estimate, IntArray, Matrix3, PerMatch, Points


@dataclass(frozen=True, slots=True)
class OpenCV:
    """One of the paper's five, by name."""

    name: str
    settings: RansacSettings

    def __call__(
        self, source: Points, target: Points, confidence: PerMatch
    ) -> Estimate:
        lacking = too_few(len(source), self.name)
        if lacking is not None:
            return lacking
        order = self._order(confidence)
        H = self._run(source[order], target[order])
        return outcome(H, source, target, self.settings.threshold_px, self.name)

    def _order(self, confidence: PerMatch) -> IntArray:
        """PROSAC wants the best first; plain RANSAC is seeded by its order alone."""
        if self.name == "prosac":
            return np.argsort(-confidence, kind="stable")
        if self.name == "ransac":
            return seeded_order(len(confidence), self.settings)
        return np.arange(len(confidence))

    def _run(self, source: Points, target: Points) -> Matrix3 | None:
        s = self.settings
        try:
            if self.name == "ransac":
                H, _ = cv2.findHomography(
                    source,
                    target,
                    cv2.RANSAC,
                    s.threshold_px,
                    maxIters=s.max_iterations,
                    confidence=s.confidence,
                )
            else:
                H, _ = cv2.findHomography(source, target, usac_params(self.name, s))
        except cv2.error:
            # Degenerate point sets trip assertions inside OpenCV's solvers.
            return None
        return None if H is None else np.asarray(H, dtype=np.float64)
