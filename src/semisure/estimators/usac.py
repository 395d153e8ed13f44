"""OpenCV's USAC options, which its homography, essential and PnP solvers share."""

from __future__ import annotations

import cv2
import numpy as np

from semisure.estimators.settings import RansacSettings
from semisure.types import IntArray

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


def seeded_order(count: int, settings: RansacSettings) -> IntArray:
    """The order of the matches: OpenCV's plain RANSAC is seeded by nothing else."""
    if not settings.seed:
        return np.arange(count)
    return np.random.default_rng(settings.seed).permutation(count)
