"""`semisure match` and `semisure refit`: the model of one pair of images."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semisure.cli import command, options
from semisure.cli.config import pick, settings_of
from semisure.cli.options import option
from semisure.cli.progress import stages

if TYPE_CHECKING:
    from semisure.pairs.result import PairResult

SUFFIXES = (".json", ".npz", ".csv", ".png")  # of saved results
Outputs = Annotated[
    list[Path] | None,
    option(
        "JSON, NPZ, CSV or PNG, by its suffix; may be repeated.",
        *("-o", "--output"),
        metavar="FILE",
    ),
]
ModelName = Annotated[
    options.Model | None,
    option(
        "Model of the pair: homography, fundamental, essential or, by default, auto: "
        "the matches decide.",
        metavar="NAME",
    ),
]


@command(
    epilog="Example: `semisure match a.jpg b.jpg --report page.html -o matches.csv`; "
    "with a network: `semisure match a.jpg b.jpg --matcher xfeat-star --json`; the "
    "camera's motion: `semisure match a.jpg b.jpg --model essential --fov 65`"
)
def match(
    image0: Annotated[Path, typer.Argument(help="First image.", metavar="IMAGE0")],
    image1: Annotated[Path, typer.Argument(help="Second image.", metavar="IMAGE1")],
    matcher: options.MatcherName = None,
    calibration: options.CalibrationName = None,
    model: ModelName = None,
    intrinsics: options.Intrinsics = None,
    fov: Annotated[
        float | None,
        option("Field of view in degrees (longer side), instead of --intrinsics."),
    ] = None,
    estimator: options.EstimatorName = None,
    output: Outputs = None,
    report: options.Report = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Match two images: an expected error for each match, and the model between them.

    By default the matches decide which model is fitted: a homography if they show one
    plane or a camera that only rotates, otherwise a fundamental matrix, or the camera's
    motion if intrinsics are given. Images may have any size and be colour or grey; EXIF
    rotation is applied. A file for --config may set any argument of `semisure.match`.

    Exit code 3: there is no model, or chance alone explains it.
    """
    arguments = {**locals(), **_cameras(intrinsics)}
    from semisure.one_call import match as run

    options.check_outputs(
        *((path, SUFFIXES) for path in output or ()),
        (report, options.PAGE),
        inputs=(image0, image1, calibration, config),
    )
    settings = settings_of(arguments, run)
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
    _print(result, as_json, quiet)


@command(
    epilog="Example: `semisure refit pair.npz -c theta.json -o better.json`; from a "
    "homography of your own: `semisure refit pair.csv --size 640x480 -c daisy "
    f"--initial H.txt --json`{options.FILES_HELP}"
)
def refit(
    file: Annotated[Path, typer.Argument(help="Matches of one image pair.")],
    calibration: Annotated[
        str, options.calibration("Calibration file, or the name of a shipped one.")
    ],
    model: ModelName = None,
    intrinsics: options.Intrinsics = None,
    estimator: options.EstimatorName = None,
    initial: Annotated[
        Path | None,
        option(
            "Start from the homography in this 3 × 3 text file, or with --model "
            "fundamental from that matrix, instead of an estimator."
        ),
    ] = None,
    output: Outputs = None,
    size: options.Size = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
    config: options.Config = None,
) -> None:
    """Estimate a model from matches, then refit it with calibrated weights.

    A file for --config may set the method, and the threshold_px, max_iterations,
    confidence and seed of the estimator. Exit code 3: there is no model, or chance
    alone explains it.
    """
    arguments = {**locals(), **_cameras(intrinsics)}
    from semisure.datasets.homographies import read_homography
    from semisure.estimators import RansacSettings
    from semisure.io.files import load_calibration, load_matches
    from semisure.io.intrinsics import intrinsics_of
    from semisure.pairs.estimation import refit_matches

    options.check_outputs(
        *((path, SUFFIXES) for path in output or ()),
        inputs=(file, calibration, initial, config),
    )
    settings = settings_of(arguments, refit_matches, RansacSettings)
    matches = load_matches(file, size=size)
    for name in ("K0", "K1"):
        K = settings.get(name)
        settings[name] = intrinsics_of(matches.source_size, K, name=name)
    if initial is not None:
        settings["initial"] = read_homography(initial)
    result = refit_matches(
        matches,
        load_calibration(calibration),
        settings=RansacSettings(**pick(settings, RansacSettings)),
        **pick(settings, refit_matches),
    )
    _write(output, result)
    _print(result, as_json, quiet)


def _cameras(intrinsics: list[str] | None) -> dict[str, str]:
    if not intrinsics:
        return {}
    if len(intrinsics) > 2:
        raise typer.BadParameter("--intrinsics can be given once or twice")
    return {"K0": intrinsics[0], "K1": intrinsics[-1]}


def _write(outputs: list[Path] | None, result: PairResult) -> None:
    for path in outputs or ():
        from semisure.report.documents import write_result

        write_result(path, result)


def _print(result: PairResult, as_json: bool, quiet: bool) -> None:
    """Print the result; exit with 3 if there is no model, or only a chance one."""
    if not quiet:
        options.warn(result.calibration.caution)
    if as_json:
        from semisure.report.documents import document

        typer.echo(json.dumps(document(result), indent=2, allow_nan=False))
    elif not quiet:
        typer.echo(result.summary())
        if result.related:
            motion = result.motion
            typer.echo(str(result.model) if motion is None else motion.describe())
    if not result.related:
        raise typer.Exit(options.NOT_ALL)
