"""`semisure match-pairs`: many pairs of images into one store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from semisure.cli import command, options
from semisure.cli.config import engine_of, pick, settings_of
from semisure.cli.options import option
from semisure.cli.progress import stages

if TYPE_CHECKING:
    from semisure.pairs.run import PairsOutcome

REASONS_SHOWN = 20


@command(
    "match-pairs",
    epilog="Example: `semisure match-pairs photos --exhaustive -o store`; a thousand "
    "photos in any order: `semisure match-pairs photos --similar 20 -o store`; hloc's "
    "list on a cluster, which ray.toml names: `semisure match-pairs photos --pairs "
    "pairs.txt --config ray.toml -o store`; frames of a video: `semisure match-pairs "
    "frames --sequential 4 -o store`; job 3 of an array of 16: `semisure match-pairs "
    "photos --exhaustive --shard 3/16 -o store`",
)
def match_pairs(
    images: Annotated[Path, typer.Argument(help="Folder of images.")],
    output: Annotated[Path, option("The store: a folder.", "-o", "--output")],
    pairs: Annotated[Path | None, option("Text file, two image names a line.")] = None,
    exhaustive: Annotated[
        bool, option("Each image with every other.", "--exhaustive")
    ] = False,
    sequential: Annotated[
        int | None, option("Each image with this many that follow it by name.")
    ] = None,
    similar: Annotated[
        int | None, option("Each image with this many that are most similar to it.")
    ] = None,
    matcher: options.MatcherName = None,
    calibration: options.CalibrationName = None,
    model: Annotated[
        Literal["auto", "homography", "fundamental", "essential", "none"] | None,
        option(
            "Model of each pair: homography, fundamental, essential, none (matches "
            "only) or, by default, auto: the matches decide.",
            metavar="NAME",
        ),
    ] = None,
    device: options.Device = None,
    workers: options.Workers = None,
    shard: Annotated[
        str | None, option("Do only part K of N of the work.", metavar="K/N")
    ] = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Match many pairs of images into a store, and verify the geometry of each.

    A store is a folder of Parquet files: for each pair its matches with their expected
    errors, the model that they support and a verdict. Unrelated images are marked as
    such. Run the command again to continue where it stopped. Pairs that cannot be
    matched are listed with the reason at the end, and tried again where a file for
    --config sets retry_failed = true. That file may also set the fields of
    `semisure.pairs.settings.PairSettings`, such as intrinsics or fov, and the engine in
    its table [engine]. Exit code 3: some pairs failed.
    """
    arguments = locals()
    from semisure.one_call import law_for, matcher_of
    from semisure.pairs import lists
    from semisure.pairs.run import match_pairs as run
    from semisure.pairs.settings import PairSettings

    ways = pairs, exhaustive or None, sequential, similar
    if sum(way is not None for way in ways) != 1:
        raise typer.BadParameter(
            "give one of --pairs, --exhaustive, --sequential, --similar"
        )
    settings = settings_of(arguments, PairSettings, law_for, run, engine=True)
    chosen = PairSettings(**pick(settings, PairSettings))
    named = matcher_of(chosen.matcher, **pick(settings, matcher_of))
    engine = engine_of(settings, workers)
    with stages(quiet or as_json) as begin:
        law = law_for(named, **pick(settings, law_for), begin=begin)
        if pairs is not None:
            listed = lists.read_pairs(pairs)
        elif sequential is not None:
            listed = lists.sequential_pairs(lists.image_names(images), sequential)
        elif similar is not None:
            names, tick = lists.image_names(images), begin("Comparing images")
            listed = lists.similar_pairs(images, names, similar, tick)
        else:
            listed = lists.exhaustive_pairs(lists.image_names(images))
        outcome = run(
            images,
            listed,
            output,
            chosen,
            engine=engine,
            **{**pick(settings, run), "calibration": law},
            begin=begin,
        )
    if not quiet:
        options.warn(law.caution)
    if as_json:
        typer.echo(json.dumps(outcome.document(), indent=2))
    elif not quiet:
        _print(outcome)
    if outcome.states["failed"]:
        raise typer.Exit(options.NOT_ALL)


def _print(outcome: PairsOutcome) -> None:
    counts = sorted(outcome.states.items())
    states = ", ".join(f"{count:,} {state}" for state, count in counts)
    new = outcome.total - outcome.earlier
    rate = f", {new / outcome.seconds:,.1f} a second" if new else ""
    typer.echo(
        f"{outcome.total:,} pairs: {states or 'none'}. {new:,} matched now in "
        f"{outcome.seconds:,.1f} s{rate}."
    )
    store = outcome.store
    typer.echo(
        f"Store {store.folder}: {len(store.shards()):,} shards, "
        f"{store.total_bytes() / 1e6:,.1f} MB."
    )
    if outcome.failed:
        typer.echo("Failed:")
    for reason, names in list(outcome.failed.items())[:REASONS_SHOWN]:
        typer.echo(f"  {len(names):>6,} × {reason} First: {' '.join(names[0])}")
    hidden = len(outcome.failed) - REASONS_SHOWN
    if hidden > 0:
        typer.echo(f"  and {hidden:,} more reasons; --json lists all.")
