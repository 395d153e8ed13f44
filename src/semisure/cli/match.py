"""`semisure match`: matches and model of two images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semisure.cli import intrinsics as given
from semisure.cli import options
from semisure.cli.pair_output import Outputs, Strict, check_outputs, print_result
from semisure.cli.progress import stages
from semisure.cli.root import app

if TYPE_CHECKING:
    from semisure.io.images import Image


@app.command(
    epilog="Example: `semisure match a.jpg b.jpg --report page.html -o matches.csv`; "
    "with a network: `semisure match a.jpg b.jpg --matcher xfeat-star --json`; the "
    "camera's motion: `semisure match a.jpg b.jpg --model essential --fov 65`"
)
def match(
    image0: Annotated[Path, typer.Argument(help="First image.", metavar="IMAGE0")],
    image1: Annotated[Path, typer.Argument(help="Second image.", metavar="IMAGE1")],
    matcher: options.MatcherName = "daisy",
    calibration: options.CalibrationName = None,
    photos: options.Photos = None,
    no_calibrate: options.NoCalibrate = False,
    force: options.Force = False,
    model_error: options.ModelError = None,
    model: options.ModelName = "auto",
    intrinsics: given.Intrinsics = None,
    fov: given.FieldOfView = None,
    focal_from_exif: given.FromExif = False,
    estimator: options.EstimatorName = "magsac++",
    method: options.MethodName = "core+",
    threshold_px: options.PairThreshold = 3.0,
    max_side: options.MaxSide = None,
    refine: options.Refinement = None,
    device: options.Device = None,
    weights: options.WeightsFile = None,
    seed: options.Seed = 0,
    output: Outputs = None,
    picture: Annotated[
        Path | None,
        typer.Option(help="Draw matches and overlay (PNG).", metavar="FILE"),
    ] = None,
    report: options.Report = None,
    strict: Strict = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Match two images: an expected error for each match, and the model between them.

    By default the matches decide which model is fitted: a homography if they show one
    plane or a camera that only turned, otherwise a fundamental matrix, or the camera's
    motion if intrinsics are given. Images may have any size and be colour or grey; EXIF
    rotation is applied.

    Exit codes: 3 if there is no model, or chance alone explains it; with --strict also
    4, if the model is weak. The sentence that is printed says why.
    """
    from semisure.estimators import RansacSettings
    from semisure.io.images import read_image
    from semisure.matchers import load_matcher, refined_name
    from semisure.pairs.estimation import match_pair
    from semisure.pairs.models import MODELS
    from semisure.refit.weights import REFIT_METHODS
    from semisure.report import documents
    from semisure.types import as_choice

    check_outputs(
        output,
        inputs=(image0, image1, calibration, weights),
        report=report,
        picture=picture,
    )
    wanted = as_choice("model", model, MODELS)
    given.check_given(model, intrinsics, fov, focal_from_exif)
    images = read_image(image0), read_image(image1)
    sizes = _size(images[0]), _size(images[1])
    K0, K1 = given.cameras(intrinsics, fov, focal_from_exif, (image0, image1), sizes)
    matcher = refined_name(matcher, refine)
    law = None
    if calibration is not None:  # looked at before weights are fetched
        law = options.calibration_of(calibration, matcher, force=force, quiet=quiet)
    run_matcher = load_matcher(
        matcher, max_side=max_side, device=device, weights=weights, refine=refine
    )
    with stages(quiet or as_json) as begin:
        if law is None:
            law = options.own_calibration(
                run_matcher, photos, not no_calibrate, quiet, begin
            )
        begin("Matching")
        result = match_pair(
            *images,
            run_matcher,
            options.with_model_error(law, model_error),
            model=wanted,
            estimator=estimator,
            method=as_choice("method", method, REFIT_METHODS),
            settings=RansacSettings(threshold_px=threshold_px, seed=seed),
            K0=K0,
            K1=K1,
        )
        begin("Writing")
        for path in output or []:
            documents.write_result(path, result)
        if picture is not None:
            from semisure.report.pair import write_picture

            write_picture(picture, images, result)
        if report is not None:
            from semisure.report.pair import write_pair_page

            settings = {
                "matcher": matcher,
                "calibration": calibration or (None if law.on_first_use else matcher),
                "photos": photos,
                "force": force or None,
                "model_error": model_error,
                "model": model,
                "intrinsics": intrinsics,
                "fov": fov,
                "focal_from_exif": focal_from_exif or None,
                "estimator": estimator,
                "method": method,
                "threshold_px": threshold_px,
                "max_side": max_side,
                "refine": refine,
                "device": device,
                "weights": weights,
                "seed": seed,
            }
            write_pair_page(
                report, images, result, files=(image0, image1), settings=settings
            )
    print_result(result, as_json, quiet, strict=strict)


def _size(image: Image) -> tuple[int, int]:
    return image.shape[1], image.shape[0]
