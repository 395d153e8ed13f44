"""The paper's five estimators by OpenCV."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from semisure.estimators.settings import RansacSettings, outcome, too_few
from semisure.types import Estimate, FloatArray, IntArray

# sampler, score, local optimisation, its sample size and its iterations: what the
# flags USAC_DEFAULT, USAC_PROSAC, USAC_ACCURATE and USAC_MAGSAC set, spelt out so
# that a seed can be set beside them.
_USAC: dict[str, tuple[int, int, int, int, int]] = {
    "lo-ransac": (
        cv2.SAMPLING_UNIFORM,
        cv2.SCORE_METHOD_MSAC,
        cv2.LOCAL_OPTIM_INNER_AND_ITER_LO,
        20,
        20,
    ),
    "prosac": (
        cv2.SAMPLING_PROSAC,
        cv2.SCORE_METHOD_MSAC,
        cv2.LOCAL_OPTIM_INNER_LO,
        14,
        10,
    ),
    "gc-ransac": (
        cv2.SAMPLING_UNIFORM,
        cv2.SCORE_METHOD_MSAC,
        cv2.LOCAL_OPTIM_GC,
        20,
        25,
    ),
    "magsac++": (
        cv2.SAMPLING_UNIFORM,
        cv2.SCORE_METHOD_MAGSAC,
        cv2.LOCAL_OPTIM_SIGMA,
        75,
        15,
    ),
}


@dataclass(frozen=True, slots=True)
class OpenCV:
    """One of the paper's five, by name."""

    name: str
    settings: RansacSettings

    def __call__(
        self, source: FloatArray, target: FloatArray, confidence: FloatArray
    ) -> Estimate:
        lacking = too_few(source, self.name)
        if lacking is not None:
            return lacking
        order = self._order(confidence)
        H = self._run(source[order], target[order])
        return outcome(H, source, target, self.settings.threshold_px, self.name)

    def _order(self, confidence: FloatArray) -> IntArray:
        """PROSAC wants the best first; plain RANSAC is seeded by its order alone."""
        if self.name == "prosac":
            return np.argsort(-confidence, kind="stable")
        if self.name == "ransac" and self.settings.seed:
            return np.random.default_rng(self.settings.seed).permutation(
                len(confidence)
            )
        return np.arange(len(confidence))

    def _run(self, source: FloatArray, target: FloatArray) -> FloatArray | None:
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


def usac_params(name: str, settings: RansacSettings) -> cv2.UsacParams:
    """OpenCV's options for the estimator called `name`."""
    params = cv2.UsacParams()
    params.threshold = settings.threshold_px
    params.maxIterations = settings.max_iterations
    params.confidence = settings.confidence
    params.randomGeneratorState = settings.seed
    (
        params.sampler,
        params.score,
        params.loMethod,
        params.loSampleSize,
        params.loIterations,
    ) = _USAC[name]
    return params
