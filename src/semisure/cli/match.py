"""`semisure match` and `semisure refit`: matches and model of one image pair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semisure.cli import intrinsics as given
from semisure.cli import options
from semisure.cli.app import app
from semisure.cli.progress import stages

if TYPE_CHECKING:
    from semisure.io.images import Image
    from semisure.pipeline import PairResult
    from semisure.types import Matrix3, Pose

NO_MODEL = 3  # exit code

Outputs = Annotated[
    list[Path] | None,
    typer.Option(
        "-o", "--output", help="JSON, NPZ or CSV, by its suffix; may be repeated."
    ),
]


@app.command(
    epilog="Example: `semisure match a.jpg b.jpg --report page.html -o matches.csv`; "
    "with a network: `semisure match a.jpg b.jpg --matcher xfeat-star --json`; the "
    "camera's motion: `semisure match a.jpg b.jpg --model essential --fov 65`"
)
def match(
    image0: Annotated[Path, typer.Argument(help="First image.")],
    image1: Annotated[Path, typer.Argument(help="Second image.")],
    matcher: options.MatcherName = "daisy",
    calibration: options.CalibrationName = None,
    model: options.ModelName = "auto",
    intrinsics: given.Intrinsics = None,
    fov: given.FieldOfView = None,
    focal_from_exif: given.FromExif = False,
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
    """Match two images: an expected error for each match, and a refitted model.

    The model is found out: a homography where one plane, or a camera that only turned,
    explains the matches, otherwise a fundamental matrix, or with intrinsics the
    camera's motion. Images may have any size and be colour or grey; EXIF rotation is
    applied. Exit code 3: no model, or one that chance explains.
    """
    from semisure.estimators import RansacSettings
    from semisure.io.files import load_calibration
    from semisure.io.images import read_image
    from semisure.matchers import check_name, load_matcher
    from semisure.pipeline import MODELS, match_pair
    from semisure.refit import REFIT_METHODS
    from semisure.report import documents
    from semisure.types import as_choice

    wanted = as_choice("model", model, MODELS)
    given.check_given(model, intrinsics, fov, focal_from_exif)
    images = read_image(image0), read_image(image1)
    sizes = _size(images[0]), _size(images[1])
    K0, K1 = given.cameras(intrinsics, fov, focal_from_exif, (image0, image1), sizes)
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
            _draw(picture, images, result)
        if report is not None:
            from semisure.report.pair import write_pair_page

            settings = {
                "matcher": matcher,
                "calibration": calibration or matcher,
                "model": model,
                "intrinsics": intrinsics,
                "fov": fov,
                "focal_from_exif": focal_from_exif or None,
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


def _size(image: Image) -> tuple[int, int]:
    return image.shape[1], image.shape[0]


def _print(result: PairResult, as_json: bool, quiet: bool) -> None:
    """Print the result; exit with 3 if there is no model, or only a chance one."""
    from semisure.report import documents

    if as_json:
        typer.echo(json.dumps(documents.document(result), indent=2, allow_nan=False))
    elif not quiet:
        typer.echo(result.summary())
        if result.related:
            typer.echo(_described(result))
    if not result.related:
        raise typer.Exit(NO_MODEL)


def _described(result: PairResult) -> str:
    """The model's numbers: a matrix, or a motion with its standard errors."""
    import numpy as np

    if result.P_01 is not None:
        return _motion(result.P_01, result.pose_std_deg)
    model = result.refit.model
    assert model is not None  # or the images were not related
    return np.array2string(model, precision=8, suppress_small=False)


def _motion(P_01: Pose, std_deg: tuple[float, float] | None) -> str:
    import numpy as np

    from semisure.geometry.rotations import rotation_vector

    vector = rotation_vector(P_01[:, :3])
    angle = float(np.linalg.norm(vector))
    axis = vector / angle if angle > 0 else np.array([0.0, 0.0, 1.0])
    signs = ("", "") if std_deg is None else tuple(f" ± {v:.2g}°" for v in std_deg)
    turn, way = (", ".join(f"{v:.4f}" for v in row) for row in (axis, P_01[:, 3]))
    return (
        f"rotation     {np.degrees(angle):.3f}°{signs[0]} about ({turn})\n"
        f"translation  along ({way}){signs[1]}"
    )


def _draw(path: Path, images: tuple[Image, Image], result: PairResult) -> None:
    from semisure.io.atomic import write_atomically
    from semisure.report.pair import picture_of
    from semisure.report.plots import png

    figure = picture_of(images, result)
    write_atomically(path, lambda file: file.write(png(figure)))


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
    threshold_px: options.Threshold = 3.0,
    seed: options.Seed = 0,
    output: Outputs = None,
    size: options.Size = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Estimate a model from matches, then refit it with calibrated weights.

    Exit code 3: no model, or one that chance explains.
    """
    from semisure.estimators import RansacSettings
    from semisure.io.files import load_calibration, load_matches
    from semisure.pipeline import MODELS, refit_matches
    from semisure.refit import REFIT_METHODS
    from semisure.report import documents
    from semisure.types import as_choice

    given.check_given(model, intrinsics, None, exif=False)
    cameras = [given.parse(text) for text in intrinsics or []]
    result = refit_matches(
        load_matches(file, size=options.parse_size(size)),
        load_calibration(calibration),
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
    _print(result, as_json, quiet)


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
