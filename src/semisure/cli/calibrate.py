"""`semisure calibrate`: a calibration from photos or maps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from semisure.cli import engine_options, options
from semisure.cli.fit_law import print_fit
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
        Path | None, typer.Option(help="Folder of photos, of anything.")
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
        Path | None, typer.Option(help="Folder of the COLMAP model's images.")
    ] = None,
    matcher: options.MatcherName = "daisy",
    pairs: Annotated[
        int, typer.Option(help="Number of pairs of views; the paper has 200.")
    ] = 200,
    map_pairs: Annotated[int, typer.Option(help="Pairs of each map, at most.")] = 40,
    max_side: Annotated[
        int, typer.Option(help="Reduce larger images to this, px.")
    ] = 640,
    location: options.Location = False,
    device: options.Device = None,
    weights: options.WeightsFile = None,
    seed: options.Seed = 0,
    engine: engine_options.EngineName = "local",
    address: engine_options.Address = None,
    workers: engine_options.WorkersOrNone = 0,
    gpus_per_worker: engine_options.GpusPerWorker = 0.0,
    report: options.Report = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Calibrate a matcher on your photos or maps.

    Photos may show anything: random views of each are matched, whose geometry is known.
    Maps bring their own truth. Both can be combined. A quarter is held out to test the
    result, and a reliability plot is written beside it. If the command is interrupted,
    running it again continues where it stopped.
    """
    from semisure.calibrate.maps import calibrate_maps
    from semisure.calibrate.photos import SelfCalSettings, self_calibrate
    from semisure.engine import open_engine
    from semisure.io.files import save_calibration
    from semisure.io.images import find_images
    from semisure.matchers import NamedMatcher

    if not (photos or map_folder):
        raise typer.BadParameter("give --photos or --map, or both")
    settings = SelfCalSettings(
        pairs=pairs, max_side=max_side, location=location, seed=seed
    )
    parts = output.with_name(output.name + ".parts")
    picture = output.with_name(output.stem + "_reliability.png")
    files = [] if photos is None else find_images(photos)
    inputs = files if weights is None else [*files, weights]
    options.check_calibration_output(output, inputs, report, picture)
    named = NamedMatcher(matcher, device=device, weights=weights)
    named.loaded()  # what is missing is missing before the work
    who = engine_options.engine_settings(engine, address, workers, gpus_per_worker)
    with (
        open_engine(who) as workforce,
        stages(quiet or as_json, lines=not quiet) as begin,
    ):
        shared: dict[str, Any] = {
            "name": matcher,
            "cache": parts,
            "engine": workforce,
            "begin": begin,
        }
        if map_folder:
            result = calibrate_maps(
                named,
                map_folder,
                images=images,
                photos=files,
                settings=settings,
                map_pairs=map_pairs,
                **shared,
            )
        else:
            result = self_calibrate(named, files, settings, **shared)
    save_calibration(result.calibration, output, result.report)
    _draw(picture, result)
    if report is not None:
        from semisure.report.calibration import write_calibration_page

        flags = {
            "--matcher": matcher,
            "--photos": photos,
            "--map": map_folder,
            "--images": images,
            "--pairs": pairs,
            "--map-pairs": map_pairs if map_folder else None,
            "--max-side": max_side,
            "--location": location,
            "--device": device,
            "--weights": weights,
            "--seed": seed,
            "-o": output,
        }
        write_calibration_page(report, result, flags=flags)
    _remove_cache(parts)
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


def _remove_cache(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
