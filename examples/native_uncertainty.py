"""Another matcher's own uncertainty for `semisure bench native`: SIFT and its ratio.

    python examples/native_uncertainty.py DATA sift
    echo 'native = { "SIFT, ratio" = "sift" }' > native.toml
    semisure bench native --data DATA --config native.toml -o results

SIFT stands for any matcher that states how sure it is. Each pair becomes one file with
its points, an uncertainty for each (larger is less certain, in any unit), and the sizes
of the images that the points belong to.
"""

from __future__ import annotations

import sys

import cv2
import numpy as np

from semisure.bench.studies.native import export_native

FEATURES = 4000


def match(image0: np.ndarray, image1: np.ndarray) -> tuple[np.ndarray, ...]:
    """Points of image 0 and image 1 (n × 2 px), and the ratio of the best distances.

    OpenCV's keypoints have pixel centres at integers, as ours.
    """
    sift = cv2.SIFT_create(FEATURES)
    (points0, words0), (points1, words1) = (
        sift.detectAndCompute(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), None)
        for image in (image0, image1)
    )
    if words0 is None or words1 is None or len(words1) < 2:
        return np.zeros((0, 2)), np.zeros((0, 2)), np.zeros(0)
    nearest = cv2.BFMatcher().knnMatch(words0, words1, k=2)
    source = np.array([points0[a.queryIdx].pt for a, _ in nearest])
    target = np.array([points1[a.trainIdx].pt for a, _ in nearest])
    ratio = np.array([a.distance / max(b.distance, 1e-9) for a, b in nearest])
    return source, target, ratio


if __name__ == "__main__":
    export_native(sys.argv[1], sys.argv[2], match)
