"""Made-up images for the tests of benches."""

from __future__ import annotations

import cv2
import numpy as np

from semisure.types import FloatArray


def texture(seed: int) -> FloatArray:
    """Grey blobs, 320 × 240."""
    noise = np.random.default_rng(seed).normal(size=(240, 320))
    smooth = cv2.GaussianBlur(noise, (0, 0), 2.0)
    return 128 + 90 * smooth / np.abs(smooth).max()
