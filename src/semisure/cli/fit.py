"""`semisure fit`: the error law from matches whose truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semisure.cli import options
from semisure.cli.progress import stages
from semisure.cli.root import app
from semisure.errors import FileError

if TYPE_CHECKING:
    from semisure.law.fit_law import FitReport
    from semisure.types import Matches, PerAxis

# Not H_01: under that name `semisure match` stores what it has estimated.
TRUTH = "true_H_01"


def fit(
    files: Annotated[
        list[Path], typer.Argument(help="One file of matches per image pair.")
    ],
    output: options.Output,
    matcher: Annotated[
        str, typer.Option(help="Name of the matcher, to record.")
    ] = "unknown",
    law: Annotated[
        str, options.one_of(options.LAWS, "Error law; mixture is the paper's")
    ] = "mixture",
    optimiser: Annotated[
        str, options.one_of(options.OPTIMISERS, "Optimiser, ours or the paper's")
    ] = "newton",
    location: Annotated[
        bool, typer.Option("--location", help="Fit a systematic shift too (ours).")
    ] = False,
    size: options.Size = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Fit the error law to matches whose truth is known.

    Each file must also hold the truth: **true_H_01** (3 × 3, NPZ)
    from image 0 to image 1, or **residual** (n × 2, px; CSV: residual_x, residual_y),
    predicted minus true on the refined side.
    """
    from semisure.io.files import save_calibration
    from semisure.law.fit_law import OPTIMISERS
    from semisure.law.fit_law import fit as fit_calibration
    from semisure.types import LAW_NAMES, as_choice

    options.check_calibration(output, files)
    chosen_law = as_choice("law", law, LAW_NAMES)
    chosen_optimiser = as_choice("optimiser", optimiser, OPTIMISERS)

    with stages(quiet or as_json) as begin:
        tick = begin("Reading matches")
        pairs = []
        for path in files:
            pairs.append(_with_truth(path, size))
            tick(len(pairs), len(files))
        begin("Fitting")
        calibration, report = fit_calibration(
            pairs,
            law=chosen_law,
            optimiser=chosen_optimiser,
            location=location,
            matcher=matcher,
            provenance={"files": len(files)},
        )
    save_calibration(calibration, output, report)
    if as_json:
        typer.echo(output.read_text(encoding="utf-8"), nl=False)
    if as_json or quiet:
        return
    print_fit(report)
    typer.echo(f"Wrote {output}.")


fit.__doc__ = f"{fit.__doc__}{options.FILES_HELP}"
app.command(
    epilog="Example: `semisure fit pairs/*.npz --matcher loftr -o theta.json`; with "
    "the paper's optimiser: `semisure fit pairs/*.csv --size 640x480 "
    "--optimiser powell -o t.json`"
)(fit)


def _with_truth(path: Path, size: str | None) -> tuple[Matches, PerAxis]:
    from semisure.geometry.homography import checked, true_residual
    from semisure.io.files import MATCH_ARRAYS, load_arrays, matches_from

    arrays = load_arrays(path, (*MATCH_ARRAYS, "residual", TRUTH, "H_01"))
    matches = matches_from(arrays, path, options.parse_size(size))
    if "residual" in arrays:
        return matches, arrays["residual"]
    if TRUTH in arrays:
        H_01 = checked(arrays[TRUTH], f"{TRUTH} of {path}")
        return matches, true_residual(H_01, matches)
    estimated = " Its H_01 is an estimate from these matches." * ("H_01" in arrays)
    raise FileError(
        f"{path} holds no truth.{estimated} Add {TRUTH} (3 × 3, NPZ) or residual "
        "(n × 2 px; CSV: residual_x, residual_y)."
    )


def print_fit(report: FitReport) -> None:
    """A table of the fit, and its summary."""
    from rich.console import Console
    from rich.table import Table

    head, *rows = report.rows()
    table = Table(*head, title="Fit")
    for row in rows:
        table.add_row(*row)
    console = Console()
    console.print(table)
    console.print(report.summary())
