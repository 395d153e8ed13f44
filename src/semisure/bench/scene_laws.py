"""Laws from other scenes, and their judgement on one scene, with and without adapting.

==================  ================================================================
``planar``          shipped, made from random views of flat photos
``shipped``         the matcher's default as it is
``scenes``          shipped, made from scenes in depth as well; it may know this one
``given``           that of ``--calibration``
``left out``        fitted to the other scenes of the data, and to views of photos
``adapted``         that one after it has seen the geometry estimated from the pair
``with truth``      fitted to the truth of the scene itself, for comparison
==================  ================================================================

A law that says how pairs differ has a second line, ``…, adapted``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from semisure.bench.calibrations import law_fitted_to
from semisure.bench.exported import Exported
from semisure.bench.interval_scores import NUMBERS, Scores, joined
from semisure.bench.pair_geometry import adapted_law
from semisure.bench.scenes import scene_pair
from semisure.error_laws import error_law
from semisure.errors import FitError
from semisure.selfcal.scenes import fit_scenes
from semisure.types import Calibration
from semisure.types.checks import within_px

PLANAR, SHIPPED, SCENES, GIVEN = "planar", "shipped", "scenes", "given"
LEFT_OUT, ADAPTED, WITH_TRUTH = "left out", "adapted", "with truth"
_EFFECTS = ("fine", "gate", "coarse", "background")


@dataclass(frozen=True, slots=True, eq=False)
class Lesson:
    """Scenes to fit one law to."""

    scenes: Mapping[str, Sequence[Exported]]
    location: bool


def learn(lesson: Lesson) -> Calibration:
    """The law of many scenes, with how their pairs differ."""
    scenes = {
        name: [scene_pair(pair) for pair in pairs]
        for name, pairs in lesson.scenes.items()
    }
    return fit_scenes(scenes, location=lesson.location)[0]


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
        "rows": [{**about, **row} for _, row in answers],
    }


def _with_truth(task: Task) -> Calibration | None:
    try:
        return law_fitted_to(task.pairs, location=task.location)
    except FitError:
        return None


def _judge(
    exported: Exported, calibration: Calibration, *, adapts: bool
) -> tuple[Scores, dict[str, Any]]:
    pair = scene_pair(exported)
    law, effects = error_law(pair.matches, calibration), {}
    if adapts:
        planar = pair.F_01 is None
        adapted = adapted_law(pair.matches, calibration, planar=planar)
        if adapted is not None:  # else what is said before a geometry is found
            law, effects = (
                adapted.law,
                dict(zip(_EFFECTS, adapted.effects, strict=True)),
            )
    known = within_px(pair.residual)
    scores = Scores.of(law.take(known), pair.residual[known])
    row = {"pair": exported.name, "matches": len(scores), **scores.numbers()}
    return scores, {**row, **effects}
