"""Could this homography be chance? An a-contrario test (Moisan and Stival, 2004).

If the images had nothing to do with each other, a match would land within τ px of where
a model sends it with probability π τ² / area. The expected number of models at least
this well supported, over all that four matches can propose, is the number of false
alarms. Far below one, the model is no accident. Neighbouring matches err together, so
only one per block counts.
"""

from __future__ import annotations

from math import exp, pi

import numpy as np

from semisure.geometry.homography import residual
from semisure.types import Mask, Matches, Matrix3

BLOCK_PX = 32.0
THRESHOLD_PX = 3.0


def log_false_alarms(
    H_01: Matrix3, matches: Matches, threshold_px: float = THRESHOLD_PX
) -> float:
    """Logarithm of the number of models this good to be expected by chance."""
    near = np.linalg.norm(residual(H_01, matches), axis=1) <= threshold_px
    blocks, hits = _thinned(matches, near)
    # Four matches always agree with the model they propose, and prove nothing.
    blocks, hits = max(blocks, 5), max(hits, 4)
    area = float(np.min(matches.refined_size.prod(axis=1)))
    chance = min(1.0, pi * threshold_px**2 / area)
    choices = _log_choose(blocks, hits) + _log_choose(hits, 4)
    return float(np.log(blocks - 4) + choices + (hits - 4) * np.log(chance))


def model_failure(H_01: Matrix3, matches: Matches) -> float:
    """Chance, as far as the test can tell, that the model means nothing."""
    return 1.0 / (1.0 + exp(min(-log_false_alarms(H_01, matches), 700.0)))


def _thinned(matches: Matches, near: Mask) -> tuple[int, int]:
    """Blocks of either image that hold a match, and those that hold an inlier.

    A block counts once in each image, whichever has fewer: matches that crowd into a
    corner of one image are few, however widely they came from the other.
    """
    counts = []
    for points in (matches.source, matches.target):
        blocks = np.floor(points / BLOCK_PX)
        every = len(np.unique(blocks, axis=0))
        counts.append((every, len(np.unique(blocks[near], axis=0))))
    return min(c[0] for c in counts), min(c[1] for c in counts)


def _log_choose(n: int, k: int) -> float:
    from scipy.special import gammaln

    return float(gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1))
