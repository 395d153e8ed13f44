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

from semisure.law.mixture import STD_FLOOR_PX
from semisure.refit.core import without_bias
from semisure.types import Calibration, Matches, PerAxis, PerMatch
from semisure.types.pair_records import PairRecord

LEAST_WEIGHT = 0.5  # of a match that the model explains
SHARED_PX = 0.05  # standard deviation of an error that the matches of a pair share


@dataclass(frozen=True, slots=True, eq=False)
class Sightings:
    """Matches that a model explains, less their bias, with variances and scores."""

    matches: Matches
    variance: tuple[PerAxis, PerAxis]  # px² in both images, the shared error included
    score: PerMatch

    def __len__(self) -> int:
        return len(self.score)


def sighted(record: PairRecord, calibration: Calibration | None) -> Sightings:
    """The matches of a pair that its model explains; all where it has no model.

    >>> from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
    >>> matches, _ = SyntheticMatcher().match(np.eye(3), count=4)
    >>> pair = PairRecord(
    ...     image0="a", image1="b", state="sound", matches=matches,
    ...     weight=np.array([0.9, 0.1, 1.0, 0.6]), fine_scale=np.ones((4, 2)))
    >>> seen = sighted(pair, EXAMPLE_CALIBRATION)
    >>> len(seen), (seen.variance[1] - seen.variance[0]).tolist()
    (3, [[2.0, 2.0], [2.0, 2.0], [2.0, 2.0]])
    """
    assert record.matches is not None
    weight = np.ones(len(record.matches)) if record.weight is None else record.weight
    kept = weight >= LEAST_WEIGHT
    matches = record.matches.take(kept)
    if calibration is not None:
        matches, _ = without_bias(matches, calibration)
    fine = _fine_variance(record)[kept]
    first, second = (
        SHARED_PX**2 + np.where(matches.side[:, None] == side, fine, 0.0)
        for side in (0, 1)
    )
    score = matches.confidence * weight[kept]
    return Sightings(matches, (first, second), score)


def _fine_variance(record: PairRecord) -> PerAxis:
    """Of the refined point where the coarse cell is right, (n, 2) px²."""
    if record.fine_scale is not None:
        return 2.0 * record.fine_scale**2  # Laplace's
    assert record.matches is not None
    return np.maximum(record.matches.fine_std, STD_FLOOR_PX) ** 2
