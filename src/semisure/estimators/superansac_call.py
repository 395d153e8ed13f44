"""SupeRANSAC. Its Python module takes no seed: results differ from run to run."""

from __future__ import annotations

import numpy as np

from semisure.errors import MissingExtraError
from semisure.estimators.settings import RansacSettings
from semisure.types import Matrix3, PerMatch, Points


def run(
    function: str,
    source: Points,
    target: Points,
    confidence: PerMatch,
    settings: RansacSettings,
) -> Matrix3 | None:
    """What one of its functions finds, or None."""
    try:
        import pysuperansac
    except ImportError:
        raise MissingExtraError("pysuperansac", "superansac", "SupeRANSAC") from None
    config = pysuperansac.RANSACSettings()
    config.inlier_threshold = settings.threshold_px
    config.confidence = settings.confidence
    config.max_iterations = settings.max_iterations
    config.min_iterations = min(1000, settings.max_iterations)
    # It buckets points by image size; the points' own extent will do.
    extent = [*source.max(axis=0), *target.max(axis=0)]
    model, inliers, _, _ = getattr(pysuperansac, function)(
        np.hstack([source, target]),
        [float(v) + 1.0 for v in extent],
        confidence.tolist(),
        config,
    )
    return np.asarray(model) if len(inliers) else None
