"""Laws from other scenes, and their judgement on one scene, with and without adapting.

==================  ================================================================
``planar``          the numbers of the shipped one, from random views of flat photos
``shipped``         the matcher's default, which may know the scene
``given``           that of ``--calibration``
``left out``        as the shipped one is made, from the other scenes of the data and
                    views of photos; its numbers are ``planar``'s if that is shipped
``adapted``         that one after it has seen the geometry estimated from the pair
``with truth``      fitted to the truth of the scene itself, for comparison
==================  ================================================================

A law that says how pairs differ has a second line, ``…, adapted``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from semisure.bench.chances import chances, squares_of
from semisure.bench.exported import Exported
from semisure.bench.interval_scores import NUMBERS, Scores, joined
from semisure.bench.law_fits import FitTask, law_of
from semisure.bench.scenes import scene_pair
from semisure.calibrate.scenes import fit_scenes, fit_spread, usable
from semisure.errors import FitError
from semisure.pairs.estimation import refit_matches
from semisure.pairs.models import Kind
from semisure.refit.pair_law import predictive_law
from semisure.types import Calibration
from semisure.types.checks import within_px

PLANAR, SHIPPED, GIVEN = "planar", "shipped", "given"
LEFT_OUT, ADAPTED, WITH_TRUTH = "left out", "adapted", "with truth"
_EFFECTS = ("fine", "gate", "coarse", "background")


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """Scenes to fit one law to."""

    scenes: Mapping[str, Sequence[Exported]]
    location: bool
    planar: Calibration | None = None  # shipped, whose numbers are kept


def learn(lesson: Lesson) -> Calibration:
    """The law of many scenes, with how their pairs differ: as the shipped is made."""
    scenes = {
        name: [scene_pair(pair) for pair in pairs]
        for name, pairs in lesson.scenes.items()
    }
    if lesson.planar is None:
        return fit_scenes(scenes, location=lesson.location)[0]
    return replace(lesson.planar, pairs=fit_spread(usable(scenes), lesson.planar))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Task:
    """One law to be judged on one scene."""

    matcher: str
    data: str
    in_depth: bool
    law: str
    pairs: Sequence[Exported]
    calibration: Calibration | None  # None: fitted to the pairs themselves
    location: bool
    adapts: bool = False


def evaluate(task: Task) -> dict[str, Any]:
    """The numbers of the scene, its deciles, and a row for each of its pairs.

    All numbers are None where the scene has too few matches to be fitted to.
    """
    about = {"matcher": task.matcher, "data": task.data, "law": task.law}
    calibration = task.calibration or _with_truth(task)
    if calibration is None:
        return {**about, **dict.fromkeys(NUMBERS), "matches": 0, "rows": []}
    answers = [_judge(pair, calibration, adapts=task.adapts) for pair in task.pairs]
    scores = joined([one for one, _ in answers])
    expected, observed = scores.deciles
    return {
        **about,
        **scores.numbers(),
        "matches": len(scores),
        "in_depth": task.in_depth,
        "deciles": {"expected": expected.tolist(), "observed": observed.tolist()},
        "if right": chances(scores),
        "rows": [{**about, **row} for _, row in answers],
    }


def _with_truth(task: Task) -> Calibration | None:
    try:
        return law_of(FitTask(exported=task.pairs, location=task.location))
    except FitError:
        return None


def _judge(
    exported: Exported, calibration: Calibration, *, adapts: bool
) -> tuple[Scores, dict[str, Any]]:
    pair = scene_pair(exported)
    law, effects = predictive_law(pair.matches, calibration), {}
    if adapts:
        model: Kind = "homography" if pair.F_01 is None else "fundamental"
        adapted = refit_matches(pair.matches, calibration, model=model).pair_law
        if adapted is not None:  # else the law stays as it was before
            law = adapted.law
            effects = dict(zip(_EFFECTS, adapted.effects, strict=True))
    known = within_px(pair.residual)
    square = squares_of(pair.matches.refined[known])
    scores = Scores.of(law.take(known), pair.residual[known], square)
    row = {"pair": exported.name, "matches": len(scores), **scores.numbers()}
    return scores, {**row, **effects}
