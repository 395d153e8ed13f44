"""The command line: parse, call one function, print."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from semisure.__about__ import __version__
from semisure.errors import FileError, SemisureError

app = typer.Typer(
    name="semisure",
    help="Calibrated pixel errors for semi-dense matches, and a better homography.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_FILES_HELP = """
A file of matches is an NPZ with the arrays **source**, **target**, **fine_std**,
**coarse_std** (n × 2, px), **confidence** (n), **source_size**, **target_size**
(width, height) and, where needed, **side** (0 or 1: the image that was refined), or a
CSV with the columns x0, y0, x1, y1, confidence, fine_std_x, fine_std_y, coarse_std_x,
coarse_std_y [, width0, height0, width1, height1, side].
"""

Size = Annotated[
    str | None,
    typer.Option(help="Image size WxH, for files that do not hold it.", metavar="WxH"),
]


def main() -> None:
    """Run the command; a user's mistake is one sentence and exit code 1."""
    try:
        app()
    except SemisureError as error:
        print(f"semisure: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"semisure {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    pass


@app.command(epilog="Example: `semisure fit pairs/*.npz --matcher loftr -o theta.json`")
def fit(
    files: Annotated[
        list[Path], typer.Argument(help="One file of matches per image pair.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Calibration (JSON).")],
    matcher: Annotated[str, typer.Option(help="Name to record.")] = "unknown",
    law: Annotated[str, typer.Option(help="Error law; the paper's is mixture.")] = (
        "mixture"
    ),
    method: Annotated[str, typer.Option(help="newton, or the paper's powell.")] = (
        "newton"
    ),
    location: Annotated[
        bool, typer.Option("--location", help="Fit a systematic shift too (ours).")
    ] = False,
    size: Size = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Fit the error law to matches whose truth is known.

    Each file must also say where the matches should have gone: **H_01** (3 × 3, NPZ)
    from image 0 to image 1, or **residual** (n × 2, px; CSV: residual_x, residual_y),
    predicted minus true on the refined side.
    """
    from semisure.calibrate import fit as fit_calibration
    from semisure.files import save_calibration

    pairs = [_with_truth(path, size) for path in files]
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
        return
    _print_fit(report, output)


fit.__doc__ = (fit.__doc__ or "") + _FILES_HELP


def _with_truth(path: Path, size: str | None) -> tuple[Any, Any]:
    from semisure.files import load_arrays, matches_from
    from semisure.geometry.homography import residual

    arrays = load_arrays(path)
    matches = matches_from(arrays, path, _parse_size(size))
    if "residual" in arrays:
        return matches, arrays["residual"]
    if "H_01" in arrays:
        return matches, residual(_homography(arrays["H_01"], path), matches)
    raise FileError(
        f"{path} holds no truth: add H_01 (3 × 3, NPZ) or residual (n × 2 px; CSV: "
        "residual_x, residual_y)."
    )


def _parse_size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdigit() and int(part) for part in parts):
        raise typer.BadParameter(f"{text!r} is not WIDTHxHEIGHT, such as 640x480")
    return int(parts[0]), int(parts[1])


def _homography(values: Any, path: Path) -> Any:
    import numpy as np

    H = np.asarray(values, dtype=np.float64)
    if H.shape != (3, 3) or not np.isfinite(H).all() or np.linalg.matrix_rank(H) < 3:
        raise FileError(f"{path} must hold an invertible, finite 3 × 3 homography.")
    return H


def _print_fit(report: Any, output: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("error", "matches", "NLL per axis (nats)", title="Fit")
    table.add_row("all", f"{report.matches:,}", f"{report.nll:.4f}")
    for name, nll in report.nll_by_stratum.items():
        count = report.matches_by_stratum[name]
        table.add_row(f"{name} px", f"{count:,}", f"{nll:.4f}" if count else "–")
    console = Console()
    console.print(table)
    state = "converged" if report.converged else "did NOT converge"
    console.print(
        f"{report.law} by {report.method} on {report.pairs} pairs: {state} after "
        f"{report.iterations} iterations ({report.message})."
    )
    if report.at_bounds:
        console.print(f"At a bound: {', '.join(report.at_bounds)}.", style="yellow")
    console.print(f"Wrote {output}.")


@app.command(
    epilog="Example: `semisure refit pair.npz --calibration theta.json -o better.json`"
)
def refit(
    file: Annotated[Path, typer.Argument(help="Matches of one image pair.")],
    calibration: Annotated[
        Path, typer.Option("-c", "--calibration", help="From `semisure fit`.")
    ],
    estimator: Annotated[
        str, typer.Option("-e", "--estimator", help="Robust estimator for the start.")
    ] = "magsac++",
    initial: Annotated[
        Path | None,
        typer.Option(help="Start from this 3 × 3 text file instead of an estimator."),
    ] = None,
    method: Annotated[
        str, typer.Option("-m", "--method", help="core+ (ours) or core (the paper's).")
    ] = "core+",
    threshold_px: Annotated[float, typer.Option("--threshold", help="px.")] = 3.0,
    seed: Annotated[int, typer.Option(help="Of the robust estimator.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="JSON, or matches with weights as NPZ/CSV."
        ),
    ] = None,
    size: Size = None,
) -> None:
    """Estimate a homography, then refit it with calibrated weights.

    Prints the model as JSON. Exit code 3: no homography was found.
    """
    from semisure.files import load_calibration, load_matches

    matches = load_matches(file, size=_parse_size(size))
    known = load_calibration(calibration)
    start = _initial(matches, known, initial, estimator, threshold_px, seed)
    _finish_refit(matches, known, start, method, output)


refit.__doc__ = (refit.__doc__ or "") + _FILES_HELP


def _initial(
    matches: Any,
    calibration: Any,
    path: Path | None,
    estimator: str,
    threshold_px: float,
    seed: int,
) -> Any:
    import numpy as np

    from semisure.estimators import estimate_homography
    from semisure.estimators.settings import RansacSettings

    if path is None:
        settings = RansacSettings(threshold_px=threshold_px, seed=seed)
        return estimate_homography(matches, estimator, settings)
    try:
        return _homography(np.loadtxt(path), path)
    except (OSError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path} is not a 3 × 3 text file: {error}") from None


def _finish_refit(
    matches: Any, calibration: Any, start: Any, method: str, output: Path | None
) -> None:
    from semisure.files import save_matches, write_json
    from semisure.mixture import coarse_failure, expected_abs_error
    from semisure.refit import refit_homography
    from semisure.variants import error_law

    result = refit_homography(matches, calibration, start, method=method)  # type: ignore[arg-type]
    law = error_law(matches, calibration)
    document = {
        "H_01": None if result.model is None else result.model.tolist(),
        "initial": None if result.initial is None else result.initial.tolist(),
        "method": result.method,
        "kept_initial_because": result.reason,
        "iterations": result.iterations,
        "log_likelihood": result.log_likelihood,
        "std_floor_px": result.std_floor_px,
        "matches": len(matches),
        "effective_matches": float(result.weight.sum()),
    }
    if output is not None and output.suffix in (".npz", ".csv"):
        save_matches(
            matches,
            output,
            weight=result.weight,
            expected_abs_error=expected_abs_error(law),
            coarse_failure=coarse_failure(law),
        )
    elif output is not None:
        write_json(output, {**document, "weight": result.weight.tolist()})
    typer.echo(json.dumps(document, indent=2, allow_nan=False))
    if result.model is None:
        raise typer.Exit(3)


@app.command(epilog="Example: `semisure demo`")
def demo(
    seed: Annotated[int, typer.Option(help="Draws other matches.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Plant an error law, fit it back, and better 20 homographies with it."""
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    from semisure.demo import TEST_PAIRS, run

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Refitting", total=TEST_PAIRS)
        result = run(seed, tick=lambda: progress.advance(task))
    if as_json:
        document = {
            "errors_px": result.errors,
            "expected_px": result.expected_px,
            "observed_px": result.observed_px,
            "fit": asdict(result.report),
        }
        typer.echo(json.dumps(document, indent=2))
        return
    table = Table(
        "estimator",
        "base",
        "core (paper)",
        "core+ (ours)",
        title=f"Median corner error of {TEST_PAIRS} homographies, px",
    )
    for name, row in result.errors.items():
        table.add_row(name, *(f"{value:.3f}" for value in row))
    console = Console()
    console.print(table)
    console.print(
        f"Predicted error {result.expected_px:.2f} px, observed "
        f"{result.observed_px:.2f} px, on matches that the fit never saw."
    )
