"""`semisure localize`: poses of query images in a COLMAP map."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from semisure.cli import command, options
from semisure.cli.config import engine_of, pick, settings_of
from semisure.cli.options import option
from semisure.cli.progress import stages


@command(
    epilog="Example: `semisure localize sfm --images images --queries "
    "queries_with_intrinsics.txt --pairs pairs.txt --matcher xfeat-star -o out`"
)
def localize(
    model: Annotated[Path, typer.Argument(help="COLMAP model: .bin or .txt files.")],
    queries: Annotated[
        list[Path],
        option("Lines: name MODEL WIDTH HEIGHT PARAMS…; repeatable.", metavar="FILE"),
    ],
    pairs: Annotated[Path, option("hloc's retrieval file, lines: query mapped-image.")],
    output: options.OutputFolder,
    images: Annotated[Path | None, option("Folder of the images.")] = None,
    matches: Annotated[
        Path | None, option("A store: its pairs are read, missing ones are added.")
    ] = None,
    matcher: options.MatcherName = None,
    calibration: options.CalibrationName = None,
    device: options.Device = None,
    workers: options.Workers = None,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Localise queries in a map: match, lift to 3D, estimate a pose, refit it.

    Writes poses.txt (basename qw qx qy qz tx ty tz, from world to camera), report.json
    and a file for each query; run it again to continue where it stopped. A file for
    --config may set the fields of `semisure.mapping.localize.LocalizeSettings`,
    query_images (a folder), and the engine in its table [engine]. Exit code 3: some
    queries have no pose; the report gives the reasons.
    """
    arguments = locals()
    from semisure.io.atomic import check_output_folder
    from semisure.io.files import load_calibration
    from semisure.mapping.localize import LocalizeSettings, localize_files
    from semisure.one_call import law_for, matcher_of
    from semisure.types.display import counted

    if images is None and matches is None:
        raise typer.BadParameter("give --images to match, or --matches to read matches")
    check_output_folder(output)
    callees = LocalizeSettings, law_for, localize_files, matcher_of
    settings = settings_of(arguments, *callees, engine=True)
    name = settings.get("matcher", "daisy")
    chosen = LocalizeSettings(**pick(settings, LocalizeSettings))
    engine = engine_of(settings, workers, otherwise=0)
    with stages(quiet) as begin:
        if images is None:
            named, law = None, load_calibration(settings.get("calibration", name))
        else:
            named = matcher_of(name, **pick(settings, matcher_of))
            law = law_for(named, **pick(settings, law_for), begin=begin)
        results = localize_files(
            model,
            queries,
            pairs,
            output,
            law,
            chosen,
            engine=engine,
            **{**pick(settings, localize_files), "matcher": named},
            begin=begin,
        )
    lost = {result.query: result.reason for result in results if result.pose is None}
    count = len(results) - len(lost)
    if not quiet:
        options.warn(law.caution)
        total = counted(len(results), "query", "queries")
        typer.echo(f"{count} of {total} localised: {output / 'poses.txt'}")
        for query, reason in lost.items():
            typer.echo(f"  {query}: {reason}")
    if lost:
        raise typer.Exit(options.NOT_ALL)
