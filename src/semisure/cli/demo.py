"""`semisure demo`: real photos whose truth is known, on one page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from semisure.cli import command, options
from semisure.cli.progress import stages


@command(epilog="Example: `semisure demo -o demo.html`")
def demo(
    output: Annotated[
        Path, options.option("Page of pictures (HTML).", "-o", "--output")
    ] = Path("semisure-demo.html"),
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Match real photos whose truth is known, and show how much the refit improves.

    The photos come with scikit-image (`pip install 'semisure[demo]'`); nothing is
    downloaded.
    """
    from semisure.demo import run

    options.check_outputs((output, options.PAGE))
    with stages(quiet or as_json) as begin:
        result = run(output, begin("Matching photos"))
    expected, observed = result.stereo_expected_px, result.stereo_observed_px
    if as_json:
        document = {
            "median_corner_error_px": result.medians(),
            "stereo_half_and_90_expected_px": expected,
            "stereo_half_and_90_observed_px": observed,
        }
        typer.echo(json.dumps(document, indent=2))
    elif not quiet:
        options.print_table(result.rows(), "Median corner error, px")
        typer.echo(
            f"Stereo pair: half of the errors in x and y within {expected[0]:.2f} px "
            f"expected, {observed[0]:.2f} px observed; 90 % within {expected[1]:.2f} "
            f"px expected, {observed[1]:.2f} px observed."
        )
        typer.echo(f"Open {output.resolve()} in a browser for the pictures.")
