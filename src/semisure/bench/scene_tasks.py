"""The laws of a matcher and the scenes to judge them on, as tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from semisure.bench.scene_laws import (
    ADAPTED,
    GIVEN,
    LEFT_OUT,
    PLANAR,
    SHIPPED,
    WITH_TRUTH,
    Lesson,
    Task,
    learn,
)
from semisure.bench.scenes import Scene, lessons, scenes_of
from semisure.bench.study import Study
from semisure.io.files import is_shipped, load_calibration
from semisure.types import Calibration

Laws = dict[str, tuple[Calibration | None, bool]]  # by name; and whether it adapts


def tasks_of(study: Study, matcher: str) -> list[Task]:
    """Each law judged on each scene of the data."""
    scenes = scenes_of(study, matcher)
    ready = _ready_laws(matcher, study.options.calibration)
    shipped = ready.get(SHIPPED)
    location = shipped is None or shipped.location is not None
    learnt = _left_out_laws(study, matcher, scenes, ready)
    return [
        Task(
            matcher=matcher,
            data=scene.name,
            in_depth=scene.in_depth,
            law=name,
            pairs=scene.judged,
            calibration=calibration,
            location=location,
            adapts=adapts,
        )
        for scene in scenes
        for name, (calibration, adapts) in _laws(ready, learnt[scene.name]).items()
    ]


def _ready_laws(matcher: str, given: str | None) -> dict[str, Calibration]:
    """The laws in files: shipped with the matcher, or given."""
    laws: dict[str, Calibration] = {}
    if is_shipped(matcher):
        shipped = load_calibration(matcher)
        laws |= {PLANAR: replace(shipped, pairs=None), SHIPPED: shipped}
    if given is not None:
        laws[GIVEN] = load_calibration(given)
    return laws


def _laws(ready: dict[str, Calibration], left_out: Calibration | None) -> Laws:
    """All laws to be judged on a scene, in the order of the table."""
    laws: Laws = {}
    for name, calibration in ready.items():
        laws[name] = calibration, False
        if calibration.pairs is not None:
            laws[f"{name}, {ADAPTED}"] = calibration, True
    if left_out is not None:
        laws |= {LEFT_OUT: (left_out, False), ADAPTED: (left_out, True)}
    return laws | {WITH_TRUTH: (None, False)}


def _left_out_laws(
    study: Study,
    matcher: str,
    scenes: Sequence[Scene],
    ready: dict[str, Calibration],
) -> dict[str, Calibration | None]:
    """For each scene the law of all others; None where there are none."""
    shipped = ready.get(SHIPPED)
    location = shipped is None or shipped.location is not None
    # Scenes that nothing is learnt from share one law.
    left = {s.name: s.name if s.name in s.learnt else "" for s in scenes}
    taught = {name: lessons(scenes, name) for name in dict.fromkeys(left.values())}
    names = [name for name, parts in taught.items() if parts]
    tasks = [Lesson(taught[name], location, ready.get(PLANAR)) for name in names]
    laws = dict(zip(names, study.map(learn, tasks, f"Fitting, {matcher}"), strict=True))
    alone = [scene for scene, name in left.items() if name not in laws]
    if alone:
        study.note(f"No other scene to learn from: {', '.join(alone)}.")
    return {scene: laws.get(name) for scene, name in left.items()}
