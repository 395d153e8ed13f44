"""All queries of a map by an engine; every finished query is a file.

An interrupted run continues where it stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from semisure.__about__ import __version__
from semisure.engine import (
    HERE,
    Each,
    Engine,
    EngineSettings,
    Lost,
    in_batches,
    open_engine,
)
from semisure.errors import InputError, SemisureError
from semisure.geometry.camera import Camera
from semisure.io.atomic import write_atomically, write_json
from semisure.io.colmap import MapModel, read_model
from semisure.io.hloc import read_queries, read_retrieval
from semisure.mapping.query import Localized, LocalizeSettings, localize_query
from semisure.mapping.sources import (
    Keeps,
    Source,
    from_images,
    from_store,
    is_hdf5,
    stored,
)
from semisure.matchers import identity
from semisure.types import Calibration, Matcher, Tick, silent
from semisure.types.display import counted
from semisure.types.progress import Begin, quietly


@dataclass(frozen=True, slots=True, eq=False)
class _Query:
    """A query to be localised, and the file of its result."""

    name: str
    camera: Camera
    mapped: Sequence[str]
    key: str  # of all that decides the result
    file: Path


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """Localises a query and writes its file, unless that is there."""

    model: MapModel
    source: Source
    calibration: Calibration
    settings: LocalizeSettings

    def __call__(self, query: _Query) -> Localized:
        finished = _finished(query.file, query.key)
        if finished is not None:
            return finished
        result = localize_query(
            query.name,
            query.camera,
            query.mapped,
            self.model,
            self.source,
            self.calibration,
            self.settings,
        )
        if isinstance(self.source, Keeps):
            self.source.keep()
        write_json(query.file, {"made_of": query.key, **_document(result)})
        return result


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
    max_failures: int | None = None,
    tick: Tick = silent,
) -> list[Localized]:
    """Poses of all queries, written to the folder `output` one by one.

    ``poses.txt`` is in Aachen's submission format, ``report.json`` sums up and names
    the queries without a pose, ``queries/`` has one file each. `made_of` is what else
    decides the results (matcher, map, images): if it changed, they are computed again.
    Another `engine` than this process needs a `source` that can be pickled. The run
    ends once more than `max_failures` queries have no pose.
    """
    settings, output = settings or LocalizeSettings(), Path(output)
    asked = [
        _Query(
            name,
            camera,
            mapped := list(pairs.get(name, ())),
            _fingerprint(name, camera, mapped, calibration, settings, made_of or {}),
            output / "queries" / f"{name.replace('/', '-')}.json",
        )
        for name, camera in queries.items()
    ]
    results: dict[int, Localized] = {}
    work = _Work(model, source, calibration, settings)
    for index, answer in engine.map(Each(work), in_batches(asked, 1)):
        name = asked[index].name
        results[index] = _lost(name, answer) if isinstance(answer, Lost) else answer
        tick(len(results), len(asked))
        _check_failures(results.values(), max_failures)
    found = [results[index] for index in sorted(results)]
    write_results(found, output, settings)
    return found


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
    max_failures: int | None = None,
    begin: Begin = quietly,
) -> list[Localized]:
    """The same of files: a COLMAP model, lists of queries, and hloc's list of pairs.

    Matches are made by `matcher` of the `images` (those of the queries may lie in
    another folder) or read from the file or store `matches`. With both, `matches` keeps
    what is made.
    """
    who = engine or EngineSettings(workers=0)
    if matcher is None or images is None:
        if matches is None:
            raise InputError("Give a matcher and images, or matches to read.")
        source, decided_by = from_store(matches), ""
    else:
        source = from_images(images, query_images or images, matcher)
        text = json.dumps(identity(matcher), sort_keys=True)
        decided_by = hashlib.sha256(text.encode()).hexdigest()
        if matches is not None:
            alone = who.kind == "local" and who.workers == 0
            if is_hdf5(matches) and not alone:
                raise InputError(
                    f"{matches} is an HDF5 file, which one process can write. Give a "
                    "folder, which becomes a store, or use no workers."
                )
            source = stored(source, matches, decided_by, matcher=matcher)
    cameras = {k: v for path in queries for k, v in read_queries(path).items()}
    begin("Reading the map")
    retrieved, mapped = read_retrieval(pairs), read_model(model)
    files = sorted(path for path in Path(model).glob("*") if path.is_file())
    others = decided_by, images, query_images, matches
    made_of = {
        "model": [[path.name, path.stat().st_size] for path in files],
        "options": [str(other) for other in others],
    }
    with open_engine(who) as workforce:
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
            max_failures=max_failures,
            tick=begin(f"Localising {counted(len(cameras), 'query', 'queries')}"),
        )


def _lost(name: str, why: Lost) -> Localized:
    """The result of a query that is tried again by the next run."""
    reason = f"It ended every process that had it: {why.reason}."
    return Localized(query=name, pose=None, reason=reason)


def _check_failures(results: Iterable[Localized], max_failures: int | None) -> None:
    if max_failures is None:
        return
    failed = [r for r in results if r.pose is None]
    if len(failed) > max_failures:
        raise SemisureError(
            f"More than {max_failures} queries have no pose, the first "
            f"({failed[0].query}) because: {failed[0].reason} What is done is kept; "
            "run the command again to continue."
        )


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
