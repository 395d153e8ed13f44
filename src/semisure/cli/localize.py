"""`semisure localize`: poses of query images in a COLMAP map."""

from __future__ import annotations

import hashlib
import json
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semisure.cli import engine_options, options
from semisure.cli.progress import stages
from semisure.cli.root import app

if TYPE_CHECKING:
    from semisure.mapping.query import Localized
    from semisure.mapping.sources import Source
    from semisure.types import Matcher, Matches, Tick

NOT_ALL = 3  # exit code


@app.command(
    epilog="Example: `semisure localize sfm --images images --queries "
    "queries_with_intrinsics.txt --pairs pairs.txt --matcher xfeat-star -o out`"
)
def localize(
    model: Annotated[Path, typer.Argument(help="COLMAP model: .bin or .txt files.")],
    queries: Annotated[
        list[Path],
        typer.Option(
            help="Lines: name MODEL WIDTH HEIGHT PARAMS…; may be repeated.",
            metavar="FILE",
        ),
    ],
    pairs: Annotated[
        Path, typer.Option(help="hloc's retrieval file, lines: query mapped-image.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder of results.")],
    images: Annotated[Path | None, typer.Option(help="Folder of the images.")] = None,
    query_images: Annotated[
        Path | None, typer.Option(help="Folder of the queries; default: --images.")
    ] = None,
    matches: Annotated[
        Path | None,
        typer.Option(
            help="Matches of hloc's (.h5) or a store: read from it; missing pairs are "
            "added."
        ),
    ] = None,
    matcher: options.MatcherName = "daisy",
    calibration: options.CalibrationName = None,
    photos: options.Photos = None,
    no_calibrate: options.NoCalibrate = False,
    force: options.Force = False,
    model_error: options.ModelError = None,
    estimator: options.PoseEstimatorName = "lo-ransac",
    method: options.MethodName = "core+",
    threshold_px: options.Threshold = 12.0,
    radius_px: Annotated[
        float,
        typer.Option(
            "--radius", help="Largest distance from a match to a mapped keypoint, px."
        ),
    ] = 2.0,
    max_pairs: Annotated[
        int | None, typer.Option(help="Largest number of mapped images per query.")
    ] = None,
    max_side: options.MaxSide = None,
    refine: options.Refinement = None,
    device: options.Device = None,
    weights: options.WeightsFile = None,
    seed: options.Seed = 0,
    engine: engine_options.EngineName = "local",
    address: engine_options.Address = None,
    workers: engine_options.WorkersOrNone = 0,
    gpus_per_worker: engine_options.GpusPerWorker = 0.0,
    max_failures: engine_options.MaxFailures = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Localise queries in a map: match, lift to 3D, estimate a pose, refit it.

    Writes poses.txt (basename qw qx qy qz tx ty tz, from world to camera), report.json
    and a file for each query; run it again to continue where it stopped. Exit code
    3: some queries have no pose; the report gives the reasons.
    """
    from semisure.engine import open_engine
    from semisure.io.atomic import check_output_folder
    from semisure.io.colmap import read_model
    from semisure.io.hloc import read_queries, read_retrieval
    from semisure.mapping.localize import localize as run
    from semisure.mapping.query import LocalizeSettings
    from semisure.matchers import refined_name
    from semisure.matchers.named import NamedMatcher
    from semisure.refit.weights import REFIT_METHODS
    from semisure.types import as_choice
    from semisure.types.display import counted

    check_output_folder(output)
    cameras = {k: v for path in queries for k, v in read_queries(path).items()}
    settings = LocalizeSettings(
        estimator=estimator,
        method=as_choice("method", method, REFIT_METHODS),
        threshold_px=threshold_px,
        radius_px=radius_px,
        max_pairs=max_pairs,
        seed=seed,
    )
    matcher = refined_name(matcher, refine)
    if images is None and matches is None:
        raise typer.BadParameter("give --images to match, or --matches to read matches")
    law = run_matcher = None
    if calibration is not None or images is None:
        law = options.calibration_of(
            calibration or matcher,
            None if images is None else matcher,
            force=force,
            quiet=quiet,
        )
    if images is not None:
        run_matcher = NamedMatcher(matcher, max_side, device, weights, refine)
        run_matcher.loaded()  # what is missing is missing before the work
    who = engine_options.engine_settings(engine, address, workers, gpus_per_worker)
    here = who.kind == "local" and who.workers == 0
    source = _source(images, query_images, matches, run_matcher, here)
    made_of = _made_of(model, _identity(run_matcher), images, query_images, matches)
    with (
        open_engine(who) as workforce,
        stages(quiet or as_json, lines=not quiet) as begin,
    ):
        if law is None:
            assert run_matcher is not None  # or the matches' law was asked for
            law = options.own_calibration(
                run_matcher.loaded(), photos, not no_calibrate, quiet, begin
            )
        begin("Reading the map")
        retrieved, mapped = read_retrieval(pairs), read_model(model)
        counter = _PairCounter(
            {name: len(retrieved.get(name, ())[:max_pairs]) for name in cameras},
            tick := begin(f"Localising {counted(len(cameras), 'query', 'queries')}"),
        )
        results = run(
            cameras,
            retrieved,
            mapped,
            counter.counted(source) if here else source,
            options.with_model_error(law, model_error),
            output,
            settings,
            made_of=made_of,
            engine=workforce,
            max_failures=max_failures,
            tick=counter.finish if here else tick,
        )
    _print(results, output, as_json, quiet)


class _PairCounter:
    """Progress by pairs of images: a query may have fifty, and take minutes."""

    def __init__(self, pairs: dict[str, int], tick: Tick) -> None:
        self._before = [0, *accumulate(pairs.values())]
        self._tick = tick
        self._done = 0

    def counted(self, source: Source) -> Source:
        """A source of the same matches that ticks after each pair."""
        return _Counted(source, self)

    def count(self) -> None:
        """One more pair is done."""
        self._done += 1
        self._tick(self._done, self._before[-1])

    def finish(self, done: int, total: int) -> None:
        """Skip the pairs that a finished query did not need."""
        self._done = self._before[done]
        self._tick(self._done, self._before[-1])


class _Counted:
    """A source of the same matches that counts them."""

    def __init__(self, source: Source, counter: _PairCounter) -> None:
        self._source, self._counter = source, counter

    def __call__(self, query: str, mapped: str) -> Matches:
        try:
            return self._source(query, mapped)
        finally:
            self._counter.count()

    def keep(self) -> None:
        keep = getattr(self._source, "keep", None)
        if keep is not None:
            keep()


def _source(
    images: Path | None,
    query_images: Path | None,
    matches: Path | None,
    matcher: Matcher | None,
    alone: bool,
) -> Source:
    from semisure.errors import InputError
    from semisure.mapping.sources import from_images, from_store, is_hdf5, stored

    if images is None or matcher is None:
        assert matches is not None  # one of the two was given
        return from_store(matches)
    source = from_images(images, query_images or images, matcher)
    if matches is None:
        return source
    if is_hdf5(matches) and not alone:
        raise InputError(
            f"{matches} is an HDF5 file, which one process can write. Give a folder as "
            "--matches, which becomes a store, or leave out --workers."
        )
    return stored(source, matches, _identity(matcher), matcher=matcher)


def _identity(matcher: Matcher | None) -> str:
    """A digest of what decides the matches; empty where they are read from a file."""
    from semisure.matchers import identity

    if matcher is None:
        return ""
    text = json.dumps(identity(matcher), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _made_of(model: Path, *others: Any) -> dict[str, Any]:
    """What else the results depend on: results of another map are computed again."""
    files = sorted(path for path in model.glob("*") if path.is_file())
    sizes = [[path.name, path.stat().st_size] for path in files]
    return {"model": sizes, "options": [str(other) for other in others]}


def _print(results: list[Localized], output: Path, as_json: bool, quiet: bool) -> None:
    from semisure.types.display import counted

    lost = {result.query: result.reason for result in results if result.pose is None}
    count = len(results) - len(lost)
    poses = output / "poses.txt"
    if as_json:
        summary = {"queries": len(results), "localized": count, "not_localized": lost}
        typer.echo(json.dumps({**summary, "poses": str(poses)}, indent=2))
    elif not quiet:
        queries = counted(len(results), "query", "queries")
        typer.echo(f"{count} of {queries} localised: {poses}")
        for query, reason in lost.items():
            typer.echo(f"  {query}: {reason}")
    if lost:
        raise typer.Exit(NOT_ALL)
