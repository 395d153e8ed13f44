"""`semisure match-pairs`: many pairs of images into one store."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semisure.cli import choices, engine_options, options
from semisure.cli import intrinsics as given
from semisure.cli.progress import stages
from semisure.cli.root import app

if TYPE_CHECKING:
    from semisure.pairs.run import PairsOutcome
    from semisure.types import Tick
    from semisure.types.pair_records import Names

SOME_FAILED = 3  # exit code
REASONS_SHOWN = 20
FOLLOWING = 4  # frames that a frame of a video is paired with


@app.command(
    name="match-pairs",
    epilog="Example: `semisure match-pairs photos --exhaustive -o store`; a walk: "
    "`semisure match-pairs photos --sequential 5 -o store`; a thousand photos in any "
    "order: `semisure match-pairs photos --similar 20 -o store`; hloc's list on a "
    "cluster: `semisure match-pairs photos --pairs pairs.txt --engine ray --address "
    "auto -o s3://bucket/store`; a video: `semisure match-pairs frames --video "
    "walk.mp4 --every 10 -o store`; job 3 of an array of 16: `semisure match-pairs "
    "photos --exhaustive --shard 3/16 -o store`",
)
def match_pairs(
    images: Annotated[
        Path,
        typer.Argument(help="Folder of images, or for the frames of --video."),
    ],
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            help="The store: a folder or fsspec address.",
            metavar="STORE",
        ),
    ],
    pairs: Annotated[
        Path | None,
        typer.Option(help="Text file, two image names a line.", metavar="FILE"),
    ] = None,
    exhaustive: Annotated[
        bool, typer.Option("--exhaustive", help="Every image with every other.")
    ] = False,
    sequential: Annotated[
        int | None,
        typer.Option(help="Every image with the next N by name.", metavar="N"),
    ] = None,
    similar: Annotated[
        int | None,
        typer.Option(
            help="Every image with the N most like it, by the cells of daisy.",
            metavar="N",
        ),
    ] = None,
    video: Annotated[
        Path | None,
        typer.Option(
            help="Write frames of this video to IMAGES first; default then: "
            f"--sequential {FOLLOWING}.",
            metavar="CLIP",
        ),
    ] = None,
    every: Annotated[
        int, typer.Option(help="Take every N-th frame of the video.", metavar="N")
    ] = 5,
    matcher: options.MatcherName = "daisy",
    calibration: options.CalibrationName = None,
    photos: options.Photos = None,
    no_calibrate: options.NoCalibrate = False,
    force: options.Force = False,
    model_error: options.ModelError = None,
    model: Annotated[
        str,
        choices.one_of(
            choices.GEOMETRIES,
            "Model of each pair; with auto the matches decide, none keeps matches only",
            "--model",
        ),
    ] = "auto",
    intrinsics: Annotated[
        str | None,
        typer.Option(
            "--intrinsics",
            help="Camera of all images: fx,fy,cx,cy in px, or a 3 × 3 text file.",
            metavar="VALUES|FILE",
        ),
    ] = None,
    fov: given.FieldOfView = None,
    focal_from_exif: given.FromExif = False,
    estimator: options.EstimatorName = "magsac++",
    method: options.MethodName = "core+",
    threshold_px: options.PairThreshold = 3.0,
    max_side: options.MaxSide = None,
    device: options.Device = None,
    weights: options.WeightsFile = None,
    seed: options.Seed = 0,
    engine: engine_options.EngineName = "local",
    address: engine_options.Address = None,
    workers: engine_options.Workers = None,
    gpus_per_worker: engine_options.GpusPerWorker = 0.0,
    shard: Annotated[
        str | None,
        typer.Option(help="Do only part K of N, for job arrays.", metavar="K/N"),
    ] = None,
    pairs_per_shard: Annotated[
        int,
        typer.Option(
            help="Pairs that a worker takes at a time; fewer for slow matchers.",
            metavar="N",
        ),
    ] = 64,
    batch: Annotated[
        int,
        typer.Option(
            help="Pairs that a network sees together: faster where pairs share images "
            "and on graphics cards, for more memory.",
            metavar="N",
        ),
    ] = 1,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Try pairs again that failed before.")
    ] = False,
    max_failures: engine_options.MaxFailures = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Match many pairs of images into a store, and verify the geometry of each.

    A store is a folder of Parquet files: for each pair its matches with their expected
    errors, the model that they obey and a verdict. Unrelated images are marked as such.
    Run the command again to continue where it stopped. Pairs that cannot be matched are
    listed with the reason at the end. Exit code 3: some pairs failed.
    """
    from semisure.matchers.named import NamedMatcher
    from semisure.pairs.run import Part
    from semisure.pairs.run import match_pairs as run
    from semisure.pairs.settings import GEOMETRIES, PairSettings
    from semisure.refit.weights import REFIT_METHODS
    from semisure.types import as_choice

    settings = PairSettings(
        matcher=matcher,
        max_side=max_side,
        device=device,
        weights=weights,
        model=as_choice("model", model, GEOMETRIES),
        estimator=estimator,
        method=as_choice("method", method, REFIT_METHODS),
        threshold_px=threshold_px,
        seed=seed,
        intrinsics=intrinsics,
        fov=fov,
        focal_from_exif=focal_from_exif,
        batch=batch,
    )
    law = None
    if calibration is not None:  # looked at before weights are fetched
        law = options.calibration_of(calibration, matcher, force=force, quiet=quiet)
    who = engine_options.engine_settings(engine, address, workers, gpus_per_worker)
    ways = pairs is not None, exhaustive, sequential is not None, similar is not None
    if sum(ways) > 1:
        raise typer.BadParameter(
            "give one of --pairs, --exhaustive, --sequential, --similar"
        )
    named = NamedMatcher(matcher, max_side, device, weights)
    with stages(quiet or as_json, lines=not quiet) as begin:
        if law is None:
            law = options.own_calibration(
                named.loaded(), photos, not no_calibrate, quiet, begin
            )
        if video is not None:
            from semisure.pairs.lists import write_frames

            write_frames(video, images, every, begin(f"Reading {video.name}"))
            if not any(ways):
                sequential = FOLLOWING
        listed = _listed(images, pairs, exhaustive, sequential, similar, begin)
        outcome = run(
            images,
            listed,
            output,
            settings,
            calibration=options.with_model_error(law, model_error),
            engine=who,
            pairs_a_shard=pairs_per_shard,
            part=None if shard is None else Part.parsed(shard),
            retry_failed=retry_failed,
            max_failures=max_failures,
            begin=begin,
        )
    _print(outcome, as_json, quiet)


def _listed(
    images: Path,
    pairs: Path | None,
    exhaustive: bool,
    sequential: int | None,
    similar: int | None,
    begin: Callable[[str], Tick],
) -> list[Names]:
    """The pairs that were asked for."""
    from semisure.pairs.lists import (
        exhaustive_pairs,
        image_names,
        read_pairs,
        sequential_pairs,
        similar_pairs,
    )

    if pairs is not None:
        return read_pairs(pairs)
    choosers: dict[str, Callable[[list[str]], list[Names]] | None] = {
        "--exhaustive": exhaustive_pairs if exhaustive else None,
        "--sequential": None
        if sequential is None
        else lambda names: sequential_pairs(names, sequential),
        "--similar": None
        if similar is None
        else lambda names: similar_pairs(
            images, names, similar, begin("Comparing images")
        ),
    }
    for choose in choosers.values():
        if choose is not None:
            return choose(image_names(images))
    raise typer.BadParameter(f"say which pairs: --pairs FILE, {', '.join(choosers)} …")


def _print(outcome: PairsOutcome, as_json: bool, quiet: bool) -> None:
    if as_json:
        typer.echo(json.dumps(outcome.document(), indent=2))
    elif not quiet:
        _print_table(outcome)
    if outcome.states["failed"]:
        raise typer.Exit(SOME_FAILED)


def _print_table(outcome: PairsOutcome) -> None:
    document: dict[str, Any] = outcome.document()
    states = ", ".join(f"{n:,} {state}" for state, n in sorted(outcome.states.items()))
    new = outcome.asked - outcome.earlier
    rate = f", {new / outcome.seconds:,.1f} a second" if new else ""
    typer.echo(
        f"{outcome.asked:,} pairs: {states or 'none'}. {new:,} matched now in "
        f"{outcome.seconds:,.1f} s{rate}."
    )
    typer.echo(
        f"Store {outcome.store.name}: {document['shards']:,} shards, "
        f"{document['bytes'] / 1e6:,.1f} MB."
    )
    if not outcome.failed:
        return
    typer.echo("Failed:")
    for reason, names in list(outcome.failed.items())[:REASONS_SHOWN]:
        typer.echo(f"  {len(names):>6,} × {reason} First: {' '.join(names[0])}")
    hidden = len(outcome.failed) - REASONS_SHOWN
    if hidden > 0:
        typer.echo(f"  and {hidden:,} more reasons; --json lists all.")
