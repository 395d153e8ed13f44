"""`semisure calibrate`: a calibration from photos or maps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semisure.cli import options
from semisure.cli.config import settings_of, taken
from semisure.cli.fit import print_fit
from semisure.cli.progress import stages
from semisure.cli.root import app

if TYPE_CHECKING:
    from semisure.calibrate.photos import SelfCalibration


@app.command(
    epilog="Example: `semisure calibrate --photos ~/Pictures/street -o theta.json`; "
    "a reconstruction: `semisure calibrate --map sparse/0 --images images -o t.json`"
)
def calibrate(
    output: options.Output,
    photos: Annotated[
        Path | None,
        typer.Option(help="Folder of photos, of anything.", metavar="FOLDER"),
    ] = None,
    map_folder: Annotated[
        list[Path] | None,
        typer.Option(
            "--map",
            help="COLMAP model, or folder of posed images with depth: its truth is "
            "used; repeatable.",
            metavar="FOLDER",
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(help="Folder of the COLMAP model's images.", metavar="FOLDER"),
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

    Photos may show anything: random views of each are matched, whose geometry is known.
    Maps bring their own truth. Both can be combined. A quarter is held out to test the
    result, and a reliability plot is written beside it. If the command is interrupted,
    running it again continues where it stopped. A file for --config may set the fields
    of `semisure.calibrate.photos.SelfCalSettings`, such as pairs, map_pairs, and the
    engine in its table [engine].
    """
    import shutil

    from semisure.calibrate.maps import calibrate_maps
    from semisure.calibrate.photos import SelfCalSettings, self_calibrate
    from semisure.engine import EngineSettings, open_engine
    from semisure.io.files import save_calibration
    from semisure.io.images import find_images
    from semisure.one_call import matcher_of

    if not (photos or map_folder):
        raise typer.BadParameter("give --photos or --map, or both")
    given = {"matcher": matcher or "daisy", "device": device, "images": images}
    takers = SelfCalSettings, calibrate_maps, matcher_of
    settings = settings_of(config, given, *takers, tables={"engine": EngineSettings})
    chosen = SelfCalSettings(**taken(settings, SelfCalSettings))
    network = taken(settings, matcher_of)
    network.pop("max_side", None)  # the images are reduced before the matcher has them
    named = matcher_of(settings["matcher"], **network)
    files = [] if photos is None else find_images(photos)
    parts = output.with_name(output.name + ".parts")
    picture = output.with_name(output.stem + "_reliability.png")
    options.check_calibration(output, files, picture, *options.check_page(report))
    engine = options.engine_of(settings, workers, otherwise=0)
    with open_engine(engine) as workforce, stages(quiet or as_json) as begin:
        shared: dict[str, Any] = {
            "settings": chosen,
            "name": settings["matcher"],
            "cache": parts,
            "engine": workforce,
            "begin": begin,
        }
        if map_folder:
            of_maps = taken(settings, calibrate_maps)
            of_maps["photos"] = files
            result = calibrate_maps(named, map_folder, **of_maps, **shared)
        else:
            result = self_calibrate(named, files, **shared)
    save_calibration(result.calibration, output, result.report)
    _draw(picture, result)
    if report is not None:
        from semisure.report.calibration import write_calibration_page

        flags = {
            "--photos": photos,
            "--map": map_folder,
            "--images": images,
            "--matcher": settings["matcher"],
            "--device": device,
            "--config": config,
            "-o": output,
        }
        write_calibration_page(report, result, flags=flags)
    shutil.rmtree(parts, ignore_errors=True)
    if as_json:
        typer.echo(output.read_text(encoding="utf-8"), nl=False)
    elif not quiet:
        _print(result)
        typer.echo(f"Wrote {output} and {picture}.")


def _draw(path: Path, result: SelfCalibration) -> None:
    from semisure.io.atomic import write_atomically
    from semisure.report.plots import plot_reliability, png

    trust = result.trust
    figure = plot_reliability(trust.expected, trust.observed, "Held-out reliability")
    write_atomically(path, lambda file: file.write(png(figure)))


def _print(result: SelfCalibration) -> None:
    print_fit(result.report)
    for sentence in result.skipped:
        typer.echo(f"Skipped: {sentence}")
    typer.echo(result.trust.verdict())
    options.warn(result.calibration.caution)
