"""Localisation of the held-out RedKitchen frames: base, core and core+.

25 queries against a map triangulated from the other 100 frames. Retrieval is by true
pose, not by image: the five map frames with the smallest centre distance (m) plus
angle (rad), either of all (near) or of those at least 0.4 away (far). The poses are
pseudo-truth with a floor of about 0.8 mm and 0.02°.

    python benchmarks/localize.py ../shared/data/posed/redkitchen --matches cache.h5
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from semisure.colmap import MapImage, MapModel
from semisure.estimators.pose import estimate_pose
from semisure.estimators.settings import RansacSettings
from semisure.files import load_calibration
from semisure.geometry import pose as se3
from semisure.geometry.camera import Camera
from semisure.lifting import lift
from semisure.localize import Source, from_images, stored
from semisure.matchers import load_matcher
from semisure.posefit import refit_pose
from semisure.refit import without_bias
from semisure.types import Calibration, FloatArray
from semisure.world import WorldMatches

THRESHOLDS = ((0.01, 0.2), (0.02, 0.5), (0.05, 1.0))  # m, degrees
FAR = 0.4
TOP = 5


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One query with its retrieval and its true pose."""

    name: str
    camera: Camera
    truth: FloatArray
    mapped: list[str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--matches", type=Path, help="HDF5 to keep matches in")
    parser.add_argument("--matcher", nargs="+", default=["xfeat-star", "daisy"])
    parser.add_argument("--estimator", nargs="+", default=["poselib", "ransac"])
    parser.add_argument("--threshold", type=float, default=3.0)
    options = parser.parse_args()
    print("medians, and recall at 1 cm 0.2° / 2 cm 0.5° / 5 cm 1°, 25 queries")
    for name in options.matcher:
        source = matches_of(name, options.data, options.matches)
        calibration = load_calibration(name)
        for retrieval, least in (("near", 0.0), ("far", FAR)):
            model, queries = read_map(options.data, least)
            lifted = [lifted_query(q, model, source, calibration) for q in queries]
            count = np.median([len(world) for world, _ in lifted])
            print(f"{name}, {retrieval} frames, median {count:.0f} 2D–3D matches")
            for estimator in options.estimator:
                compare(queries, lifted, estimator, options.threshold)


def matches_of(name: str, data: Path, cache: Path | None) -> Source:
    source = from_images(data / "images", data / "images", load_matcher(name))
    if cache is None:
        return source
    return stored(source, cache.with_name(f"{cache.stem}-{name}.h5"))


def read_map(data: Path, least: float) -> tuple[MapModel, list[Query]]:
    """The map of the mapping frames, and the queries with their nearest frames."""
    with np.load(data / "localization_map.npz") as file:
        z = {key: file[key] for key in file.files}
    poses = np.concatenate([z["R"], z["t"][:, :, None]], axis=2)
    names, held_out = [str(name) for name in z["names"]], set(z["query"].tolist())
    size = 643, 479
    cameras = [Camera.from_matrix(K, size) for K in z["K"]]
    world, seen = z["points"].astype(np.float64), z["obs_xy"].astype(np.float64)
    images, total, count = {}, np.zeros(len(world)), np.zeros(len(world))
    for i, name in enumerate(names):
        of = np.flatnonzero(z["obs_image"] == i)
        ids = z["obs_point"][of].astype(np.int64)
        images[name] = MapImage(name, 0, poses[i], seen[of], ids)
        off = seen[of] - se3.project(poses[i], cameras[i], world[ids])
        np.add.at(total, ids, np.linalg.norm(off, axis=1))
        np.add.at(count, ids, 1.0)
    ids = np.arange(len(world), dtype=np.int64)
    model = MapModel({}, images, ids, world, total / np.maximum(count, 1.0))
    mapped = [i for i in range(len(names)) if i not in held_out]
    queries = []
    for q in sorted(held_out):
        apart = [sum(distance(poses[i], poses[q])) for i in mapped]
        order = [mapped[k] for k in np.argsort(apart) if apart[k] >= least][:TOP]
        near = [names[i] for i in order]
        queries.append(Query(names[q], cameras[q], poses[q], near))
    return model, queries


def distance(a: FloatArray, b: FloatArray) -> tuple[float, float]:
    apart, degrees = se3.errors(a, b)
    return apart, float(np.radians(degrees))


def lifted_query(
    query: Query, model: MapModel, source: Source, calibration: Calibration
) -> tuple[WorldMatches, Calibration]:
    parts = []
    for name in query.mapped:
        matches, unbiased = without_bias(source(query.name, name), calibration)
        parts.append(lift(matches, *model.observations(name)))
    return WorldMatches.joined(parts), unbiased


def compare(
    queries: list[Query],
    lifted: list[tuple[WorldMatches, Calibration]],
    estimator: str,
    threshold_px: float,
) -> None:
    errors: dict[str, list[tuple[float, float]]] = {}
    for query, (world, calibration) in zip(queries, lifted, strict=True):
        settings = RansacSettings(threshold_px=threshold_px)
        start = estimate_pose(world, query.camera, estimator, settings)
        models = {"base": start.model}
        for method in ("core", "core+"):
            models[method] = refit_pose(
                world, query.camera, calibration, start, method=method
            ).model
        for arm, pose in models.items():
            failed = float("inf"), float("inf")
            error = failed if pose is None else se3.errors(pose, query.truth)
            errors.setdefault(arm, []).append(error)
    for arm, row in errors.items():
        e = np.array(row)
        recall = [((e[:, 0] <= m) & (e[:, 1] <= d)).mean() for m, d in THRESHOLDS]
        middle = np.median(e, axis=0)
        shown = " / ".join(f"{100 * share:3.0f}" for share in recall)
        print(
            f"  {estimator:<9}{arm:<6}{100 * middle[0]:6.2f} cm {middle[1]:6.3f}°   "
            f"{shown} %"
        )


if __name__ == "__main__":
    main()
