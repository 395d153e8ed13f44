"""One law from scenes whose truth is unknown.

1. The eight numbers by what lines tell (:mod:`semisure.calibrate.by_lines`), in turn
   with the pairs' geometry, which is refitted by each new law until that stays.
2. Errors along epipolar lines leave no trace. What they are, a law of the matcher that
   was fitted to scenes with truth says, or the mean of other matchers' (`along`).
   Residuals are drawn from the law, so adapted to each pair.
3. From these, as if they were true, :mod:`semisure.calibrate.scenes` learns how pairs
   differ, and what can be said before a pair's geometry is known.

Pairs with truth, such as random views of photos, take part in the first step, where
they hold what lines leave open. Scenes with truth take part in the last too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np

from semisure.calibrate.by_lines import Distances, LineLikelihood, fit_lines, joined
from semisure.calibrate.found_pairs import FoundPair
from semisure.calibrate.pair_store import Residuals
from semisure.calibrate.scenes import (
    WIDE,
    ScenePair,
    Scenes,
    along_lines,
    fit_spread,
    lines_of_pair,
    spread_over_pairs,
    usable,
)
from semisure.errors import InputError
from semisure.io.files import SHIPPED, load_calibration
from semisure.law.fit_law import FitReport
from semisure.law.mixture import location, sample
from semisure.law.newton import Minimum
from semisure.law.parameters import pack
from semisure.refit.pair_law import pair_law_by_lines
from semisure.types import AlongLines, Calibration

# Pairs of a scene err together too: no scene counts for more independent matches, so
# that the prior of by_lines has its say where lines run one way.
SCENE_MATCHES = 1000.0
VIEWS_SHARE = 0.25  # weight of random views beside that of the scenes
MAX_ROUNDS = 4
TOLERANCE = 0.1  # no parameter of the law matters below it

# Where nothing is known of a matcher: cues as they are, one cell in twenty wrong.
GENERIC = Calibration(
    coarse_var_gain=(1.0, 1.0),
    fine_var_gain=(1.0, 1.0),
    spread_slope=0.0,
    doubt_slope=1.0,
    intercept=(-3.0, -3.0),
)

FoundScenes = Mapping[str, Sequence[FoundPair]]


def start_for(matcher: str) -> Calibration:
    """The law to begin with: the one shipped with the matcher, if any is."""
    if (SHIPPED / f"{matcher}.json").is_file():
        return load_calibration(matcher)
    return replace(GENERIC, matcher=matcher)


def along_for(matcher: str) -> tuple[AlongLines, str]:
    """What errors along lines are, and the laws that say so.

    The matcher's own if one is shipped that was fitted to scenes with truth, else the
    mean of all that are.
    """
    shipped = {path.stem: load_calibration(path) for path in SHIPPED.glob("*.json")}
    known = {
        name: law.pairs.along for name, law in shipped.items() if law.pairs is not None
    }
    names = [matcher] if matcher in known else sorted(known)
    numbers = [astuple(known[name]) for name in names]
    return along_lines(np.mean(numbers, axis=0)), ", ".join(names)


def fit_without_truth(
    scenes: FoundScenes,
    start: Calibration,
    along: AlongLines,
    *,
    views: Sequence[Residuals] = (),
    known: Scenes | None = None,
    provenance: dict[str, Any] | None = None,
) -> tuple[Calibration, FitReport]:
    """The law of pairs whose geometry was found, and how its fit across lines went.

    Parameters
    ----------
    start
        The law to begin with, whose location and shared error are kept.
    along
        What errors along lines are.
    views
        Matches with exact residuals on both axes, such as random views of photos.
    known
        Scenes with truth, as for :func:`semisure.calibrate.scenes.fit_scenes`.
    """
    found = {name: list(pairs) for name, pairs in scenes.items() if pairs}
    if not found:
        raise InputError(
            "A law without truth needs pairs whose geometry can be trusted, but there "
            "is none. Use images that overlap more."
        )
    truths = _with_truth(known or {}, views, len(found), start)
    across = _across_law(found, start, truths)
    seen = {
        name: [pair.scene_pair(across.law) for pair in pairs]
        for name, pairs in across.scenes.items()
    }
    spread = spread_over_pairs(seen, replace(across.law, pairs=WIDE))
    drawn = _drawn(seen, replace(across.law, pairs=replace(spread, along=along)))
    lessons = usable({**drawn, **(known or {})})
    spread = fit_spread(lessons, across.law, along)
    law = replace(across.law, pairs=spread, provenance=dict(provenance or {}))
    return law, across.report()


@dataclass(frozen=True, slots=True, eq=False)
class _Across:
    """The law across lines, the geometry refitted by it, and how the fit went."""

    law: Calibration
    scenes: FoundScenes
    minimum: Minimum
    nll: float  # mean of each distance, nats
    distances: int
    rounds: int

    def report(self) -> FitReport:
        best = self.minimum
        return FitReport(
            optimiser=f"newton across lines ({self.rounds} rounds of law and geometry)",
            law="mixture",
            matches=self.distances,
            pairs=sum(len(pairs) for pairs in self.scenes.values()),
            nll=self.nll,
            nll_by_stratum={},
            matches_by_stratum={},
            iterations=best.iterations,
            evaluations=best.evaluations,
            converged=best.converged,
            message=best.message,
            at_bounds=(),
            standard_errors={},
            standard_error_kind="none: the pairs of a scene err together",
        )


def _across_law(
    scenes: FoundScenes, start: Calibration, truths: Sequence[Distances]
) -> _Across:
    """The law that lines tell, and the geometry by it, each in turn until it stays."""
    law, rounds = start, 0
    while True:
        parts = [_rows(pairs, law) for pairs in scenes.values()]
        told = [part for part in parts if part is not None]
        if not told:
            raise InputError(
                "A law without truth needs a pair each half of whose matches "
                "determines its geometry, but there is none. Use images with more."
            )
        rows, before = joined([*told, *truths]), pack(law)
        law, best = fit_lines(rows, start)
        scenes = {
            name: [pair.refitted(law) for pair in pairs]
            for name, pairs in scenes.items()
        }
        rounds += 1
        settled = bool(np.abs(pack(law) - before).max() < TOLERANCE)
        if settled or rounds == MAX_ROUNDS:
            nll = LineLikelihood(rows, pack(start)).nll(pack(law))
            return _Across(law, scenes, best, nll, len(rows), rounds)


def _rows(pairs: Sequence[FoundPair], law: Calibration) -> Distances | None:
    """The distances of a scene, with the weight of one."""
    parts = [rows for pair in pairs for _, rows in pair.halves(law)]
    return joined(parts).weighing(SCENE_MATCHES) if parts else None


def _with_truth(
    known: Scenes, views: Sequence[Residuals], scenes: int, start: Calibration
) -> list[Distances]:
    """Residuals of known truth as rows: scenes as scenes, views with their share."""
    groups = [
        ([pair.known() for pair in pairs], SCENE_MATCHES) for pairs in known.values()
    ]
    groups.append((list(views), VIEWS_SHARE * SCENE_MATCHES * scenes))
    return [
        joined([_axes(pair, start) for pair in pairs]).weighing(total)
        for pairs, total in groups
        if pairs
    ]


def _axes(pair: Residuals, start: Calibration) -> Distances:
    matches, residual = pair
    shift = location(matches, start)
    return Distances.of_axes(matches, residual - shift, np.zeros(len(matches)))


def _drawn(scenes: Scenes, law: Calibration) -> dict[str, list[ScenePair]]:
    """The pairs; where lines hide residuals, drawn from `law` adapted to each.

    Of a plane both axes are seen.
    """
    rng = np.random.default_rng(0)

    def drawn(pair: ScenePair) -> ScenePair:
        if pair.F_01 is None:
            return pair
        lines = lines_of_pair(pair, law)
        adapted = pair_law_by_lines(pair.matches, law, lines).law
        return replace(pair, residual=sample(adapted, rng))

    return {name: [drawn(pair) for pair in pairs] for name, pairs in scenes.items()}
