"""Wrap a matcher of your own: forty lines from similarities to calibrated errors.

Any callable of two images that returns `semisure.Matches` is a matcher. This one
compares 16 px patches of 8 px cells by their correlation; yours would be a network.

    python examples/own_matcher.py PHOTOS
"""

import sys

import cv2
import numpy as np

import semisure
from semisure.calibrate.photos import SelfCalSettings

CELL, TEMPERATURE = 8, 0.05


def patches(image: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    """Unit vectors of all cells, their centres in px, and how many rows and columns."""
    grey = cv2.GaussianBlur(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), (0, 0), 2.0)
    windows = np.lib.stride_tricks.sliding_window_view(grey, (16, 16))[::CELL, ::CELL]
    rows, columns = windows.shape[:2]
    vectors = windows[:, :, ::2, ::2].reshape(rows * columns, -1).astype(np.float64)
    vectors -= vectors.mean(axis=1, keepdims=True)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) + 1.0
    y, x = np.mgrid[:rows, :columns]
    centres = np.stack([x.ravel(), y.ravel()], axis=1) * float(CELL) + 7.5
    return vectors, centres, (rows, columns)


def match(image0: np.ndarray, image1: np.ndarray) -> semisure.Matches:
    """Mutual maxima with the three cues that semisure needs."""
    (f0, x0, _), (f1, x1, grid) = patches(image0), patches(image1)
    scores = f0 @ f1.T
    best = scores.argmax(axis=1)
    i = np.flatnonzero(scores.argmax(axis=0)[best] == np.arange(len(best)))
    j = best[i]
    cues = semisure.cues_from_scores(
        scores, i, j, grid=grid, cell_px=CELL, temperature=TEMPERATURE
    )
    return semisure.Matches(
        source=x0[i],
        target=x1[j],
        confidence=cues.confidence,
        coarse_std=cues.coarse_std,
        fine_std=np.full((len(i), 2), CELL / np.sqrt(12.0)),  # no fine stage: a cell
        source_size=image0.shape[1::-1],
        target_size=image1.shape[1::-1],
    )


if __name__ == "__main__":
    settings = SelfCalSettings(pairs=20, max_side=320)
    result = semisure.self_calibrate(match, sys.argv[1], settings, name="mine")
    print(result.trust.verdict())
