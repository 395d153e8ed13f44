"""`semisure localize`: poses of query images in a COLMAP map."""

from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semisure.cli.app import (
    AsJson,
    CalibrationName,
    Device,
    EstimatorName,
    MatcherName,
    MaxSide,
    MethodName,
    Quiet,
    Seed,
    Threshold,
    Tick,
    WeightsFile,
    app,
    stages,
)

if TYPE_CHECKING:
    from semisure.localize import Localized, Source
    from semisure.types import Matcher, Matches

NOT_ALL = 3  # exit code


@app.command(
    epilog="Example: `semisure localize sfm --images images --queries "
    "queries_with_intrinsics.txt --pairs pairs.txt --matcher xfeat-star -o out`"
)
def localize(
    model: Annotated[Path, typer.Argument(help="COLMAP model: .bin or .txt files.")],
    queries: Annotated[
        list[Path],
        typer.Option(help="Lines: name MODEL WIDTH HEIGHT PARAMS…; may be repeated."),
    ],
    pairs: Annotated[Path, typer.Option(help="hloc's retrieval: query mapped-image.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of results.")],
    images: Annotated[Path | None, typer.Option(help="Folder of the images.")] = None,
    query_images: Annotated[
        Path | None, typer.Option(help="Folder of the queries; default: --images.")
    ] = None,
    matches: Annotated[
        Path | None,
        typer.Option(help="HDF5 of matches: read, and written where a pair lacks."),
    ] = None,
    matcher: MatcherName = "daisy",
    calibration: CalibrationName = None,
    estimator: EstimatorName = "lo-ransac",
    method: MethodName = "core+",
    threshold_px: Threshold = 12.0,
    radius_px: Annotated[
        float, typer.Option("--radius", help="From a match to a mapped keypoint, px.")
    ] = 2.0,
    max_pairs: Annotated[
        int | None, typer.Option(help="Mapped images per query at most.")
    ] = None,
    max_side: MaxSide = None,
    device: Device = None,
    weights: WeightsFile = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Localise queries in a map: match, lift to 3D, estimate a pose, refit it.

    Writes poses.txt (basename qw qx qy qz tx ty tz, from world to camera), report.json
    and a file for each query; run it again to go on where it stopped. Exit code 3: some
    queries have no pose; the report says why.
    """
    from semisure.io.files import load_calibration
    from semisure.localize import LocalizeSettings
    from semisure.localize import localize as run
    from semisure.maps.colmap import read_model
    from semisure.maps.hloc import read_pairs, read_queries
    from semisure.matchers import check_name, load_matcher

    cameras = {k: v for path in queries for k, v in read_queries(path).items()}
    settings = LocalizeSettings(
        estimator=estimator,
        method=method,  # type: ignore[arg-type]
        threshold_px=threshold_px,
        radius_px=radius_px,
        max_pairs=max_pairs,
        seed=seed,
    )
    check_name(matcher)
    known = load_calibration(calibration or matcher)
    loaded = None
    if images is not None:
        loaded = load_matcher(
            matcher, max_side=max_side, device=device, weights=weights
        )
    source = _source(images, query_images, matches, loaded)
    made_of = _made_of(model, matcher, max_side, weights, images, query_images, matches)
    with stages(quiet or as_json) as begin:
        begin("Reading the map")
        proposed, mapped = read_pairs(pairs), read_model(model)
        counted = _Counted(
            {name: len(proposed.get(name, ())[:max_pairs]) for name in cameras},
            begin(f"Localising {len(cameras)} queries"),
        )
        results = run(
            cameras,
            proposed,
            mapped,
            counted.source(source),
            known,
            output,
            settings,
            made_of=made_of,
            tick=counted.finish,
        )
    _tell(results, output, as_json, quiet)


class _Counted:
    """Progress by pairs of images: a query may have fifty, and take minutes."""

    def __init__(self, pairs: dict[str, int], tick: Tick) -> None:
        self._before = [0, *accumulate(pairs.values())]
        self._tick = tick
        self._done = 0

    def source(self, source: Source) -> Source:
        """The same matches, counted."""

        def match(query: str, mapped: str) -> Matches:
            try:
                return source(query, mapped)
            finally:
                self._done += 1
                self._tick(self._done, self._before[-1])

        return match

    def finish(self, done: int, total: int) -> None:
        """Skip the pairs that a finished query did not need."""
        self._done = self._before[done]
        self._tick(self._done, self._before[-1])


def _source(
    images: Path | None,
    query_images: Path | None,
    matches: Path | None,
    matcher: Matcher | None,
) -> Source:
    from semisure.errors import InputError
    from semisure.localize import from_images, from_store, stored

    if images is None or matcher is None:
        if matches is None:
            raise InputError("Give --images to match, or --matches to read matches.")
        return from_store(matches)
    made = from_images(images, query_images or images, matcher)
    return made if matches is None else stored(made, matches)


def _made_of(model: Path, *others: Any) -> dict[str, Any]:
    """What else the results depend on, so that a changed map is not taken for done."""
    files = sorted(path for path in model.glob("*") if path.is_file())
    sizes = [[path.name, path.stat().st_size] for path in files]
    return {"model": sizes, "given": [str(other) for other in others]}


def _tell(results: list[Localized], output: Path, as_json: bool, quiet: bool) -> None:
    lost = {result.query: result.reason for result in results if result.pose is None}
    found = len(results) - len(lost)
    if as_json:
        told = {"queries": len(results), "localized": found, "not_localized": lost}
        typer.echo(json.dumps({**told, "poses": str(output / "poses.txt")}, indent=2))
    elif not quiet:
        typer.echo(
            f"{found} of {len(results)} queries localised: {output / 'poses.txt'}"
        )
        for query, reason in lost.items():
            typer.echo(f"  {query}: {reason}")
    if lost:
        raise typer.Exit(NOT_ALL)
