"""Matches that are all alike, between chosen points; and coverage."""

from __future__ import annotations

import numpy as np

from semisure.types import FloatArray, Matches, Points, Vector


def plain_matches(source: Points, target: Points, **changed: object) -> Matches:
    """Matches of images of 640 × 480 px; `changed` are fields with other values."""
    n = len(source)
    usual = {
        "confidence": np.full(n, 0.9),
        "fine_std": np.ones((n, 2)),
        "coarse_std": np.full((n, 2), 30.0),
        "source_size": (640, 480),
        "target_size": (640, 480),
    }
    return Matches(source=source, target=target, **{**usual, **changed})


def coverage(pit: FloatArray, levels: list[float]) -> Vector:
    """Share of truths inside each central interval, from the law's CDF at them."""
    distance = 2.0 * np.abs(np.ravel(pit) - 0.5)
    return np.array([(distance <= level).mean() for level in levels])
