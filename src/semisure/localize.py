"""Queries against a map: match, lift, estimate, refit, report.

Each query is matched to the mapped images that retrieval proposed, with the query as
the refined side, so that the calibrated errors are in the query's pixels. Every
finished query is a file: an interrupted run continues where it stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from semisure.__about__ import __version__
from semisure.errors import InputError
from semisure.estimators.pose import estimate_pose
from semisure.estimators.settings import RansacSettings
from semisure.geometry import pose as se3
from semisure.geometry.camera import Camera
from semisure.io.atomic import write_atomically, write_json
from semisure.io.images import Image, read_image
from semisure.maps.colmap import MapModel
from semisure.maps.lifting import RADIUS_PX, lift
from semisure.refit import RefitMethod, refit_pose, without_bias
from semisure.types import (
    Calibration,
    Estimate,
    Matcher,
    Matches,
    Matrix,
    Pose,
    Refit,
    Tick,
    WorldMatches,
    silent,
)

# Matches of a query and a mapped image by their names, the query's points first.
Source = Callable[[str, str], Matches]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalizeSettings:
    """The settings that decide a pose; results of other settings are not reused."""

    estimator: str = "lo-ransac"
    method: RefitMethod = "core+"
    threshold_px: float = 12.0  # hloc's
    radius_px: float = RADIUS_PX
    max_pairs: int | None = None
    seed: int = 0

    def ransac(self) -> RansacSettings:
        return RansacSettings(threshold_px=self.threshold_px, seed=self.seed)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Localized:
    """One query's pose, or the reason why it has none."""

    query: str
    pose: Pose | None  # from world to camera
    reason: str | None
    details: Mapping[str, Any] = field(default_factory=dict)

    def submission(self) -> str:
        """Aachen's line: basename qw qx qy qz tx ty tz."""
        assert self.pose is not None
        numbers = se3.seven_numbers(self.pose)
        return " ".join([Path(self.query).name, *(f"{v:.12g}" for v in numbers)])


class QueryFirst:
    """A matcher called so that the query, its first image, is the refined side.

    Matchers differ in which image they refine; the first matches show which one it is.
    One that refines both is not turned: lifting converts the other matches.
    """

    def __init__(self, matcher: Matcher) -> None:
        self.matcher = matcher
        self.turned: bool | None = None

    def __call__(self, query: Image, mapped: Image) -> Matches:
        if self.turned is None:
            matches = self.matcher(query, mapped)
            if len(matches):
                self.turned = bool((matches.side == 1).all())
            if not self.turned:
                return matches
        if self.turned:
            return self.matcher(mapped, query).swapped()
        return self.matcher(query, mapped)


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
    parts, images = [], []
    for other in mapped[: settings.max_pairs]:
        part, entry = _lifted(name, camera, other, model, source, calibration, settings)
        images.append(entry)
        if part is not None:
            parts.append(part)
    if not parts:
        reason = "the pairs file proposes no mapped image"
        if images:
            reason = str(images[0]["skipped"])
        return Localized(
            query=name, pose=None, reason=reason, details={"mapped": images}
        )
    world = WorldMatches.joined(parts)
    unbiased, _ = without_bias(world, calibration)  # estimators ignore the location
    start = estimate_pose(unbiased, camera, settings.estimator, settings.ransac())
    refit = refit_pose(world, camera, calibration, start, method=settings.method)
    return Localized(
        query=name,
        pose=refit.model,
        reason=refit.reason if refit.model is None else None,
        details={"mapped": images, "lifted": len(world), **_details(start, refit)},
    )


def _lifted(
    name: str,
    camera: Camera,
    other: str,
    model: MapModel,
    source: Source,
    calibration: Calibration,
    settings: LocalizeSettings,
) -> tuple[WorldMatches | None, dict[str, Any]]:
    """2D–3D matches through one mapped image, and an entry about it for the report."""
    try:
        observed = model.observations(other)
        matches = source(name, other)
        _check_size(matches, name, camera)
    except InputError as error:
        return None, {"image": other, "skipped": str(error)}
    part = lift(
        matches, *observed, radius_px=settings.radius_px, calibration=calibration
    )
    return part, {"image": other, "matches": len(matches), "lifted": len(part)}


def _details(start: Estimate, refit: Refit) -> dict[str, Any]:
    return {
        "inliers": int(start.inliers.sum()),
        "effective_matches": float(refit.weight.sum()),
        "kept_initial_because": refit.reason,
        "initial": None if start.model is None else start.model.tolist(),
        "cam_from_world": None if refit.model is None else refit.model.tolist(),
        **_spread(refit.covariance),
    }


def _check_size(matches: Matches, name: str, camera: Camera) -> None:
    if matches.source_size != camera.size:
        width, height = matches.source_size
        raise InputError(
            f"The image {name} is {width} × {height} px, but its camera is for "
            f"{camera.width} × {camera.height} px. Give the intrinsics of the image as "
            "it is read, after EXIF rotation."
        )


def _spread(C: Matrix | None) -> dict[str, Any]:
    """Standard deviations of position and rotation, and the 6 × 6 covariance."""
    if C is None:
        return {"covariance": None}
    return {
        "position_std": float(np.sqrt(np.trace(C[3:, 3:]))),
        "rotation_std_deg": float(np.degrees(np.sqrt(np.trace(C[:3, :3])))),
        "covariance": C.tolist(),
    }


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
    tick: Tick = silent,
) -> list[Localized]:
    """Poses of all queries, written to the folder `output` one by one.

    ``poses.txt`` is in Aachen's submission format, ``report.json`` sums up and names
    the queries without a pose, ``queries/`` has one file each. `made_of` is what else
    decides the results (matcher, map, images): if it changed, they are computed again.
    """
    settings, output = settings or LocalizeSettings(), Path(output)
    results = []
    for done, (name, camera) in enumerate(queries.items(), start=1):
        mapped = list(pairs.get(name, ()))
        key = _fingerprint(name, camera, mapped, calibration, settings, made_of or {})
        path = output / "queries" / f"{name.replace('/', '-')}.json"
        result = _finished(path, key)
        if result is None:
            result = localize_query(
                name, camera, mapped, model, source, calibration, settings
            )
            write_json(path, {"made_of": key, **_document(result)})
        results.append(result)
        tick(done, len(queries))
    write_results(results, output, settings)
    return results


def write_results(
    results: Sequence[Localized], output: Path, settings: LocalizeSettings
) -> None:
    """Write the submission and the report."""
    lines = [result.submission() for result in results if result.pose is not None]
    text = "".join(f"{line}\n" for line in lines)
    write_atomically(output / "poses.txt", lambda file: file.write(text.encode()))
    lost = {r.query: r.reason for r in results if r.pose is None}
    report = {
        "semisure": __version__,
        "settings": asdict(settings),
        "queries": len(results),
        "localized": len(lines),
        "not_localized": lost,
        "results": [_document(result) for result in results],
    }
    write_json(output / "report.json", report)


def _document(result: Localized) -> dict[str, Any]:
    return {"query": result.query, "reason": result.reason, **result.details}


def _fingerprint(
    name: str,
    camera: Camera,
    mapped: list[str],
    calibration: Calibration,
    settings: LocalizeSettings,
    made_of: Mapping[str, Any],
) -> str:
    parts = [name, asdict(camera), mapped, asdict(calibration), asdict(settings)]
    text = json.dumps([*parts, dict(made_of), __version__], default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _finished(path: Path, key: str) -> Localized | None:
    """A finished query that the same inputs decided, or None."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document.pop("made_of") != key:
            return None
        pose = document.get("cam_from_world")
        return Localized(
            query=document.pop("query"),
            pose=None if pose is None else np.array(pose),
            reason=document.pop("reason"),
            details=document,
        )
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return None


def from_images(
    folder: str | Path, query_folder: str | Path, matcher: Matcher
) -> Source:
    """Matches of image files in two folders; keeps the last query in memory."""
    query_first = QueryFirst(matcher)

    @lru_cache(maxsize=1)
    def query_image(name: str) -> Image:
        return read_image(Path(query_folder) / name)

    def match(query: str, mapped: str) -> Matches:
        return query_first(query_image(query), read_image(Path(folder) / mapped))

    return match


def from_store(path: str | Path) -> Source:
    """Matches that were written to a file of hloc's before."""
    from semisure.maps import hloc

    return lambda query, mapped: hloc.read_matches(path, query, mapped)


def stored(source: Source, path: str | Path, made_of: str = "") -> Source:
    """The same matches, each pair stored in a file of hloc's and read from there.

    Pairs that say they were made of something else are matched again.
    """
    from semisure.maps import hloc

    def match(query: str, mapped: str) -> Matches:
        if hloc.has_matches(path, query, mapped, made_of):
            return hloc.read_matches(path, query, mapped)
        matches = source(query, mapped)
        hloc.write_matches(path, query, mapped, matches, made_of)
        return matches

    return match
