"""`semisure fit`: the error law from matches whose truth is known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

import typer

from semisure.cli import command, options
from semisure.cli.options import option
from semisure.cli.progress import stages
from semisure.errors import FileError

if TYPE_CHECKING:
    from semisure.types import Matches, PerAxis

Law = Literal[
    "mixture",
    "fine_only",
    "gaussian",
    "uncalibrated",
    "no_confidence_gate",
    "hard_gate",
]
# Not H_01: under that name `semisure match` stores what it has estimated.
TRUTH = "true_H_01"


@command(
    epilog="Example: `semisure fit pairs/*.npz --matcher loftr -o theta.json`; with "
    "the paper's optimiser: `semisure fit pairs/*.csv --size 640x480 "
    f"--optimiser powell -o t.json`{options.FILES_HELP}"
)
def fit(
    files: Annotated[
        list[Path], typer.Argument(help="One file of matches per image pair.")
    ],
    output: options.Output,
    matcher: Annotated[str, option("Name of the matcher, to record.")] = "unknown",
    law: Annotated[
        Law, option(f"Error law: {', '.join(get_args(Law))}.", metavar="NAME")
    ] = "mixture",
    optimiser: Annotated[
        Literal["newton", "powell"],
        option("Optimiser: newton (ours) or powell (the paper's).", metavar="NAME"),
    ] = "newton",
    location: Annotated[
        bool, option("Fit a systematic shift too (ours).", "--location")
    ] = False,
    size: options.Size = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Fit the error law to matches whose truth is known.

    Each file must also hold the truth: true_H_01 (3 × 3, NPZ) from image 0 to image 1,
    or residual (n × 2, px; CSV: residual_x, residual_y), predicted minus true on the
    refined side.
    """
    from semisure.io.files import save_calibration
    from semisure.law.fit_law import fit as run

    options.check_outputs((output, (".json",)), inputs=files)
    with stages(quiet or as_json) as begin:
        tick = begin("Reading matches")
        pairs = []
        for path in files:
            pairs.append(_with_truth(path, size))
            tick(len(pairs), len(files))
        begin("Fitting")
        calibration, report = run(
            pairs,
            law=law,
            optimiser=optimiser,
            location=location,
            matcher=matcher,
            provenance={"files": len(files)},
        )
    save_calibration(calibration, output, report)
    if as_json:
        typer.echo(output.read_text(encoding="utf-8"), nl=False)
    elif not quiet:
        options.print_fit(report)
        typer.echo(f"Wrote {output}.")


def _with_truth(path: Path, size: tuple[int, int] | None) -> tuple[Matches, PerAxis]:
    from semisure.geometry.homography import checked, true_residual
    from semisure.io.files import MATCH_ARRAYS, load_arrays, matches_from

    arrays = load_arrays(path, (*MATCH_ARRAYS, "residual", TRUTH, "H_01"))
    matches = matches_from(arrays, path, size)
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
