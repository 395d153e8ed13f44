"""`semisure calibrate`: a calibration from photos, without ground truth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semisure.cli import options
from semisure.cli.app import app
from semisure.cli.fit_law import print_fit
from semisure.cli.progress import stages

if TYPE_CHECKING:
    from semisure.selfcal import SelfCalibration


@app.command(
    epilog="Example: `semisure calibrate --photos ~/Pictures/street -o theta.json`; a "
    "network: `semisure calibrate --matcher loftr --photos ~/Pictures -o loftr.json`"
)
def calibrate(
    photos: Annotated[Path, typer.Option(help="Folder of photos, of anything.")],
    output: options.Output,
    matcher: options.MatcherName = "daisy",
    pairs: Annotated[
        int, typer.Option(help="Number of pairs of views; the paper has 200.")
    ] = 200,
    max_side: Annotated[
        int, typer.Option(help="Reduce larger photos to this, px.")
    ] = 640,
    location: options.Location = False,
    device: options.Device = None,
    weights: options.WeightsFile = None,
    seed: options.Seed = 0,
    report: options.Report = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Calibrate a matcher on your photos: no ground-truth data needed.

    Matches random views of each photo, whose geometry is known. A quarter of the photos
    is held out to test the result, and a reliability plot is written beside it. If the
    command is interrupted, running it again continues where it stopped.
    """
    from semisure.io.files import save_calibration
    from semisure.io.images import find_images
    from semisure.matchers import load_matcher
    from semisure.selfcal import SelfCalSettings, self_calibrate

    settings = SelfCalSettings(
        pairs=pairs, max_side=max_side, location=location, seed=seed
    )
    parts = output.with_name(output.name + ".parts")
    picture = output.with_name(output.stem + "_reliability.png")
    files = find_images(photos)
    inputs = files if weights is None else [*files, weights]
    options.check_calibration_output(output, inputs, report, picture)
    loaded = load_matcher(matcher, device=device, weights=weights)
    with stages(quiet or as_json) as begin:
        result = self_calibrate(
            loaded,
            files,
            settings,
            name=matcher,
            cache=parts,
            begin=begin,
        )
    save_calibration(result.calibration, output, result.report)
    _draw(picture, result)
    if report is not None:
        from semisure.report.calibration import write_calibration_page

        flags = {
            "--matcher": matcher,
            "--photos": photos,
            "--pairs": pairs,
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


def _remove_cache(folder: Path) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
