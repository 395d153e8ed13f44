"""`semisure demo`: real photos whose truth is known, on one page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from semisure.cli import options
from semisure.cli.progress import stages
from semisure.cli.root import app


@app.command(epilog="Example: `semisure demo -o demo.html`")
def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Page of pictures (HTML).")
    ] = Path("semisure-demo.html"),
    seed: Annotated[int, typer.Option(help="Random seed.", min=0)] = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Match real photos whose truth is known, and show how much the refit improves.

    The photos come with scikit-image (`pip install 'semisure[demo]'`); nothing is
    downloaded.
    """
    from semisure.demo import run

    options.check_page(output)
    with stages(quiet or as_json) as begin:
        result = run(output, seed, begin("Matching photos"))
    if as_json:
        document = {
            "median_corner_error_px": result.medians(),
            "stereo_half_and_90_expected_px": result.stereo_expected_px,
            "stereo_half_and_90_observed_px": result.stereo_observed_px,
        }
        typer.echo(json.dumps(document, indent=2))
    if as_json or quiet:
        return
    _print(result.medians())
    expected, observed = result.stereo_expected_px, result.stereo_observed_px
    typer.echo(
        f"Stereo pair: half of the errors in x and y within {expected[0]:.2f} px "
        f"expected, {observed[0]:.2f} px observed; 90 % within {expected[1]:.2f} px "
        f"expected, {observed[1]:.2f} px observed."
    )
    typer.echo(f"Open {output.resolve()} in a browser for the pictures.")


def _print(medians: dict[str, dict[str, float]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        "estimator",
        "base",
        "core (paper)",
        "core+ (ours)",
        title="Median corner error, px",
    )
    for name, row in medians.items():
        table.add_row(name, *(f"{value:.3f}" for value in row.values()))
    Console().print(table)
