"""What a matched pair says about places in its two images.

A match is used if the pair's model explains it. Its points are taken less the matcher's
systematic shift. Its error lives in the image whose point was refined: there the
variance is that of the fine stage, since the model has shown that the coarse cell was
right. The other point is where the matcher was asked to look: it has no error of its
own. The error that the matches of a pair share is added to both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure.error_laws import error_law
from semisure.refit import without_bias
from semisure.types import Calibration, Matches, PerAxis, PerMatch, Points
from semisure.types.world import TYPICAL_VIEW_CHANGE

LEAST_WEIGHT = 0.5  # of a match that the model explains
LEAST_SHARED_PX = 0.05  # no calibration is better than this


@dataclass(frozen=True, slots=True, eq=False)
class Sightings:
    """Points of both images, their variances, and a score for each match."""

    points: tuple[Points, Points]
    variance: tuple[PerAxis, PerAxis]  # px², the shared error included
    score: PerMatch
    shared_px: float

    def __len__(self) -> int:
        return len(self.score)


def sighted(
    matches: Matches, calibration: Calibration, weight: PerMatch | None = None
) -> Sightings:
    """The matches that the model explains, as places in both images.

    Without `weight`, how much the model made of each match, all of them are used.

    >>> from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
    >>> matches, _ = SyntheticMatcher().match(np.eye(3), count=4)
    >>> seen = sighted(matches, EXAMPLE_CALIBRATION, np.array([0.9, 0.1, 1.0, 0.6]))
    >>> len(seen), bool((seen.variance[1] > seen.variance[0]).all())
    (3, True)
    """
    if weight is None:
        weight = np.ones(len(matches))
    kept = weight >= LEAST_WEIGHT
    unbiased, unlocated = without_bias(matches.take(kept), calibration)
    fine = 2.0 * error_law(unbiased, unlocated).fine_scale ** 2  # Laplace's variance
    shared = shared_variance(fine, calibration)
    refined = unbiased.side[:, None] == np.array([0, 1])
    first, second = (shared + np.where(refined[:, [k]], fine, 0.0) for k in (0, 1))
    score = unbiased.confidence * weight[kept]
    points = unbiased.source, unbiased.target
    return Sightings(points, (first, second), score, float(np.sqrt(shared)))


def shared_variance(fine: PerAxis, calibration: Calibration) -> float:
    """Variance of the error that a pair's matches share, px².

    As in a model's covariance: the variance of the matches' own errors times the change
    of view, here a usual one, times the square of the calibrated factor.
    """
    own = float(np.median(fine)) if len(fine) else 0.0
    factor = calibration.shared_error or 0.0
    return max(factor**2 * TYPICAL_VIEW_CHANGE * own, LEAST_SHARED_PX**2)
