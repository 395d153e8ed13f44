"""Table 2: camera poses of queries in a map, before and after each refit.

Two kinds of data (:mod:`semisure.datasets.queries`): a map with the true poses of its
queries, judged here, and Aachen v1.1, whose true poses only the server of
visuallocalization.net has: a file to submit is written for each arm. A query without a
pose is submitted with that of the first mapped image retrieved, as hloc does.

All arms of a query have the same matches and the same start. ``base`` and ``core`` form
2D–3D matches as hloc does: a match takes the 3D point of the keypoint within 2 px, and
the query's point stays. ``core+`` moves that point too, and has our law. ``base −
shift`` is the estimator on matches less the location of our law. ``maps`` names a
COLMAP model triangulated from the matcher's own matches, to take the place of the SIFT
model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from semisure.bench.calibrations import SHIFTED, Calibrations, is_cross_validated
from semisure.bench.data import labels, matched_at
from semisure.bench.exported import Exported, Size, moved
from semisure.bench.outcome import Cell, Lines, Outcome, Table, where
from semisure.bench.studies.homography import MATCHERS
from semisure.bench.study import Study
from semisure.datasets import evenly
from semisure.datasets.queries import Query, is_located, read_map, read_place
from semisure.errors import InputError
from semisure.estimators.pose import POSE_ESTIMATOR_NAMES, estimate_pose
from semisure.estimators.settings import RansacSettings
from semisure.geometry import pose as se3
from semisure.geometry.lifting import lift
from semisure.io.cache import Row
from semisure.io.colmap import MapModel
from semisure.refit.core import without_bias
from semisure.refit.poses import refit_pose
from semisure.types import (
    Estimate,
    Pair,
    PerMatch,
    Points,
    Points3,
    Pose,
    WorldMatches,
    as_choice,
)

ARMS = ("base", SHIFTED, "core", "core+")
INF = float("inf")  # the errors of no pose
THRESHOLDS = ((0.01, 0.2), (0.02, 0.5), (0.05, 1.0))  # m, degrees; of maps with truth
AACHEN_THRESHOLDS = ((0.25, 2.0), (0.5, 5.0), (5.0, 10.0))
AACHEN_SETTINGS = RansacSettings(threshold_px=12.0)  # hloc's
JUDGE = (
    "The true poses of Aachen's queries are not public: visuallocalization.net judges "
    "the files Aachen-v1.1_*.txt, so that our cells are empty."
)

# Tab. 2 (tab:visual_localization): Aachen v1.1, top 50 of NetVLAD, PnP in RANSAC; share
# of queries within 0.25 m 2°, 0.5 m 5°, 5 m 10° by day, base and CoRe, then by night.
AACHEN_QUERIES = {"day": 824, "night": 191}
AACHEN_SIZE = (1180, 896)  # of both images
AACHEN_RETRIEVED = 50  # images for each query, by NetVLAD
AACHEN: dict[tuple[str, str], tuple[tuple[float, ...], tuple[float, ...]]] = {
    ("loftr", "day"): ((85.3, 91.3, 94.5), (86.9, 92.0, 95.1)),
    ("loftr", "night"): ((65.4, 83.2, 91.6), (69.1, 86.9, 92.1)),
    ("gim-loftr", "day"): ((86.9, 92.8, 97.0), (87.9, 93.4, 97.1)),
    ("gim-loftr", "night"): ((68.6, 80.1, 89.0), (67.0, 81.2, 90.1)),
    ("eloftr", "day"): ((85.4, 91.3, 94.9), (86.7, 92.6, 95.0)),
    ("eloftr", "night"): ((73.3, 84.3, 92.7), (72.8, 85.3, 92.7)),
    ("comatch", "day"): ((85.2, 91.4, 95.1), (85.1, 91.1, 95.5)),
    ("comatch", "night"): ((66.5, 85.9, 94.2), (70.2, 87.4, 94.2)),
    ("edm", "day"): ((87.3, 93.1, 96.8), (88.0, 93.2, 97.0)),
    ("edm", "night"): ((70.2, 89.5, 97.9), (73.3, 90.6, 97.9)),
    ("xfeat-star-raw", "day"): ((63.2, 70.3, 77.8), (67.1, 74.0, 79.6)),
    ("xfeat-star-raw", "night"): ((23.6, 34.0, 45.5), (28.8, 38.2, 49.7)),
}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class QueryTask:
    """One query with its matches to each mapped image."""

    map: Path  # its folder, which every worker reads once
    retrieval: str  # how the mapped images were proposed
    data: str
    query: Query  # its mapped images are all in the map
    exported: Sequence[Exported]  # in their order
    calibrations: Calibrations
    matcher: str
    estimator: str
    settings: RansacSettings


def tasks_of(study: Study, matcher: str, name: str, root: Path) -> list[QueryTask]:
    """The queries of a folder that is called `name`, matched to the images retrieved.

    Images have the paper's size and the estimator hloc's settings on Aachen; in other
    maps images are as they are, and the settings ours.
    """
    options = study.options
    if is_cross_validated(options, matcher):
        raise InputError(
            f"A map has no true errors to fit {matcher}'s law to; give a file by "
            "--calibration, or other data by --calibrate-on."
        )
    size, settings = options.size, options.ransac()
    if not is_located(root):
        size, settings = size or AACHEN_SIZE, options.ransac(AACHEN_SETTINGS)
    place, own = read_place(root), options.maps.get(matcher)
    folder = own or place.map
    images = read_map(folder).images
    queries = [  # as many of each condition as the limit allows
        replace(query, mapped=tuple(name for name in query.mapped if name in images))
        for condition in dict.fromkeys(query.condition for query in place.queries)
        for query in evenly(
            [q for q in place.queries if q.condition == condition], options.limit
        )
    ]
    pairs = [
        Pair(name=f"{query.name} {n}", image0=query.image, image1=place.images / n)
        for query in queries
        for n in query.mapped
    ]
    if not pairs:
        raise InputError(
            f"The map of {root} has none of the images retrieved for its queries."
        )
    exported = study.matched(
        matcher, [(pair, size) for pair in pairs], for_queries=True
    )
    calibrations = study.calibrations(matcher, exported)[0]
    by = "the map that comes with the images" if own is None else f"the map {own.name}"
    study.note(
        f"{matcher}, {name}: {len(exported)} image pairs of {len(queries)} queries by "
        f"{place.retrieval}, images {matched_at(size)}, {by}; inliers within "
        f"{settings.threshold_px:g} px."
    )
    of_pair = {one.name: one for one in exported}
    return [
        QueryTask(
            map=folder,
            data=name,
            retrieval=place.retrieval,
            query=query,
            exported=[of_pair[f"{query.name} {n}"] for n in query.mapped],
            calibrations=calibrations,
            matcher=matcher,
            estimator=options.estimator,
            settings=settings,
        )
        for query in queries
    ]


def evaluate(task: QueryTask) -> Row:
    """A row with each arm's pose and, where the truth is known, its errors."""
    query, located = task.query, task.calibrations.ours.location is not None
    arms = [arm for arm in ARMS if arm != SHIFTED or located]
    poses: dict[str, Pose | None] = dict.fromkeys(arms)
    row: Row = {
        "query": query.name,
        "data": task.data,
        "condition": query.condition,
        "matcher": task.matcher,
        "estimator": task.estimator,
        "threshold_px": task.settings.threshold_px,
        "retrieval": task.retrieval,
        "mapped": len(query.mapped),
        "reason": "no image of the map was retrieved",
    }
    if query.mapped:
        model = _map_of(task.map)
        row["closest"] = _seven_numbers(model.images[query.mapped[0]].pose)
        world = lifted(task, model)
        start = _estimate(task, world)
        row["lifted"], row["inliers"] = len(world), int(start.inliers.sum())
        row["reason"] = start.reason
        if start.model is not None:
            poses |= _refits(task, model, world, start)
    for arm, pose in poses.items():
        row[f"{arm} pose"] = None if pose is None else _seven_numbers(pose)
        if query.truth is not None:
            errors = (INF, INF) if pose is None else se3.errors(pose, query.truth)
            row[f"{arm} m"], row[f"{arm} deg"] = errors
    return row


@lru_cache(maxsize=1)  # a worker gets the queries of one map in a row
def _map_of(folder: Path) -> MapModel:
    return read_map(folder)


def _estimate(task: QueryTask, world: WorldMatches) -> Estimate:
    camera = task.query.camera.resized(world.size)
    return estimate_pose(world, camera, task.estimator, task.settings)


def _refits(
    task: QueryTask, model: MapModel, world: WorldMatches, start: Estimate
) -> dict[str, Pose | None]:
    """The pose by each arm from the start that all share."""
    assert start.model is not None
    laws, camera = task.calibrations, task.query.camera.resized(world.size)
    core = refit_pose(world, camera, laws.paper, start, method="core")
    followed = lifted(task, model, compensate=True)
    plus = refit_pose(followed, camera, laws.ours, start.model)
    poses = {"base": start.model, "core": core.model, "core+": plus.model}
    if laws.ours.location is not None:
        poses[SHIFTED] = _estimate(task, without_bias(world, laws.ours)[0]).model
    return poses


def lifted(
    task: QueryTask, model: MapModel, *, compensate: bool = False
) -> WorldMatches:
    """The matches of a query to each mapped image, in the order of `query.mapped`.

    As hloc forms them, the query's point stays where the matcher put it; with
    `compensate` it moves as far as the keypoint is from the match.
    """
    query, parts = task.query, []
    for name, pair in zip(query.mapped, task.exported, strict=True):
        if pair.sizes[0] != query.camera.size:
            (w, h), (cw, ch) = pair.sizes[0], query.camera.size
            raise InputError(
                f"The image of {query.name} is {w} × {h} px, but its camera {cw} × "
                f"{ch}; intrinsics must be those of the image as it is read."
            )
        matches = pair.matches()
        observations = observed(model, name, pair.sizes[1], matches.target_size)
        parts.append(lift(matches, *observations, compensate=compensate))
    return WorldMatches.joined(parts)


def observed(
    model: MapModel, name: str, before: Size, after: Size
) -> tuple[Points, Points3, PerMatch]:
    """The observations of a mapped image, in pixels of the image as it was matched.

    The keypoints, their points in the world, and the reprojection error of each, px.
    """
    points, world, error_px = model.observations(name)
    scale = np.sqrt(np.divide(after, before).prod())
    return moved(points, before, after), world, error_px * scale


def _seven_numbers(pose: Pose) -> str:
    """A pose as it is submitted: qw qx qy qz tx ty tz, from world to camera."""
    return " ".join(f"{v:.12g}" for v in se3.seven_numbers(pose))


def localisation(study: Study) -> Outcome:
    """Both kinds of data, by matcher, folder and condition."""
    options = study.options
    estimator, names = options.estimator, labels(options.data)
    as_choice("The estimator of a camera pose", estimator, POSE_ESTIMATOR_NAMES)
    rows: list[Row] = []
    for matcher in options.matchers:
        for name, root in zip(names, options.data, strict=True):
            tasks = tasks_of(study, matcher, name, root)
            rows += study.map(evaluate, tasks, f"Localising, {matcher}")
    located = [row for row in rows if "base m" in row]
    sent = [row for row in rows if "base m" not in row]
    tables = [
        located_table(located, estimator),
        aachen_table(options.matchers, sent, estimator),
    ]
    if sent:
        study.note(JUDGE)
    return Outcome(
        tables=[table for table in tables if table.rows],
        rows=rows,
        files=submissions(sent),
    )


def located_table(rows: Sequence[Row], estimator: str) -> Table:
    """Medians, and recall in percent; without a pose the error is infinite."""
    printed: Lines = []
    for name, condition, mine in _groups(rows):
        for arm in ARMS:
            if f"{arm} m" in mine[0]:
                errors = [[row[f"{arm} m"], row[f"{arm} deg"]] for row in mine]
                m, deg = np.array(errors).T
                middle = float(100.0 * np.median(m)), float(np.median(deg))
                within = [
                    100.0 * float(((m <= a) & (deg <= b)).mean()) for a, b in THRESHOLDS
                ]
                about = [len(mine), *_about(mine)]
                printed.append([name, condition, arm, *middle, *within, *about])
    limits = [f"@{100 * m:g} cm {deg:g}°" for m, deg in THRESHOLDS]
    return Table(
        name="localisation",
        title=f"Camera poses after {estimator}: median errors, recall (%); "
        "the paper's: Tab. 2, other data",
        head=["", "queries are", "arm", "cm", "deg", *limits, "queries", *_ABOUT],
        rows=printed,
        digits=3,
    )


def aachen_table(matchers: Sequence[str], rows: Sequence[Row], estimator: str) -> Table:
    """The paper's numbers, and how many queries got a pose here."""
    printed: Lines = []
    for matcher in matchers:
        for when, count in AACHEN_QUERIES.items():
            about = [count, count * AACHEN_RETRIEVED, None, "NetVLAD, top 50"]
            published = AACHEN.get((matcher, when), ())
            for arm, recall in zip(("base", "core"), published, strict=False):
                name = f"{MATCHERS[matcher]}, paper"
                printed.append([name, when, arm, *recall, None, *about])
        for name, when, mine in _groups(where(rows, matcher=matcher)):
            for arm in ARMS:
                if f"{arm} pose" in mine[0]:
                    count = sum(row[f"{arm} pose"] is not None for row in mine)
                    ours = [len(mine), *_about(mine)]
                    printed.append([name, when, arm, *[None] * 3, count, *ours])
    limits = [f"@{m:g} m {deg:g}°" for m, deg in AACHEN_THRESHOLDS]
    return Table(
        name="localisation_aachen",
        title=f"Aachen v1.1, recall (%) after {estimator}; the paper's: Tab. 2",
        head=["", "when", "arm", *limits, "localised", "queries", *_ABOUT],
        rows=printed,
        digits=1,
    )


_ABOUT = ("pairs", "inlier px", "retrieval")


def _about(rows: Sequence[Row]) -> list[Cell]:
    """Image pairs, the inlier threshold and the retrieval of some queries."""
    first = rows[0]
    pairs = sum(row["mapped"] for row in rows)
    return [pairs, first["threshold_px"], first["retrieval"]]


def _groups(rows: Sequence[Row]) -> Iterator[tuple[str, str, list[Row]]]:
    """Rows of one matcher, folder and condition, with a name, in their order."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        key = f"{row['matcher']}, {row['data']}", row["condition"]
        groups.setdefault(key, []).append(row)
    return ((*key, mine) for key, mine in groups.items())


def submissions(rows: Sequence[Row]) -> dict[str, bytes]:
    """A file for each folder, matcher and arm; without a pose, the closest image's."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        for arm in ARMS:
            pose = row.get(f"{arm} pose") or row.get("closest")
            if f"{arm} pose" in row and pose is not None:
                of = f"{row['data'].replace('/', '-')}_{row['matcher']}"
                file = f"Aachen-v1.1_{of}_{arm.replace(' − ', '-')}.txt"
                name = row["query"].rpartition("/")[2]
                lines.setdefault(file, []).append(f"{name} {pose}\n")
    return {file: "".join(poses).encode() for file, poses in lines.items()}
