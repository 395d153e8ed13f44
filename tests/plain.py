"""Matches that are all alike, between points that a test chooses."""

from __future__ import annotations

import numpy as np

from semisure.types import Matches, Points


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
