"""The queries of a map as tasks, after matching their pairs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

from semisure.bench import paper
from semisure.bench.exported import Exported, Size
from semisure.bench.query_poses import Task
from semisure.bench.study import Study
from semisure.datasets.localisation import (
    image_folder,
    map_files,
    read_all_queries,
    read_map,
    retrieval_name,
)
from semisure.datasets.query_maps import Query, is_located
from semisure.datasets.subsets import evenly
from semisure.errors import InputError
from semisure.estimators.settings import RansacSettings
from semisure.types import Pair

AACHEN_SETTINGS = RansacSettings(threshold_px=12.0)  # hloc's


def size_for(study: Study, root: Path) -> Size | None:
    """The size of images: the paper's for Aachen, as they are in other maps."""
    return study.options.size or (None if is_located(root) else paper.AACHEN_SIZE)


def settings_for(study: Study, root: Path) -> RansacSettings:
    """The robust estimator's settings: hloc's for Aachen, ours for other maps."""
    return study.options.ransac(None if is_located(root) else AACHEN_SETTINGS)


def tasks_of(
    study: Study, matcher: str, name: str, root: Path, settings: RansacSettings
) -> tuple[list[Task], str]:
    """The queries of a folder, and where the calibrations are from."""
    own = study.options.maps.get(matcher)
    queries = _queries(root, own, study.options.limit)
    exported = _exported(study, matcher, root, queries)
    every = list(exported.values())
    calibrations, remark = study.calibrations(matcher, every)
    tasks = []
    for query in queries:
        mapped = tuple(n for n in query.mapped if (query.name, n) in exported)
        tasks.append(
            Task(
                root=root,
                own_map=own,
                data=name,
                files=map_files(root, own),
                retrieval=retrieval_name(root),
                query=replace(query, mapped=mapped),
                exported=[exported[query.name, n] for n in mapped],
                calibrations=calibrations[0],
                matcher=matcher,
                estimator=study.options.estimator,
                settings=settings,
            )
        )
    return tasks, remark


def _queries(root: Path, own: Path | None, limit: int | None) -> list[Query]:
    """As many of each condition as the limit allows, with mapped images only."""
    listed = read_all_queries(root)
    in_map = read_map(root, own).images
    return [
        replace(query, mapped=_those(query.mapped, in_map))
        for condition in dict.fromkeys(query.condition for query in listed)
        for query in evenly([q for q in listed if q.condition == condition], limit)
    ]


def _those(names: Sequence[str], there: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in there)


def _exported(
    study: Study, matcher: str, root: Path, queries: Sequence[Query]
) -> dict[tuple[str, str], Exported]:
    """Matches of the pairs that can be read, by query and mapped image."""
    folder = image_folder(root)
    pairs = {
        (query.name, other): Pair(
            name=f"{query.name} {other}", image0=query.image, image1=folder / other
        )
        for query in queries
        for other in query.mapped
    }
    if not pairs:
        raise InputError(
            f"The map of {root} has none of the images retrieved for its queries."
        )
    size = size_for(study, root)
    matched = study.matched(
        matcher, [(pair, size) for pair in pairs.values()], for_queries=True
    )
    by_name = {one.name: one for one in matched}
    return {
        key: by_name[pair.name] for key, pair in pairs.items() if pair.name in by_name
    }
