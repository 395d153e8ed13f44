"""`semisure refit`: a model of matches that exist."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semisure.cli import intrinsics as given
from semisure.cli import options
from semisure.cli.pair_output import Outputs, Strict, check_outputs, print_result
from semisure.cli.root import app

if TYPE_CHECKING:
    from semisure.types import Matrix3


def refit(
    file: Annotated[
        Path, typer.Argument(help="Matches of one image pair.", metavar="FILE")
    ],
    calibration: Annotated[
        str,
        typer.Option(
            "-c",
            "--calibration",
            help="Calibration file, or the name of a shipped one.",
            metavar="FILE|NAME",
            autocompletion=options.complete_calibrations,
        ),
    ],
    model_error: options.ModelError = None,
    model: options.ModelName = "auto",
    intrinsics: given.Intrinsics = None,
    estimator: options.EstimatorName = "magsac++",
    initial: Annotated[
        Path | None,
        typer.Option(
            help="Start from the homography in this 3 × 3 text file, or with --model "
            "fundamental from that matrix, instead of an estimator."
        ),
    ] = None,
    method: options.MethodName = "core+",
    threshold_px: options.PairThreshold = 3.0,
    seed: options.Seed = 0,
    output: Outputs = None,
    size: options.Size = None,
    strict: Strict = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Estimate a model from matches, then refit it with calibrated weights.

    Exit codes: 3 if there is no model, or chance alone explains it; with --strict also
    4, if the model is weak.
    """
    from semisure.estimators import RansacSettings
    from semisure.io.files import load_matches
    from semisure.pairs.estimation import refit_matches
    from semisure.pairs.models import MODELS
    from semisure.refit.weights import REFIT_METHODS
    from semisure.report import documents
    from semisure.types import as_choice

    check_outputs(output, inputs=(file, calibration, initial))
    given.check_given(model, intrinsics, None, exif=False)
    cameras = [given.parse(text) for text in intrinsics or []]
    result = refit_matches(
        load_matches(file, size=options.parse_size(size)),
        options.with_model_error(
            options.calibration_of(calibration, quiet=quiet), model_error
        ),
        model=as_choice("model", model, MODELS),
        estimator=estimator,
        method=as_choice("method", method, REFIT_METHODS),
        settings=RansacSettings(threshold_px=threshold_px, seed=seed),
        initial=None if initial is None else _read_start(initial, model),
        K0=cameras[0] if cameras else None,
        K1=cameras[-1] if cameras else None,
    )
    for path in output or []:
        documents.write_result(path, result)
    print_result(result, as_json, quiet, strict=strict)


refit.__doc__ = f"{refit.__doc__}{options.FILES_HELP}"
app.command(
    epilog="Example: `semisure refit pair.npz -c theta.json -o better.json`; from a "
    "homography of your own: `semisure refit pair.csv --size 640x480 -c daisy "
    "--initial H.txt --json`"
)(refit)


def _read_start(path: Path, model: str) -> Matrix3:
    from semisure.datasets.sequences import read_homography
    from semisure.geometry import fundamental, homography

    check = fundamental.checked if model == "fundamental" else homography.checked
    return check(read_homography(path), str(path))
