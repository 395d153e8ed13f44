"""`semisure match` and `semisure refit`: the model of one pair of images."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semisure.cli import options
from semisure.cli.config import settings_of, taken
from semisure.cli.progress import stages
from semisure.cli.root import app

if TYPE_CHECKING:
    from semisure.pairs.result import PairResult

Outputs = Annotated[
    list[Path] | None,
    typer.Option(
        "-o",
        "--output",
        help="JSON, NPZ, CSV or PNG, by its suffix; may be repeated.",
        metavar="FILE",
    ),
]


@app.command(
    epilog="Example: `semisure match a.jpg b.jpg --report page.html -o matches.csv`; "
    "with a network: `semisure match a.jpg b.jpg --matcher xfeat-star --json`; the "
    "camera's motion: `semisure match a.jpg b.jpg --model essential --fov 65`"
)
def match(
    image0: Annotated[Path, typer.Argument(help="First image.", metavar="IMAGE0")],
    image1: Annotated[Path, typer.Argument(help="Second image.", metavar="IMAGE1")],
    matcher: options.MatcherName = None,
    calibration: options.CalibrationName = None,
    model: options.ModelName = None,
    intrinsics: options.Intrinsics = None,
    fov: options.FieldOfView = None,
    estimator: options.EstimatorName = None,
    output: Outputs = None,
    report: options.Report = None,
    device: options.Device = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Match two images: an expected error for each match, and the model between them.

    By default the matches decide which model is fitted: a homography if they show one
    plane or a camera that only turned, otherwise a fundamental matrix, or the camera's
    motion if intrinsics are given. Images may have any size and be colour or grey; EXIF
    rotation is applied. Everything else that `semisure.match` takes can be set in a
    file for --config.

    Exit code 3: there is no model, or chance alone explains it.
    """
    from semisure.one_call import match as run

    _check_outputs(
        output, report, inputs=(image0, image1, calibration, config), suffixes=(".png",)
    )
    settings = settings_of(
        config,
        {
            "matcher": matcher,
            "calibration": calibration,
            "model": model,
            **_cameras(intrinsics),
            "fov": fov,
            "estimator": estimator,
            "device": device,
        },
        run,
    )
    with stages(quiet or as_json) as begin:
        result = run(image0, image1, **settings, begin=begin)
        begin("Writing")
        _write(output, result)
        if report is not None:
            from semisure.report.pair import write_pair_page

            assert result.images is not None  # they were matched just now
            files = image0, image1
            write_pair_page(
                report, result.images, result, files=files, settings=settings
            )
    if not quiet:
        options.warn(result.calibration.caution)
    _print(result, as_json, quiet)


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
    model: options.ModelName = None,
    intrinsics: options.Intrinsics = None,
    estimator: options.EstimatorName = None,
    initial: Annotated[
        Path | None,
        typer.Option(
            help="Start from the homography in this 3 × 3 text file, or with --model "
            "fundamental from that matrix, instead of an estimator.",
            metavar="FILE",
        ),
    ] = None,
    method: Annotated[
        str | None,
        options.one_of(
            options.METHODS,
            "Refit method: core+ (ours, the default), core (the paper's) or one it is "
            "compared with",
            "-m",
            "--method",
        ),
    ] = None,
    output: Outputs = None,
    size: options.Size = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Estimate a model from matches, then refit it with calibrated weights.

    Exit code 3: there is no model, or chance alone explains it.
    """
    from semisure.datasets.homographies import read_homography
    from semisure.estimators import RansacSettings
    from semisure.io.files import load_calibration, load_matches
    from semisure.io.intrinsics import intrinsics_of
    from semisure.pairs.estimation import refit_matches

    _check_outputs(output, None, inputs=(file, calibration, initial, config))
    given = {"model": model, "estimator": estimator, "method": method}
    settings = settings_of(config, given, refit_matches, RansacSettings)
    matches, law = (
        load_matches(file, size=options.parse_size(size)),
        load_calibration(calibration),
    )
    cameras = {
        name: intrinsics_of(matches.source_size, text, name=name)
        for name, text in _cameras(intrinsics).items()
    }
    start = {} if initial is None else {"initial": read_homography(initial)}
    result = refit_matches(
        matches,
        law,
        settings=RansacSettings(**taken(settings, RansacSettings)),
        **{**taken(settings, refit_matches), **cameras, **start},
    )
    _write(output, result)
    if not quiet:
        options.warn(law.caution)
    _print(result, as_json, quiet)


refit.__doc__ = f"{refit.__doc__}{options.FILES_HELP}"
app.command(
    epilog="Example: `semisure refit pair.npz -c theta.json -o better.json`; from a "
    "homography of your own: `semisure refit pair.csv --size 640x480 -c daisy "
    "--initial H.txt --json`"
)(refit)


def _cameras(intrinsics: list[str] | None) -> dict[str, str]:
    if not intrinsics:
        return {}
    if len(intrinsics) > 2:
        raise typer.BadParameter("--intrinsics can be given once or twice")
    return {"K0": intrinsics[0], "K1": intrinsics[-1]}


def _check_outputs(
    outputs: list[Path] | None,
    report: Path | None,
    *,
    inputs: Sequence[str | Path | None],
    suffixes: tuple[str, ...] = (),
) -> None:
    """Raise before the work starts if what it makes could not be written."""
    from semisure.io.atomic import check_not_inputs, check_output
    from semisure.report.documents import RESULT_SUFFIXES

    for path in outputs or []:
        check_output(path, (*RESULT_SUFFIXES, *suffixes))
    wanted = [*(outputs or []), *options.check_page(report)]
    check_not_inputs(wanted, [Path(path) for path in inputs if path is not None])


def _write(outputs: list[Path] | None, result: PairResult) -> None:
    from semisure.report.documents import write_result

    for path in outputs or []:
        if path.suffix != ".png":
            write_result(path, result)
            continue
        from semisure.report.pair import write_picture

        assert result.images is not None  # or the suffix was refused
        write_picture(path, result.images, result)


def _print(result: PairResult, as_json: bool, quiet: bool) -> None:
    """Print the result; exit with 3 if there is no model, or only a chance one."""
    if as_json:
        from semisure.report.documents import document

        typer.echo(json.dumps(document(result), indent=2, allow_nan=False))
    elif not quiet:
        typer.echo(result.summary())
        if result.related:
            typer.echo(_described(result))
    if not result.related:
        raise typer.Exit(options.NOT_ALL)


def _described(result: PairResult) -> str:
    """The model's numbers: a matrix, or a motion with its standard errors."""
    if result.motion is not None:
        return result.motion.describe()
    assert result.model is not None  # or the images were not related
    return str(result.model)
