"""One law for many scenes, and how far single pairs lie from it.

A law fitted to views of flat photos is too sure of itself where there is depth. Here
scenes with known truth (posed images with depth, a reconstruction) and views of photos
are put together, each scene with the same say, and four things are fitted in turn:

1. the matcher's eight numbers, to planes if there are any: their truth is exact, and
   no direction is set apart in them as that of the baseline is in scenes;
2. the effects of each pair (:mod:`semisure.refit.pair_law`), by what its lines or its
   homography tell, and their mean and spread over scenes;
3. what errors along epipolar lines have more than those across them and, if asked for,
   how much more often matches fail that move otherwise than their neighbours, by the
   truth;
4. the effects that describe all matches alike best: what can be said before a pair's
   geometry is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from semisure import mixture
from semisure.calibration import FitReport, fit
from semisure.error_laws import error_law
from semisure.errors import InputError
from semisure.geometry.epipolar import Lines, lines_of
from semisure.refit.initial import without_bias
from semisure.refit.neighbours import agreement
from semisure.refit.pair_effects import (
    bluntness,
    effects_by_lines,
    effects_by_residuals,
)
from semisure.refit.pair_law import (
    agreement_by_lines,
    with_effects,
)
from semisure.types import (
    Calibration,
    FloatArray,
    Index,
    Matches,
    Matrix3,
    PairSpread,
    PerAxis,
    Vector,
)
from semisure.types.checks import within_px

MATCHES_A_SCENE = 6000  # at most, evenly: a video must not outvote a photograph
MIN_MATCHES = 30  # of a pair, to learn from it
# Where nothing is known of a matcher's pairs: wide, and few failures unforeseen.
WIDE = PairSpread(
    fine=(0.0, 0.7), gate=(0.0, 1.5), coarse=(0.0, 0.7), background=(-5.0, 1.5)
)
_LEAST_DEVIATION = 0.1
# What errors along lines have more, to begin with: fine, gate, coarse, and the carry.
FIRST_ALONG = np.array([0.3, 0.5, 0.0, 0.5])
NO_ALONG = np.array([0.0, 0.0, 0.0, 1.0])  # where there are no lines
ALONG_BOUNDS = ((-1.0, 2.0), (-3.0, 3.0), (-2.0, 2.0), (0.0, 1.0))


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
    neighbours: bool = False,
) -> tuple[Calibration, FitReport]:
    """The law of a matcher from scenes with truth, and how its pairs differ.

    `neighbours` is that of :func:`fit_spread`.
    """
    good = usable(scenes)
    calibration, report = fit(
        _to_begin_with(good),
        location=location,
        matcher=matcher,
        resolution=resolution,
        provenance=provenance,
    )
    spread = fit_spread(good, calibration, neighbours=neighbours)
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


def _to_begin_with(scenes: Scenes) -> list[tuple[Matches, PerAxis]]:
    """What the eight numbers are fitted to: planes, or all pairs if there are none."""
    flat = {name: _planar(pairs) for name, pairs in scenes.items()}
    chosen = flat if any(flat.values()) else scenes
    return [entry for pairs in chosen.values() for entry in _balanced(pairs)]


def _planar(pairs: Sequence[ScenePair]) -> list[ScenePair]:
    return [pair for pair in pairs if pair.F_01 is None]


def _balanced(pairs: Sequence[ScenePair]) -> list[tuple[Matches, PerAxis]]:
    """No more than a scene's share of its matches, taken evenly from all its pairs."""
    known = [pair.known() for pair in pairs]
    every = max(1, -(-sum(len(m) for m, _ in known) // MATCHES_A_SCENE))
    rows = slice(None, None, every)
    return [(matches.take(rows), residual[rows]) for matches, residual in known]


def fit_spread(
    scenes: Scenes, calibration: Calibration, *, neighbours: bool = False
) -> PairSpread:
    """Mean and spread of the pairs' effects, each scene with the same say.

    With `neighbours`, matches that move otherwise than those around them count as more
    likely to fail: they are told apart better, but intervals hold less well.
    """
    spread = spread_over_pairs(scenes, replace(calibration, pairs=WIDE))
    spread = _with_truth(spread, scenes, calibration, neighbours=neighbours)
    return replace(spread, usual=_usual(spread, scenes, calibration))


def spread_over_pairs(scenes: Scenes, wide: Calibration) -> PairSpread:
    """Mean and spread of the effects that pairs have by a law that leaves them free."""
    assert wide.pairs is not None
    by_scene = {
        name: np.array([pair_effects(pair, wide) for pair in pairs])
        for name, pairs in scenes.items()
    }
    weight = np.concatenate([np.full(len(e), 1 / len(e)) for e in by_scene.values()])
    effects = np.concatenate(list(by_scene.values()))
    weight = weight / weight.sum()
    mean = weight @ effects
    deviation = np.sqrt(weight @ (effects - mean) ** 2)
    deviation = np.maximum(deviation, _LEAST_DEVIATION)
    fine, gate, coarse, background = zip(mean.tolist(), deviation.tolist(), strict=True)
    return replace(
        wide.pairs, fine=fine, gate=gate, coarse=coarse, background=background
    )


def _usual(
    spread: PairSpread, scenes: Scenes, calibration: Calibration
) -> tuple[float, float, float, float]:
    """The effects that make the true residuals of all pairs most likely."""
    from scipy.optimize import minimize

    laws = [
        [
            (error_law(matches, calibration), residual)
            for matches, residual in _balanced(pairs)
        ]
        for pairs in scenes.values()
    ]

    def objective(effects: Vector) -> float:
        by_scene = [
            np.mean([_mean_log_density(law, r, effects, spread) for law, r in pairs])
            for pairs in laws
        ]
        return -float(np.mean(by_scene))

    answer = minimize(objective, np.array(spread.means), method="L-BFGS-B")
    fine, gate, coarse, background = answer.x.tolist()
    return fine, gate, coarse, background


def _mean_log_density(
    law: mixture.ErrorLaw, residual: PerAxis, effects: Vector, spread: PairSpread
) -> float:
    adapted = with_effects(law, effects, spread)
    return float(mixture.log_density(adapted, residual).mean())


def pair_effects(pair: ScenePair, calibration: Calibration) -> Vector:
    """The four effects of a pair by its own geometry, truth or not."""
    assert calibration.pairs is not None
    law = error_law(pair.matches, calibration)
    if pair.F_01 is None:
        residual = pair.residual - law.location
        return effects_by_residuals(law, residual, calibration.pairs)
    return effects_by_lines(law, lines_of_pair(pair, calibration), calibration.pairs)


def lines_of_pair(pair: ScenePair, calibration: Calibration) -> Lines:
    """The true lines of a posed pair's matches, less their location."""
    unbiased, _ = without_bias(pair.matches, calibration)
    assert pair.F_01 is not None
    return lines_of(pair.F_01[None], unbiased)


def _with_truth(
    spread: PairSpread,
    scenes: Scenes,
    calibration: Calibration,
    *,
    neighbours: bool,
) -> PairSpread:
    """The spread with what only the truth tells, most likely over all scenes.

    That is how errors along lines exceed those across, and what neighbours mean.
    """
    from scipy.optimize import minimize

    adapting = replace(calibration, pairs=spread)
    seen = [seen_pairs(pairs, adapting) for pairs in scenes.values()]

    def objective(numbers: Vector) -> float:
        told = _with(spread, numbers)
        by_scene = [np.mean([pair.score(told) for pair in pairs]) for pairs in seen]
        return -float(np.mean(by_scene))

    posed = any(pair.along is not None for pairs in seen for pair in pairs)
    along = FIRST_ALONG if posed else NO_ALONG
    bounds = list(ALONG_BOUNDS)
    first = np.array(along)
    if neighbours:
        bounds += [(-5.0, 5.0)] * 3
        first = np.array([*along, 0.0, 0.0, 0.0])
    answer = minimize(objective, first, method="L-BFGS-B", bounds=bounds)
    return _with(spread, np.asarray(answer.x))


def _with(spread: PairSpread, numbers: Vector) -> PairSpread:
    rest = numbers[4:].tolist()
    neighbours = (rest[0], rest[1], rest[2]) if rest else None
    return replace(with_along(spread, numbers[:4]), neighbours=neighbours)


def with_along(spread: PairSpread, numbers: Vector) -> PairSpread:
    """`spread` with other numbers of errors along lines: three larger by, and carry."""
    fine, gate, coarse, carry = numbers.tolist()
    return replace(
        spread, along_fine=fine, along_gate=gate, along_coarse=coarse, carry=carry
    )


def seen_pairs(
    pairs: Sequence[ScenePair], calibration: Calibration, most: int = MATCHES_A_SCENE
) -> list[SeenPair]:
    """A scene's pairs, with no more than `most` matches, its share."""
    whole = [SeenPair.of(pair, calibration) for pair in pairs]
    every = max(1, -(-sum(len(pair.residual) for pair in whole) // most))
    return [pair.take(slice(None, None, every)) for pair in whole]


@dataclass(frozen=True, slots=True, eq=False)
class SeenPair:
    """A pair's known residuals with its law, effects and neighbours."""

    law: mixture.ErrorLaw
    residual: PerAxis
    along: PerAxis | None  # squares of the line's direction; None for a plane
    alike: FloatArray  # agreement with neighbours, (n, 2)
    blunt: FloatArray  # of fine peaks within the pair, (n, 1)
    effects: Vector

    @classmethod
    def of(cls, pair: ScenePair, calibration: Calibration) -> SeenPair:
        law, along = error_law(pair.matches, calibration), None
        if pair.F_01 is None:
            alike = agreement(pair.matches, pair.residual - law.location)
        else:
            lines = lines_of_pair(pair, calibration)
            along = lines.normal[:, ::-1] ** 2
            alike = agreement_by_lines(pair.matches, law, lines)
        effects = pair_effects(pair, calibration)
        rest = along, alike, bluntness(law), effects
        whole = cls(law, pair.residual, *rest)
        return whole.take(within_px(pair.residual))

    def take(self, rows: Index) -> SeenPair:
        return replace(
            self,
            law=self.law.take(rows),
            residual=self.residual[rows],
            along=None if self.along is None else self.along[rows],
            alike=self.alike[rows],
            blunt=self.blunt[rows],
        )

    def score(self, spread: PairSpread) -> float:
        """Mean log density of the residuals."""
        law = with_effects(
            self.law,
            self.effects,
            spread,
            self.along,
            self.alike,
            blunt=self.blunt,
        )
        return float(mixture.log_density(law, self.residual).mean())
