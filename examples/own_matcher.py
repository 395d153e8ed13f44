"""Wrap a matcher of your own: forty lines from similarities to calibrated errors.

Any callable of two images that returns `semisure.Matches` is a matcher. This one
compares 16 px patches of 8 px cells by their correlation; yours would be a network.

    python examples/own_matcher.py PHOTOS
"""

import sys

import cv2
import numpy as np

import semisure
from semisure.io.images import find_images
from semisure.selfcal import SelfCalSettings

CELL, TEMPERATURE = 8, 0.05


def patches(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors of all cells, and their centres in px."""
    grey = cv2.GaussianBlur(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), (0, 0), 2.0)
    windows = np.lib.stride_tricks.sliding_window_view(grey, (16, 16))[::CELL, ::CELL]
    rows, columns = windows.shape[:2]
    vectors = windows[:, :, ::2, ::2].reshape(rows * columns, -1).astype(np.float64)
    vectors -= vectors.mean(axis=1, keepdims=True)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) + 1.0
    y, x = np.mgrid[:rows, :columns]
    return vectors, np.stack([x.ravel(), y.ravel()], axis=1) * float(CELL) + 7.5


def match(image0: np.ndarray, image1: np.ndarray) -> semisure.Matches:
    """Mutual maxima with the three cues that semisure needs."""
    (f0, x0), (f1, x1) = patches(image0), patches(image1)
    weight = np.exp((f0 @ f1.T - 1.0) / TEMPERATURE)
    rows, columns = weight / weight.sum(1, keepdims=True), weight / weight.sum(0)
    best = weight.argmax(axis=1)
    i = np.flatnonzero(weight.argmax(axis=0)[best] == np.arange(len(best)))
    j, row = best[i], rows[i]
    variance = row @ x1**2 - (row @ x1) ** 2
    return semisure.Matches(
        source=x0[i],
        target=x1[j],
        confidence=np.clip(rows[i, j] * columns[i, j], 1e-12, 1.0),
        coarse_std=np.sqrt(np.maximum(variance, 0.0)),
        fine_std=np.full((len(i), 2), CELL / np.sqrt(12.0)),  # no fine stage: a cell
        source_size=image0.shape[1::-1],
        target_size=image1.shape[1::-1],
    )


if __name__ == "__main__":
    settings = SelfCalSettings(pairs=20, max_side=320)
    photos = find_images(sys.argv[1])
    result = semisure.self_calibrate(match, photos, settings, name="mine")
    print(result.trust.verdict())
