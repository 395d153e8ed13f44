"""The pairs of folders with cameras as tasks, after matching them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from semisure.bench.data import labels, pairs_of
from semisure.bench.exported import AnyPair, images_of
from semisure.bench.relative_poses import Task
from semisure.bench.study import Study
from semisure.datasets.layouts import MIN_OVERLAP
from semisure.errors import InputError
from semisure.estimators.relative import RELATIVE_ESTIMATORS
from semisure.estimators.settings import RansacSettings
from semisure.types import as_choice

MIN_ANGLE_DEG = 5.0  # of triangulation, where the list of pairs states it
PAIRS_TAKEN = (
    f"Of lists, pairs with overlap ≥ {MIN_OVERLAP:g} and triangulation angle ≥ "
    f"{MIN_ANGLE_DEG:g}°."
)


def tasks_of(study: Study, settings: RansacSettings) -> tuple[list[Task], list[str]]:
    """The pairs of all folders by matcher, and where the calibrations are from."""
    options = study.options
    as_choice(
        "The estimator of a relative pose", options.estimator, RELATIVE_ESTIMATORS
    )
    folders = dict(zip(labels(options.data), options.data, strict=True))
    pairs = {name: _pairs(study, root) for name, root in folders.items()}
    data = {images_of(pair): name for name, some in pairs.items() for pair in some}
    every = [(pair, options.size) for some in pairs.values() for pair in some]
    tasks: list[Task] = []
    remarks = []
    for matcher in options.matchers:
        exported = study.matched(matcher, every)
        calibrations, remark = study.calibrations(matcher, exported)
        remarks.append(remark)
        tasks += [
            Task(
                exported=pair,
                calibrations=both,
                matcher=matcher,
                data=data[pair.images],
                estimator=options.estimator,
                settings=settings,
            )
            for pair, both in zip(exported, calibrations, strict=True)
        ]
    return tasks, remarks


def _pairs(study: Study, root: Path) -> Sequence[AnyPair]:
    pairs = pairs_of(study.options, root, min_angle_deg=MIN_ANGLE_DEG)
    if not pairs:
        raise InputError(f"{root} has no pair of enough overlap and angle.")
    return pairs
