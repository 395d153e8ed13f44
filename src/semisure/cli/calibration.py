"""`semisure fit` and `semisure calibrate`: from known errors to a calibration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semisure.cli.app import (
    FILES_HELP,
    AsJson,
    Device,
    MatcherName,
    Quiet,
    Report,
    Seed,
    Size,
    WeightsFile,
    app,
    parse_size,
    stages,
)
from semisure.errors import FileError

if TYPE_CHECKING:
    from semisure.calibration import FitReport
    from semisure.types import FloatArray, Matches

Output = Annotated[Path, typer.Option("-o", "--output", help="Calibration (JSON).")]
Location = Annotated[
    bool, typer.Option("--location", help="Fit a systematic shift too (ours).")
]


def _laws(incomplete: str) -> list[str]:
    from semisure.types import LAW_NAMES

    return [name for name in LAW_NAMES if name.startswith(incomplete)]


def _optimisers(incomplete: str) -> list[str]:
    return [name for name in ("newton", "powell") if name.startswith(incomplete)]


def fit(
    files: Annotated[
        list[Path], typer.Argument(help="One file of matches per image pair.")
    ],
    output: Output,
    matcher: Annotated[str, typer.Option(help="Name to record.")] = "unknown",
    law: Annotated[
        str,
        typer.Option(help="Error law; the paper's is mixture.", autocompletion=_laws),
    ] = "mixture",
    method: Annotated[
        str,
        typer.Option(
            "-m",
            "--method",
            help="newton, or the paper's powell.",
            autocompletion=_optimisers,
        ),
    ] = "newton",
    location: Location = False,
    size: Size = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fit the error law to matches whose truth is known.

    Each file must also say where the matches should have gone: **H_01** (3 × 3, NPZ)
    from image 0 to image 1, or **residual** (n × 2, px; CSV: residual_x, residual_y),
    predicted minus true on the refined side.
    """
    from semisure.calibration import fit as fit_calibration
    from semisure.io.files import save_calibration

    with stages(quiet or as_json) as begin:
        tick = begin("Reading matches")
        pairs = []
        for path in files:
            pairs.append(_with_truth(path, size))
            tick(len(pairs), len(files))
        begin("Fitting")
        calibration, report = fit_calibration(
            pairs,
            law=law,  # type: ignore[arg-type]
            method=method,  # type: ignore[arg-type]
            location=location,
            matcher=matcher,
            provenance={"files": len(files)},
        )
    save_calibration(calibration, output, report)
    if as_json:
        typer.echo(output.read_text(encoding="utf-8"), nl=False)
    if as_json or quiet:
        return
    _print_fit(report)
    typer.echo(f"Wrote {output}.")


fit.__doc__ = f"{fit.__doc__}{FILES_HELP}"
app.command(
    epilog="Example: `semisure fit pairs/*.npz --matcher loftr -o theta.json`; by the "
    "paper's optimiser: `semisure fit pairs/*.csv --size 640x480 -m powell -o t.json`"
)(fit)


def _with_truth(path: Path, size: str | None) -> tuple[Matches, FloatArray]:
    from semisure.geometry.homography import checked, residual
    from semisure.io.files import load_arrays, matches_from

    arrays = load_arrays(path)
    matches = matches_from(arrays, path, parse_size(size))
    if "residual" in arrays:
        return matches, arrays["residual"]
    if "H_01" in arrays:
        return matches, residual(checked(arrays["H_01"], f"H_01 of {path}"), matches)
    raise FileError(
        f"{path} holds no truth: add H_01 (3 × 3, NPZ) or residual (n × 2 px; CSV: "
        "residual_x, residual_y)."
    )


def _print_fit(report: FitReport) -> None:
    from rich.console import Console
    from rich.table import Table

    head, *rows = report.rows()
    table = Table(*head, title="Fit")
    for row in rows:
        table.add_row(*row)
    console = Console()
    console.print(table)
    console.print(report.summary())


@app.command(
    epilog="Example: `semisure calibrate --photos ~/Pictures/street -o theta.json`; a "
    "network: `semisure calibrate --matcher loftr --photos ~/Pictures -o loftr.json`"
)
def calibrate(
    photos: Annotated[Path, typer.Option(help="Folder of photos, any content.")],
    output: Output,
    matcher: MatcherName = "daisy",
    pairs: Annotated[int, typer.Option(help="Views to match; the paper: 200.")] = 200,
    max_side: Annotated[int, typer.Option(help="Reduce photos to this, px.")] = 640,
    location: Location = False,
    device: Device = None,
    weights: WeightsFile = None,
    seed: Seed = 0,
    report: Report = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Calibrate a matcher on your photos: no ground-truth data needed.

    Random views of each photo are matched, whose geometry is known. A
    quarter of the photos is held out to tell how far the result can be trusted; a
    reliability plot is written beside it. Interrupted, the command goes on where it
    stopped when it is run again.
    """
    from semisure.io.atomic import write_atomically
    from semisure.io.files import save_calibration
    from semisure.io.images import find_images
    from semisure.matchers import load_matcher
    from semisure.report.plots import plot_reliability, png
    from semisure.selfcal import SelfCalSettings, self_calibrate

    settings = SelfCalSettings(
        pairs=pairs, max_side=max_side, location=location, seed=seed
    )
    parts = output.with_name(output.name + ".parts")
    loaded = load_matcher(matcher, device=device, weights=weights)
    with stages(quiet or as_json) as begin:
        result = self_calibrate(
            loaded,
            find_images(photos),
            settings,
            name=matcher,
            cache=parts,
            begin=begin,
        )
    save_calibration(result.calibration, output, result.report)
    trust = result.trust
    picture = output.with_name(output.stem + "_reliability.png")
    figure = plot_reliability(trust.expected, trust.observed, "Held-out reliability")
    write_atomically(picture, lambda file: file.write(png(figure)))
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
    _remove(parts)
    if as_json:
        typer.echo(output.read_text(encoding="utf-8"), nl=False)
    if as_json or quiet:
        return
    _print_fit(result.report)
    for sentence in result.skipped:
        typer.echo(f"Skipped: {sentence}")
    typer.echo(trust.verdict())
    typer.echo(f"Wrote {output} and {picture}.")


def _remove(folder: Path) -> None:
    """The cache of a run that is done."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
