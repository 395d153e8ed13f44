"""Poses of queries in a map: matches lifted to 3D, a pose estimated and refitted.

Queries are done one by one by an engine, and every finished query is kept, so that an
interrupted run continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from semisure.__about__ import __version__
from semisure.engine import HERE, Engine, EngineSettings, Lost, in_order, open_engine
from semisure.errors import InputError
from semisure.estimators.pose import estimate_pose
from semisure.estimators.settings import RansacSettings
from semisure.geometry import pose as se3
from semisure.geometry.camera import Camera
from semisure.geometry.lifting import lift
from semisure.io.atomic import write_atomically, write_json
from semisure.io.cache import code_digest, kept_row, key_of
from semisure.io.colmap import MapModel, read_model
from semisure.io.hloc import read_queries, read_retrieval
from semisure.mapping.sources import FromImages, FromStore, Source, stored
from semisure.matchers import identity
from semisure.refit.core import without_bias
from semisure.refit.poses import refit_pose
from semisure.refit.weights import RefitMethod
from semisure.types import (
    Calibration,
    Matcher,
    Matches,
    Pose,
    Tick,
    WorldMatches,
    silent,
)
from semisure.types.display import Begin, counted, quietly

# The file of a query's result, its name, its camera, and the mapped images beside it.
_Task: TypeAlias = tuple[Path, str, Camera, Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalizeSettings:
    """The settings that decide a pose; results of other settings are not reused."""

    estimator: str = "lo-ransac"
    method: RefitMethod = "core+"
    threshold_px: float = 12.0  # hloc's
    seed: int = 0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Localized:
    """One query's pose, or the reason why it has none."""

    query: str
    reason: str | None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pose(self) -> Pose | None:
        """From world to camera."""
        pose = self.details.get("cam_from_world")
        return None if pose is None else np.array(pose)

    def submission(self) -> str:
        """Aachen's line: basename qw qx qy qz tx ty tz."""
        assert self.pose is not None
        numbers = se3.seven_numbers(self.pose)
        return " ".join([Path(self.query).name, *(f"{v:.12g}" for v in numbers)])

    def row(self) -> dict[str, Any]:
        """All of it, as JSON."""
        return {"query": self.query, "reason": self.reason, **self.details}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Localized:
        """The inverse of :meth:`row`."""
        details = dict(row)
        query, reason = details.pop("query"), details.pop("reason")
        return cls(query=query, reason=reason, details=details)


def localize(
    queries: Mapping[str, Camera],
    pairs: Mapping[str, Sequence[str]],
    model: MapModel,
    source: Source,
    calibration: Calibration,
    output: str | Path,
    settings: LocalizeSettings | None = None,
    *,
    made_of: Mapping[str, Any] | None = None,
    engine: Engine = HERE,
    tick: Tick = silent,
) -> list[Localized]:
    """Poses of all queries, written to the folder `output` one by one.

    ``poses.txt`` is in Aachen's submission format, ``report.json`` sums up and names
    the queries without a pose, ``queries/`` has one file each. `made_of` is what else
    decides the results (matcher, map, images): if it changed, they are computed again.
    Another `engine` than this process needs a `source` that can be pickled.
    """
    settings, output = settings or LocalizeSettings(), Path(output)
    made_of = {**(made_of or {}), "code": code_digest()}
    tasks: list[_Task] = []
    for name, camera in queries.items():
        mapped = list(pairs.get(name, ()))
        key = key_of(name, camera, mapped, calibration, settings, made_of)
        tasks.append((output / "queries" / f"{key}.json", name, camera, mapped))
    work = partial(
        _kept, model=model, source=source, calibration=calibration, settings=settings
    )
    results = in_order(engine, work, tasks, tick, _lost)
    _write_results(results, output, settings)
    return results


def _lost(task: _Task, lost: Lost) -> Localized:
    """The answer for a query that the next run tries again."""
    reason = f"It ended every process that had it: {lost.reason}."
    return Localized(query=task[1], reason=reason)


def localize_files(
    model: str | Path,
    queries: Sequence[str | Path],
    pairs: str | Path,
    output: str | Path,
    calibration: Calibration,
    settings: LocalizeSettings | None = None,
    *,
    matcher: Matcher | None = None,
    images: Path | None = None,
    query_images: Path | None = None,
    matches: Path | None = None,
    engine: EngineSettings | None = None,
    begin: Begin = quietly,
) -> list[Localized]:
    """The same from files: a COLMAP model, lists of queries, and hloc's list of pairs.

    Matches are made by `matcher` of the `images` (those of the queries may lie in
    another folder) or read from the store `matches`. With both, new matches go into the
    store.
    """
    source: Source
    if matcher is not None and images is not None:
        source = FromImages(images, query_images or images, matcher)
        if matches is not None:
            source = stored(source, matches, matcher)
    elif matches is not None:
        source, matcher = FromStore(matches), None
    else:
        raise InputError("Give a matcher and images, or matches to read.")
    cameras = {k: v for path in queries for k, v in read_queries(path).items()}
    begin("Reading the map")
    retrieved, mapped = read_retrieval(pairs), read_model(model)
    files = sorted(path for path in Path(model).glob("*") if path.is_file())
    made_of = {
        "model": [[path.name, path.stat().st_size] for path in files],
        "matcher": None if matcher is None else identity(matcher),
        "folders": [str(path) for path in (images, query_images, matches)],
    }
    with open_engine(engine or EngineSettings(workers=0)) as workforce:
        return localize(
            cameras,
            retrieved,
            mapped,
            source,
            calibration,
            output,
            settings,
            made_of=made_of,
            engine=workforce,
            tick=begin(f"Localising {counted(len(cameras), 'query', 'queries')}"),
        )


def _kept(
    task: _Task,
    model: MapModel,
    source: Source,
    calibration: Calibration,
    settings: LocalizeSettings,
) -> Localized:
    """The stored result of a query, or a new one, which is then stored."""
    file, name, camera, mapped = task

    def made() -> dict[str, Any]:
        result = localize_query(
            name, camera, mapped, model, source, calibration, settings
        )
        if isinstance(source, FromStore):
            source.keep()
        return result.row()

    return Localized.of_row(kept_row(file, made))


def _write_results(
    results: Sequence[Localized], output: Path, settings: LocalizeSettings
) -> None:
    """Write the submission and the report."""
    lines = [result.submission() for result in results if result.pose is not None]
    text = "".join(f"{line}\n" for line in lines)
    write_atomically(output / "poses.txt", text.encode())
    report = {
        "semisure": __version__,
        "settings": asdict(settings),
        "queries": len(results),
        "localized": len(lines),
        "not_localized": {r.query: r.reason for r in results if r.pose is None},
        "results": [result.row() for result in results],
    }
    write_json(output / "report.json", report)


def localize_query(
    name: str,
    camera: Camera,
    mapped: Sequence[str],
    model: MapModel,
    source: Source,
    calibration: Calibration,
    settings: LocalizeSettings,
) -> Localized:
    """The pose of one query from its matches to the `mapped` images."""
    parts: list[WorldMatches] = []
    images: list[dict[str, Any]] = []
    for other in mapped:
        try:
            observed = model.observations(other)
            matches = source(name, other)
            _check_size(matches, name, camera)
        except InputError as error:
            images.append({"image": other, "skipped": str(error)})
            continue
        part = lift(matches, *observed)
        images.append({"image": other, "matches": len(matches), "lifted": len(part)})
        parts.append(part)
    details: dict[str, Any] = {"mapped": images}
    if not parts:
        reason = "the pairs file proposes no mapped image"
        if images:
            reason = images[0]["skipped"]
        return Localized(query=name, reason=reason, details=details)
    world = WorldMatches.joined(parts)
    unbiased, _ = without_bias(world, calibration)  # estimators ignore the location
    ransac = RansacSettings(threshold_px=settings.threshold_px, seed=settings.seed)
    start = estimate_pose(unbiased, camera, settings.estimator, ransac)
    refit = refit_pose(world, camera, calibration, start, method=settings.method)
    details |= {
        "lifted": len(world),
        "inliers": int(start.inliers.sum()),
        "effective_matches": float(refit.weight.sum()),
        "kept_initial_because": refit.reason,
        "initial": None if start.model is None else start.model.tolist(),
        "cam_from_world": None if refit.model is None else refit.model.tolist(),
    }
    C = refit.covariance  # of rotation and position, 6 × 6
    if C is not None:
        details["position_std"] = float(np.sqrt(np.trace(C[3:, 3:])))
        details["rotation_std_deg"] = float(np.degrees(np.sqrt(np.trace(C[:3, :3]))))
    details["covariance"] = None if C is None else C.tolist()
    failure = refit.reason if refit.model is None else None
    return Localized(query=name, reason=failure, details=details)


def _check_size(matches: Matches, name: str, camera: Camera) -> None:
    if matches.source_size != camera.size:
        width, height = matches.source_size
        raise InputError(
            f"The image {name} is {width} × {height} px, but its camera is for "
            f"{camera.width} × {camera.height} px. Give the intrinsics of the image as "
            "it is read, after EXIF rotation."
        )
