"""The third component of what is said of matches, learnt from scenes with truth.

Ten numbers are shared by all pairs: four of the component itself
(:mod:`semisure.refit.middle_law`), two of the departure from neighbours, four of errors
along lines. They are fitted in turn with the pairs' effects under the law that has the
component: under one without it, errors of a few pixels would count as failures that no
cue foresees.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from semisure.selfcal.scenes import (
    ALONG_BOUNDS,
    FIRST_ALONG,
    NO_ALONG,
    WIDE,
    Scenes,
    seen_pairs,
    spread_over_pairs,
    with_along,
)
from semisure.types import Calibration, PairSpread, Vector

MATCHES = 1500  # of a scene, at most: neighbouring matches err together
ROUNDS = 3  # of effects and numbers
_FIRST_MIDDLE = np.array([0.5, 0.6, -0.5, 0.4])
_MIDDLE_BOUNDS = ((-1.0, 5.0), (0.05, 0.95), (-12.0, 6.0), (-2.0, 4.0))
_FIRST_DEPARTURE = np.array([0.0, 0.5, 0.3, 0.0, 0.3])
_DEPARTURE_BOUNDS = ((-3.0, 3.0), (0.0, 1.5), (-1.0, 4.0), (-4.0, 4.0), (-1.0, 4.0))
_BOUNDS = (*ALONG_BOUNDS, *_MIDDLE_BOUNDS, *_DEPARTURE_BOUNDS)


def fit_reported(scenes: Scenes, calibration: Calibration) -> PairSpread:
    """How pairs differ by a law with a middle component, for `PairSpread.reported`."""
    posed = any(pair.F_01 is not None for pairs in scenes.values() for pair in pairs)
    along = FIRST_ALONG if posed else NO_ALONG
    numbers = np.concatenate([along, _FIRST_MIDDLE, _FIRST_DEPARTURE])
    spread = spread_over_pairs(scenes, replace(calibration, pairs=WIDE))
    for _ in range(ROUNDS):
        numbers = _most_likely(numbers, spread, scenes, calibration)
        wide = replace(calibration, pairs=_with(WIDE, numbers))
        spread = spread_over_pairs(scenes, wide)
    return spread


def _most_likely(
    first: Vector, spread: PairSpread, scenes: Scenes, calibration: Calibration
) -> Vector:
    """The numbers under which the true residuals of all scenes are most likely."""
    from scipy.optimize import minimize

    adapting = replace(calibration, pairs=spread)
    seen = [seen_pairs(pairs, adapting, MATCHES) for pairs in scenes.values()]

    def objective(numbers: Vector) -> float:
        told = _with(spread, numbers)
        by_scene = [np.mean([pair.score(told) for pair in pairs]) for pairs in seen]
        return -float(np.mean(by_scene))

    answer = minimize(
        objective, first, method="L-BFGS-B", bounds=_BOUNDS, options={"ftol": 1e-6}
    )
    return np.asarray(answer.x)


def _with(spread: PairSpread, numbers: Vector) -> PairSpread:
    blunt, place, constant, slope, *departure = numbers[4:].tolist()
    return replace(
        with_along(spread, numbers[:4]),
        middle=(blunt, place, constant, slope),
        departure=(*departure,),
    )
