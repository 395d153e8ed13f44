"""`semisure match` and `semisure refit`: a better homography of one image pair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semisure.cli import options
from semisure.cli.app import app
from semisure.cli.progress import stages

if TYPE_CHECKING:
    from semisure.io.images import Image
    from semisure.pipeline import PairResult
    from semisure.types import Matrix3

NO_MODEL = 3  # exit code

Outputs = Annotated[
    list[Path] | None,
    typer.Option(
        "-o", "--output", help="JSON, NPZ or CSV, by its suffix; may be repeated."
    ),
]


@app.command(
    epilog="Example: `semisure match a.jpg b.jpg --report page.html -o matches.csv`; "
    "with a network: `semisure match a.jpg b.jpg --matcher xfeat-star --json`"
)
def match(
    image0: Annotated[Path, typer.Argument(help="First image.")],
    image1: Annotated[Path, typer.Argument(help="Second image.")],
    matcher: options.MatcherName = "daisy",
    calibration: options.CalibrationName = None,
    estimator: options.EstimatorName = "magsac++",
    method: options.MethodName = "core+",
    threshold_px: options.Threshold = 3.0,
    max_side: options.MaxSide = None,
    device: options.Device = None,
    weights: options.WeightsFile = None,
    seed: options.Seed = 0,
    output: Outputs = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw matches and overlay (PNG).")
    ] = None,
    report: options.Report = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Match two images: an expected error for each match, a refitted homography.

    Images may have any size and be colour or grey; EXIF rotation is applied. Exit code
    3: no homography, or one that chance explains.
    """
    from semisure.estimators import RansacSettings
    from semisure.io.files import load_calibration
    from semisure.io.images import read_image
    from semisure.matchers import check_name, load_matcher
    from semisure.pipeline import match_pair
    from semisure.refit import REFIT_METHODS
    from semisure.report import documents
    from semisure.types import as_choice

    images = read_image(image0), read_image(image1)
    check_name(matcher)
    loaded_calibration = load_calibration(calibration or matcher)
    run_matcher = load_matcher(
        matcher, max_side=max_side, device=device, weights=weights
    )
    with stages(quiet or as_json) as begin:
        begin("Matching")
        result = match_pair(
            *images,
            run_matcher,
            loaded_calibration,
            estimator=estimator,
            method=as_choice("method", method, REFIT_METHODS),
            settings=RansacSettings(threshold_px=threshold_px, seed=seed),
        )
        begin("Writing")
        for path in output or []:
            documents.write_result(path, result)
        if picture is not None:
            _draw(picture, images, result)
        if report is not None:
            from semisure.report.pair import write_pair_page

            settings = {
                "matcher": matcher,
                "calibration": calibration or matcher,
                "estimator": estimator,
                "method": method,
                "threshold_px": threshold_px,
                "max_side": max_side,
                "device": device,
                "weights": weights,
                "seed": seed,
            }
            write_pair_page(
                report, images, result, files=(image0, image1), settings=settings
            )
    _print(result, as_json, quiet)


def _print(result: PairResult, as_json: bool, quiet: bool) -> None:
    """Print the result; exit with 3 if there is no model, or only a chance one."""
    from semisure.report import documents

    if as_json:
        typer.echo(json.dumps(documents.document(result), indent=2, allow_nan=False))
    elif not quiet:
        typer.echo(result.summary())
        if result.related and result.refit.model is not None:
            typer.echo(_matrix(result.refit.model))
    if not result.related:
        raise typer.Exit(NO_MODEL)


def _draw(path: Path, images: tuple[Image, Image], result: PairResult) -> None:
    from semisure.io.atomic import write_atomically
    from semisure.report.overlay import overlay
    from semisure.report.plots import plot_pair, png

    overlaid = overlay(*images, result.refit.model)
    figure = plot_pair(
        *images, result.matches, result.expected_px, overlaid, result.summary()
    )
    write_atomically(path, lambda file: file.write(png(figure)))


def _matrix(H: Matrix3) -> str:
    import numpy as np

    return np.array2string(H, precision=8, suppress_small=False)


def refit(
    file: Annotated[Path, typer.Argument(help="Matches of one image pair.")],
    calibration: Annotated[
        str,
        typer.Option(
            "-c",
            "--calibration",
            help="Calibration file, or the name of a shipped one.",
            autocompletion=options.complete_calibrations,
        ),
    ],
    estimator: options.EstimatorName = "magsac++",
    initial: Annotated[
        Path | None,
        typer.Option(help="Start from this 3 × 3 text file instead of an estimator."),
    ] = None,
    method: options.MethodName = "core+",
    threshold_px: options.Threshold = 3.0,
    seed: options.Seed = 0,
    output: Outputs = None,
    size: options.Size = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Estimate a homography from matches, then refit it with calibrated weights.

    Exit code 3: no homography, or one that chance explains.
    """
    from semisure.estimators import RansacSettings
    from semisure.io.files import load_calibration, load_matches
    from semisure.pipeline import refit_matches
    from semisure.refit import REFIT_METHODS
    from semisure.report import documents
    from semisure.types import as_choice

    result = refit_matches(
        load_matches(file, size=options.parse_size(size)),
        load_calibration(calibration),
        estimator=estimator,
        method=as_choice("method", method, REFIT_METHODS),
        settings=RansacSettings(threshold_px=threshold_px, seed=seed),
        initial=None if initial is None else _read_homography(initial),
    )
    for path in output or []:
        documents.write_result(path, result)
    _print(result, as_json, quiet)


refit.__doc__ = f"{refit.__doc__}{options.FILES_HELP}"
app.command(
    epilog="Example: `semisure refit pair.npz -c theta.json -o better.json`; from a "
    "homography of your own: `semisure refit pair.csv --size 640x480 -c daisy "
    "--initial H.txt --json`"
)(refit)


def _read_homography(path: Path) -> Matrix3:
    from semisure.datasets.sequences import read_homography
    from semisure.geometry.homography import checked

    return checked(read_homography(path), str(path))
