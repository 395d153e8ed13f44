"""What is said of matches once their geometry is known, learnt from scenes with truth.

Eighteen numbers are shared by all pairs: four of errors along lines, four of the third
component (:mod:`semisure.refit.middle_law`), three of the departure from neighbours and
seven of matches that went astray along their lines (:mod:`semisure.refit.astray`). They
are fitted in turn with the pairs'
effects under the law that has the component: under one without it, errors of a few
pixels would count as failures that no cue foresees.

The likelihood says little of how far failures go, on which expected errors rest. So
these have a say of their own: in the middle eight deciles of each scene the logarithm
of expected over observed errors should be small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from semisure import mixture
from semisure.error_laws import error_law
from semisure.mixture import ErrorLaw
from semisure.refit.astray import OnLines, law_on_lines
from semisure.refit.pair_effects import bluntness
from semisure.refit.pair_law import surface_by_lines, with_effects
from semisure.selfcal.scenes import (
    ALONG_BOUNDS,
    FIRST_ALONG,
    NO_ALONG,
    WIDE,
    ScenePair,
    Scenes,
    lines_of_pair,
    pair_effects,
    spread_over_pairs,
    with_along,
)
from semisure.types import (
    Calibration,
    FloatArray,
    IntArray,
    PairSpread,
    PerAxis,
    PerMatch,
    Vector,
)
from semisure.types.checks import within_px

MATCHES = 1500  # of a scene, at most: neighbouring matches err together
ROUNDS = 3  # of effects and numbers
DECILES = 10
OF_DECILES = 0.2  # nats that a mean squared log ratio of 1 weighs as much as
_FIRST_MIDDLE = (0.5, 0.6, -0.5, 0.4)
_FIRST_DEPARTURE = (0.0, 0.5, 0.3)
_FIRST_ASTRAY = (0.0, 0.4, 0.3, 1.0, 0.0, -1.0, 1.0)
_BOUNDS = (
    *ALONG_BOUNDS,
    *((-1.0, 5.0), (0.05, 0.95), (-12.0, 6.0), (-2.0, 4.0)),
    *((-3.0, 3.0), (0.0, 1.5), (-1.0, 4.0)),
    *((-8.0, 8.0), (-1.0, 3.0), (-3.0, 3.0), (0.0, 4.0), (-6.0, 3.0)),
    *((-4.0, 4.0), (0.0, 4.0)),
)


def fit_reported(scenes: Scenes, calibration: Calibration) -> PairSpread:
    """How pairs differ by what is said of their matches, `PairSpread.reported`."""
    posed = any(pair.F_01 is not None for pairs in scenes.values() for pair in pairs)
    along = FIRST_ALONG if posed else NO_ALONG
    numbers = np.array([*along, *_FIRST_MIDDLE, *_FIRST_DEPARTURE, *_FIRST_ASTRAY])
    spread = spread_over_pairs(scenes, replace(calibration, pairs=WIDE))
    for _ in range(ROUNDS):
        lessons = [
            _Lessons.of(scenes, replace(calibration, pairs=spread), posed=posed)
            for posed in (False, True)
        ]
        numbers = _most_likely(numbers, spread, [one for one in lessons if len(one)])
        wide = replace(calibration, pairs=_with(WIDE, numbers))
        spread = spread_over_pairs(scenes, wide)
    return spread


def _with(spread: PairSpread, numbers: Vector) -> PairSpread:
    along, middle, departure, astray = np.split(numbers, [4, 8, 11])
    return replace(
        with_along(spread, along),
        middle=tuple(middle.tolist()),
        departure=(*departure.tolist(), 0.0, 0.0),
        astray=tuple(astray.tolist()),
    )


def _most_likely(
    first: Vector, spread: PairSpread, lessons: Sequence[_Lessons]
) -> Vector:
    """The numbers under which the true residuals of all scenes are most likely."""
    from scipy.optimize import minimize

    scene, weight, observed = (
        np.concatenate([getattr(one, name) for one in lessons])
        for name in ("scene", "weight", "observed")
    )

    def objective(numbers: Vector) -> float:
        told = _with(spread, numbers)
        laws = [one.told_by(told) for one in lessons]
        pairs = list(zip(laws, lessons, strict=True))
        density = [mixture.log_density(law, one.residual) for law, one in pairs]
        likely = weight @ np.concatenate(density).mean(axis=1)
        expected = np.concatenate([mixture.expected_abs_error(law) for law in laws])
        return float(OF_DECILES * off_by_decile(expected, observed, scene) - likely)

    answer = minimize(
        objective, first, method="L-BFGS-B", bounds=_BOUNDS, options={"ftol": 1e-6}
    )
    return np.asarray(answer.x)


def off_by_decile(expected: PerMatch, observed: PerMatch, scene: IntArray) -> float:
    """Mean squared log of expected over observed in the middle deciles of scenes.

    >>> error = np.linspace(1.0, 2.0, 50)
    >>> round(off_by_decile(np.e * error, error, np.zeros(50, dtype=int)), 6)
    1.0
    """
    order = np.lexsort([expected, scene])
    offs = []
    for rows in np.split(order, np.flatnonzero(np.diff(scene[order])) + 1):
        parts = np.array_split(rows, DECILES)[1:-1]
        means = [(expected[part].mean(), observed[part].mean()) for part in parts]
        offs.append(np.diff(np.log(np.maximum(means, 1e-6)), axis=1))
    return float(np.mean(np.square(offs)))


@dataclass(frozen=True, slots=True, eq=False)
class _Lessons:
    """Matches of many pairs whose residual is known, either all posed or all planar."""

    law: ErrorLaw
    residual: PerAxis
    effects: FloatArray  # (4, n, 1), of each match's pair
    blunt: FloatArray  # (n, 1)
    seen: OnLines | None  # None of planes
    scene: IntArray
    weight: PerMatch  # each scene has the same say, and each pair in it

    def __len__(self) -> int:
        return len(self.residual)

    @property
    def observed(self) -> PerMatch:
        return np.asarray(np.abs(self.residual).mean(axis=1))

    @classmethod
    def of(cls, scenes: Scenes, adapting: Calibration, *, posed: bool) -> _Lessons:
        parts = []
        for number, pairs in enumerate(scenes.values()):
            count = sum(np.count_nonzero(within_px(pair.residual)) for pair in pairs)
            every = slice(None, None, max(1, -(-count // MATCHES)))
            share = 1.0 / (len(pairs) * len(scenes))
            parts += [
                cls._of_pair(pair, adapting, every, number, share)
                for pair in pairs
                if (pair.F_01 is not None) == posed
            ]
        return cls._joined(parts) if parts else cls._nothing()

    @classmethod
    def _of_pair(
        cls,
        pair: ScenePair,
        adapting: Calibration,
        every: slice,
        scene: int,
        share: float,
    ) -> _Lessons:
        law, seen = error_law(pair.matches, adapting), None
        rows = np.flatnonzero(within_px(pair.residual))[every]
        if pair.F_01 is not None:
            lines = lines_of_pair(pair, adapting)
            around = surface_by_lines(pair.matches, law, lines)
            seen = OnLines.of(pair.matches, law, lines, around).take(rows)
        effects = pair_effects(pair, adapting)
        return cls(
            law.take(rows),
            pair.residual[rows],
            np.broadcast_to(effects[:, None, None], (4, len(rows), 1)),
            bluntness(law)[rows],
            seen,
            np.full(len(rows), scene),
            np.full(len(rows), share / len(rows)),
        )

    @classmethod
    def _joined(cls, parts: Sequence[_Lessons]) -> _Lessons:
        def put(arrays: Sequence[FloatArray], axis: int = 0) -> FloatArray:
            return np.concatenate(arrays, axis=axis)

        laws = [part.law for part in parts]
        views = [part.seen for part in parts if part.seen is not None]
        fields = OnLines.__slots__
        seen = [
            put([getattr(view, name) for view in views]) for name in fields if views
        ]
        return cls(
            ErrorLaw(
                put([law.fine_scale for law in laws]),
                put([law.coarse_scale for law in laws]),
                put([law.tail_logit for law in laws]),
                put([law.location for law in laws]),
            ),
            put([part.residual for part in parts]),
            put([part.effects for part in parts], axis=1),
            put([part.blunt for part in parts]),
            OnLines(*seen) if views else None,
            np.concatenate([part.scene for part in parts]),
            put([part.weight for part in parts]),
        )

    @classmethod
    def _nothing(cls) -> _Lessons:
        two, one = np.zeros((0, 2)), np.zeros((0, 1))
        law = ErrorLaw(two, two, two, two)
        none = np.zeros(0)
        return cls(law, two, np.zeros((4, 0, 1)), one, None, none.astype(int), none)

    def told_by(self, spread: PairSpread) -> ErrorLaw:
        """What is said of the matches with these numbers."""
        law, effects, blunt = self.law, self.effects, self.blunt
        if self.seen is None:
            return with_effects(law, effects, spread, blunt=blunt)
        return law_on_lines(law, effects, spread, self.seen, blunt=blunt)
