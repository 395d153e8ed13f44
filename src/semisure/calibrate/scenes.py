"""One law for many scenes, and how far single pairs lie from it.

A law fitted to views of flat photos is too sure of itself where there is depth. Here
scenes with known truth (posed images with depth, a reconstruction) and views of photos
are put together, each scene with the same weight, and four things are fitted in turn:

1. the matcher's eight numbers, to planes if there are any: their truth is exact, and
   they have no special direction, such as that of the baseline in scenes;
2. the effects of each pair (:mod:`semisure.law.pair_law`), by residuals from its lines
   or its homography, and their mean and spread over scenes;
3. four numbers of errors along epipolar lines, by the truth;
4. the effects that describe the matches of all pairs best, for pairs whose geometry is
   not known yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from semisure.errors import InputError
from semisure.geometry.epipolar import Lines, lines_of
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.law.families import LAPLACE
from semisure.law.fit_law import FitReport, fit
from semisure.law.pair_effects import (
    effects_by_lines,
    effects_by_residuals,
    with_effects,
)
from semisure.law.pair_law import departure_by_lines, on_lines
from semisure.refit.core import without_bias
from semisure.types import (
    AlongLines,
    Calibration,
    Matches,
    Matrix3,
    PairSpread,
    PerAxis,
    PerMatch,
    Vector,
)
from semisure.types.checks import within_px

MATCHES_A_SCENE = 6000  # at most, evenly: a video must not outvote a photograph
MIN_MATCHES = 30  # of a pair, to learn from it
# The prior of a matcher's pairs: wide, and few failures that no cue predicts.
WIDE = PairSpread(
    fine=(0.0, 0.7), gate=(0.0, 1.5), coarse=(0.0, 0.7), background=(-5.0, 1.5)
)
_LEAST_DEVIATION = 0.1

Some = TypeVar("Some")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ScenePair:
    """Matches of two images with their true residuals.

    `F_01` is the fundamental matrix of a scene in depth, None for a plane.
    """

    matches: Matches
    residual: PerAxis  # px, NaN where unknown
    F_01: Matrix3 | None = None

    def known(self) -> tuple[Matches, PerAxis]:
        """The matches whose residual is known, and it."""
        good = within_px(self.residual)
        return self.matches.take(good), self.residual[good]


Scenes = Mapping[str, Sequence[ScenePair]]


def fit_scenes(
    scenes: Scenes,
    *,
    location: bool = False,
    matcher: str = "unknown",
    resolution: tuple[int, int] | None = None,
    provenance: dict[str, Any] | None = None,
) -> tuple[Calibration, FitReport]:
    """The law of a matcher from scenes with truth, and how its pairs differ."""
    good = usable(scenes)
    # Planes have exact truth; without planes, all pairs are used.
    flat = {
        name: [pair for pair in pairs if pair.F_01 is None]
        for name, pairs in good.items()
    }
    chosen = flat if any(flat.values()) else good
    calibration, report = fit(
        [entry for pairs in chosen.values() for entry in _balanced(pairs)],
        location=location,
        matcher=matcher,
        resolution=resolution,
        provenance=provenance,
    )
    spread = fit_spread(good, calibration)
    return replace(calibration, pairs=spread), report


def usable(scenes: Scenes) -> Scenes:
    """The scenes without pairs that have too few matches of known error."""
    enough = {
        name: [pair for pair in pairs if len(pair.known()[0]) >= MIN_MATCHES]
        for name, pairs in scenes.items()
    }
    enough = {name: pairs for name, pairs in enough.items() if pairs}
    if not enough:
        raise InputError(
            f"A law of scenes needs a pair with at least {MIN_MATCHES} matches of "
            "known error, but there is none."
        )
    return enough


def _balanced(pairs: Sequence[ScenePair]) -> list[tuple[Matches, PerAxis]]:
    """The known matches of a scene's pairs, no more than its share of them."""
    entries = [pair.known() for pair in pairs]
    rows = _share(len(matches) for matches, _ in entries)
    return [(matches.take(rows), residual[rows]) for matches, residual in entries]


def _share(counts: Iterable[int]) -> slice:
    """The rows that bring a scene's matches down to its share, evenly."""
    return slice(None, None, max(1, -(-sum(counts) // MATCHES_A_SCENE)))


def fit_spread(scenes: Scenes, calibration: Calibration) -> PairSpread:
    """Mean and spread of the pairs' effects, each scene with the same weight."""
    wide = replace(calibration, pairs=WIDE)
    by_scene = [
        np.array([_geometry(pair, wide)[2] for pair in pairs])
        for pairs in scenes.values()
    ]
    effects = np.concatenate(by_scene)
    weight = np.concatenate([np.full(len(e), 1 / len(e)) for e in by_scene])
    weight = weight / weight.sum()
    mean = weight @ effects
    deviation = np.sqrt(weight @ (effects - mean) ** 2)
    deviation = np.maximum(deviation, _LEAST_DEVIATION)
    fine, gate, coarse, background = zip(mean.tolist(), deviation.tolist(), strict=True)
    spread = PairSpread(fine=fine, gate=gate, coarse=coarse, background=background)
    adapting = replace(calibration, pairs=spread)
    in_depth = [[p for p in ps if p.F_01 is not None] for ps in scenes.values()]
    along = fit_along([_along_lines(pairs, adapting) for pairs in in_depth if pairs])
    usual = _usual(spread, scenes, calibration)
    return replace(spread, along=along, usual=usual)


def _geometry(
    pair: ScenePair, calibration: Calibration
) -> tuple[mixture.ErrorLaw, Lines | None, Vector]:
    """A pair's law by its cues, its lines if it is in depth, and its four effects."""
    assert calibration.pairs is not None
    law = error_law(pair.matches, calibration)
    if pair.F_01 is None:
        residual = pair.residual - law.location
        return law, None, effects_by_residuals(law, residual, calibration.pairs)
    unbiased, _ = without_bias(pair.matches, calibration)
    lines = lines_of(pair.F_01[None], unbiased)
    return law, lines, effects_by_lines(law, lines, calibration.pairs)


def _usual(
    spread: PairSpread, scenes: Scenes, calibration: Calibration
) -> tuple[float, float, float, float]:
    """The effects that make the true residuals of all pairs most likely."""
    laws = [
        [(error_law(matches, calibration), r) for matches, r in _balanced(pairs)]
        for pairs in scenes.values()
    ]

    def score(pair: tuple[mixture.ErrorLaw, PerAxis], effects: Vector) -> float:
        law, residual = pair
        return float(mixture.log_density(with_effects(law, effects), residual).mean())

    fine, gate, coarse, background = _most_likely(laws, score, np.array(spread.means))
    return fine, gate, coarse, background


def _most_likely(
    scenes: Sequence[Sequence[Some]],
    score: Callable[[Some, Vector], float],
    start: Vector,
) -> list[float]:
    """The numbers of the best mean score; each scene has the same weight."""
    from scipy.optimize import minimize

    def objective(numbers: Vector) -> float:
        by_scene = [np.mean([score(pair, numbers) for pair in ps]) for ps in scenes]
        return -float(np.mean(by_scene))

    numbers: list[float] = minimize(objective, start, method="L-BFGS-B").x.tolist()
    return numbers


@dataclass(frozen=True, slots=True, eq=False)
class AlongErrors:
    """A pair's known errors along lines, and what predicts them."""

    law: mixture.ErrorLaw  # under the effects of the pair
    distance: PerMatch  # from the line, px
    normal: PerAxis
    departure: PerMatch  # from neighbours, px
    error: PerMatch  # along the line, px

    def score(self, numbers: Vector) -> float:
        """Mean log density of the errors under these; true lines are exact."""
        cues = self.distance, self.normal, np.zeros(1), self.departure
        logit, fine, coarse = on_lines(self.law, *cues, _along(numbers))
        laplace = LAPLACE.log_density
        right = laplace(self.error, fine) - np.logaddexp(0.0, logit)
        failed = laplace(self.error, coarse) - np.logaddexp(0.0, -logit)
        return float(np.logaddexp(right, failed).mean())


def fit_along(scenes: Sequence[Sequence[AlongErrors]]) -> AlongLines:
    """The numbers under which the true errors along lines are most likely."""
    if not scenes:
        return AlongLines()
    return _along(_most_likely(scenes, AlongErrors.score, np.zeros(4)))


def _along(numbers: Iterable[float]) -> AlongLines:
    fine, coarse, gate, departure = map(float, numbers)
    return AlongLines(fine=fine, coarse=coarse, gate=gate, departure=departure)


def _along_lines(
    pairs: Sequence[ScenePair], adapting: Calibration
) -> Sequence[AlongErrors]:
    """What a scene's pairs show along lines, with no more than its share of matches."""
    indices = [np.flatnonzero(within_px(pair.residual)) for pair in pairs]
    share = _share(map(len, indices))
    samples = []
    for pair, rows in zip(pairs, indices, strict=True):
        law, lines, effects = _geometry(pair, adapting)
        assert lines is not None
        departure = departure_by_lines(pair.matches, law, lines)
        normal, (x, y) = lines.normal, (pair.residual - law.location).T
        error = y * normal[:, 0] - x * normal[:, 1]
        arrays = lines.distance, normal, departure, error
        law, chosen = with_effects(law, effects), rows[share]
        samples.append(AlongErrors(law.take(chosen), *(a[chosen] for a in arrays)))
    return samples
