"""`semisure calibrate`: a calibration from photos or maps."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from semisure.cli import command, options
from semisure.cli.config import engine_of, pick, settings_of
from semisure.cli.options import option
from semisure.cli.progress import stages


@command(
    epilog="Example: `semisure calibrate --photos ~/Pictures/street -o theta.json`; "
    "a reconstruction: `semisure calibrate --map sparse/0 --images images -o t.json`"
)
def calibrate(
    output: options.Output,
    photos: Annotated[Path | None, option("Folder of photos of any content.")] = None,
    map_folder: Annotated[
        list[Path] | None,
        option(
            "COLMAP model, or folder of posed images with depth, as ground truth; "
            "repeatable.",
            "--map",
            metavar="FOLDER",
        ),
    ] = None,
    images: Annotated[
        Path | None, option("Folder of the COLMAP model's images.")
    ] = None,
    matcher: options.MatcherName = None,
    device: options.Device = None,
    workers: options.Workers = None,
    report: options.Report = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Calibrate a matcher on your photos or maps.

    Photos may show anything: pairs of random views are matched, whose homography is
    known. Maps contain ground truth. Both can be combined. A quarter is held out to
    test the result, and a reliability plot is written beside it. If the command is
    interrupted, running it again continues where it stopped. A file for --config may
    set the fields of `semisure.calibrate.photos.SelfCalSettings`, such as pairs,
    map_pairs, and the engine in its table [engine].
    """
    arguments = locals()
    from semisure.calibrate.maps import calibrate_maps
    from semisure.calibrate.photos import SelfCalSettings, self_calibrate
    from semisure.engine import open_engine
    from semisure.io.atomic import write_atomically
    from semisure.io.files import save_calibration
    from semisure.io.images import find_images
    from semisure.one_call import matcher_of
    from semisure.report.calibration import write_calibration_page
    from semisure.report.plots import plot_reliability, png

    if not (photos or map_folder):
        raise typer.BadParameter("give --photos or --map, or both")
    callees = SelfCalSettings, calibrate_maps, matcher_of
    settings = settings_of(arguments, *callees, engine=True)
    network = pick(settings, matcher_of)
    network.pop("max_side", None)  # images are reduced before they reach the matcher
    named = matcher_of(settings.get("matcher", "daisy"), **network)
    files = [] if photos is None else find_images(photos)
    parts = output.with_name(output.name + ".parts")
    picture = output.with_name(output.stem + "_reliability.png")
    options.check_outputs(
        (output, (".json",)), (picture, ()), (report, options.PAGE), inputs=files
    )
    with (
        open_engine(engine_of(settings, workers, otherwise=0)) as engine,
        stages(quiet or as_json) as begin,
    ):
        shared: dict[str, Any] = {
            "settings": SelfCalSettings(**pick(settings, SelfCalSettings)),
            "name": settings.get("matcher", "daisy"),
            "cache": parts,
            "engine": engine,
            "begin": begin,
        }
        if map_folder:
            of_maps = {**pick(settings, calibrate_maps), "photos": files}
            result = calibrate_maps(named, map_folder, **of_maps, **shared)
        else:
            result = self_calibrate(named, files, **shared)
    save_calibration(result.calibration, output, result.report)
    trust = result.trust
    curve = plot_reliability(trust.expected, trust.observed, "Held-out reliability")
    write_atomically(picture, png(curve))
    if report is not None:
        write_calibration_page(report, result)
    shutil.rmtree(parts, ignore_errors=True)
    if as_json:
        typer.echo(output.read_text(encoding="utf-8"), nl=False)
    elif not quiet:
        options.print_fit(result.report)
        for sentence in result.skipped:
            typer.echo(f"Skipped: {sentence}")
        typer.echo(trust.verdict())
        options.warn(result.calibration.caution)
        typer.echo(f"Wrote {output} and {picture}.")
