"""The pairs of folders with cameras as tasks, after matching them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from semisure.bench.data import labels, pairs_of
from semisure.bench.exported import AnyPair, images_of
from semisure.bench.outcome import where
from semisure.bench.relative_poses import Task
from semisure.bench.row_cache import Row
from semisure.bench.study import Study
from semisure.datasets.layouts import MIN_OVERLAP
from semisure.errors import InputError
from semisure.estimators.settings import RansacSettings

MIN_ANGLE_DEG = 5.0  # of triangulation, where the list of pairs states it
PAIRS_TAKEN = (
    f"Of lists, pairs with overlap ≥ {MIN_OVERLAP:g} and triangulation angle ≥ "
    f"{MIN_ANGLE_DEG:g}°."
)


def tasks_of(
    study: Study, settings: RansacSettings, estimators: Iterable[str]
) -> tuple[list[Task], list[str]]:
    """The pairs of all folders by matcher and estimator, and remarks.

    Remarks say which folders have no pair to offer, and where calibrations are from.
    """
    pairs, remarks = pairs_by_folder(study)
    data = {images_of(pair): name for name, some in pairs.items() for pair in some}
    every = [(pair, study.options.size) for some in pairs.values() for pair in some]
    tasks: list[Task] = []
    for matcher in study.options.matchers:
        exported = study.matched(matcher, every)
        calibrations, remark = study.calibrations(matcher, exported)
        remarks.append(remark)
        tasks += [
            Task(
                exported=pair,
                calibrations=both,
                matcher=matcher,
                data=data[pair.images],
                estimator="",
                settings=settings,
            )
            for pair, both in zip(exported, calibrations, strict=True)
        ]
    return [replace(t, estimator=name) for name in estimators for t in tasks], remarks


def pairs_by_folder(
    study: Study,
) -> tuple[dict[str, Sequence[AnyPair]], list[str]]:
    """The pairs of each folder that has some, and a remark on those without."""
    options = study.options
    pairs = {
        name: pairs_of(options, root, min_angle_deg=MIN_ANGLE_DEG)
        for name, root in zip(labels(options.data), options.data, strict=True)
    }
    none = [name for name, some in pairs.items() if not some]
    lacking = f"no pair of enough overlap and angle: {', '.join(none)}."
    if len(none) == len(pairs):
        raise InputError(f"There is {lacking}")
    kept = {name: some for name, some in pairs.items() if some}
    return kept, [f"Left out, {lacking}"] if none else []


def by_folder(rows: Sequence[Row]) -> dict[str, Sequence[Row]]:
    """The rows of each folder, and, of several, all of them together.

    >>> list(by_folder([{"data": "a"}, {"data": "b"}]))
    ['a', 'b', 'all']
    """
    names = list(dict.fromkeys(row["data"] for row in rows))
    folders: dict[str, Sequence[Row]] = {name: where(rows, data=name) for name in names}
    return {**folders, "all": rows} if len(names) > 1 else folders
