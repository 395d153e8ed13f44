"""The options that several commands share, and the completion of their values."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semisure.cli import choices

if TYPE_CHECKING:
    from semisure.types import Calibration, Matcher
    from semisure.types.display import Begin

FILES_HELP = """
A file of matches is an NPZ with the arrays **source**, **target**, **fine_std**,
**coarse_std** (n × 2, px), **confidence** (n), **source_size**, **target_size**
(width, height) and, where needed, **side** (0 or 1: the image that was refined; else
1), **fine_window** (px; else 8) and **cell** (n × 2 × 3, px: the coarse cell that was
chosen), or a CSV with the columns x0, y0, x1, y1, confidence, fine_std_x, fine_std_y,
coarse_std_x, coarse_std_y [, width0, height0, width1, height1, side, fine_window,
cell_xx, cell_xy, cell_x, cell_yx, cell_yy, cell_y]. Matches are raw, as the matcher
gave them.
"""


def complete_calibrations(incomplete: str) -> list[str]:
    """Shipped calibrations, then files and folders as the shell would offer them."""
    from glob import escape, glob

    from semisure.io.files import SHIPPED

    shipped = sorted(path.stem for path in SHIPPED.glob("*.json"))
    paths = sorted(glob(f"{escape(incomplete)}*"))  # noqa: PTH207
    folders = [f"{path}/" for path in paths if Path(path).is_dir()]
    files = [path for path in paths if path.endswith(".json")]
    return [*choices.completing(shipped)(incomplete), *folders, *files]


Size = Annotated[
    str | None,
    typer.Option(help="Image size, for files that do not hold it.", metavar="WxH"),
]
MatcherName = Annotated[
    str,
    choices.one_of(choices.MATCHERS, "Matcher", "--matcher", also=choices.REFINED),
]
CalibrationName = Annotated[
    str | None,
    typer.Option(
        "-c",
        "--calibration",
        help="Calibration file, or the name of a shipped one; default: the matcher's "
        "own, made on first use where none is shipped.",
        metavar="FILE|NAME",
        autocompletion=complete_calibrations,
    ),
]
EstimatorName = Annotated[
    str,
    choices.one_of(
        choices.ESTIMATORS, "Robust estimator of the initial model", "-e", "--estimator"
    ),
]
PoseEstimatorName = Annotated[
    str,
    choices.one_of(
        choices.POSE_ESTIMATORS,
        "Robust estimator of the initial pose",
        "-e",
        "--estimator",
    ),
]
MethodName = Annotated[
    str,
    choices.one_of(
        choices.METHODS,
        "Refit method, core+ (ours), core (the paper's) or one it is compared with",
        "-m",
        "--method",
    ),
]
ModelName = Annotated[
    str,
    choices.one_of(
        choices.MODELS, "Model of the pair; with auto the matches decide", "--model"
    ),
]
OptimiserName = Annotated[
    str,
    choices.one_of(choices.OPTIMISERS, "Optimiser, ours or the paper's", "--optimiser"),
]
Threshold = Annotated[
    float,
    typer.Option(
        "--threshold",
        help="Inlier threshold, px.",
        metavar="PX",
        callback=choices.positive,
    ),
]
PairThreshold = Annotated[
    float,
    typer.Option(
        "--threshold",
        help="Inlier threshold, px; a third of it for epipolar lines.",
        metavar="PX",
        callback=choices.positive,
    ),
]
MaxSide = Annotated[
    int | None,
    typer.Option(
        help="Reduce larger images to this, px.",
        metavar="PX",
        callback=choices.positive,
    ),
]
Refinement = Annotated[
    str | None,
    choices.one_of(
        choices.REFINEMENTS,
        "Refine matches on the full-size photos (default: daisy does, where they are "
        "larger than --max-side; networks do not)",
        "--refine",
    ),
]
Seed = Annotated[
    int,
    typer.Option(help="Random seed.", metavar="NUMBER", callback=choices.not_negative),
]
Device = Annotated[
    str | None,
    typer.Option(
        help="Device for networks: cpu, cuda or mps.",
        metavar="DEVICE",
        autocompletion=choices.completing(choices.DEVICES),
    ),
]
WeightsFile = Annotated[
    Path | None,
    typer.Option(
        help="Weights file for networks; default: the official.",
        metavar="FILE",
        resolve_path=True,  # workers of a cluster have other folders
    ),
]
Report = Annotated[
    Path | None, typer.Option(help="Write an HTML report, one file.", metavar="FILE")
]


Output = Annotated[
    Path,
    typer.Option("-o", "--output", help="Calibration (JSON).", metavar="FILE"),
]
Location = Annotated[
    bool, typer.Option("--location", help="Fit a systematic shift too (ours).")
]


def _silence_downloads(wanted: bool) -> bool:
    # Downloads of weights draw a bar of their own, in worker processes too.
    if wanted:
        os.environ["SEMISURE_QUIET"] = "1"
    return wanted


Quiet = Annotated[
    bool,
    typer.Option(
        "-q", "--quiet", help="Print nothing but errors.", callback=_silence_downloads
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print JSON.", callback=_silence_downloads)
]


ModelError = Annotated[
    float | None,
    typer.Option(
        help="Smallest error to assume of the model itself, because of lens or relief, "
        "as a share of the image's diagonal; 0 for rendered images. Default: a value "
        "for photographs.",
        metavar="SHARE",
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Accept the calibration of another matcher.")
]


Photos = Annotated[
    Path | None,
    typer.Option(
        help="Photos to calibrate a matcher on that has no calibration yet; default: "
        "those of scikit-image.",
        metavar="FOLDER",
    ),
]
NoCalibrate = Annotated[
    bool,
    typer.Option(
        "--no-calibrate", help="Do not calibrate a matcher that has no calibration."
    ),
]


def calibration_of(
    name: str,
    matcher: str | None = None,
    *,
    force: bool = False,
    quiet: bool = False,
) -> Calibration:
    """The calibration called `name`; refused where it is of another matcher.

    Without a `matcher`, nobody knows where the matches came from.
    """
    from semisure.calibrate.choice import foreign_sentence
    from semisure.errors import InputError
    from semisure.io.files import load_calibration

    calibration = load_calibration(name)
    foreign = None if matcher is None else foreign_sentence(name, calibration, matcher)
    if foreign is not None and not force:
        raise InputError(
            f"{foreign} Leave out -c, calibrate {matcher}, or give --force."
        )
    if not quiet:
        warn(foreign or calibration.caution)
    return calibration


def own_calibration(
    matcher: Matcher, photos: Path | None, allowed: bool, quiet: bool, begin: Begin
) -> Calibration:
    """The matcher's own calibration: shipped, kept from before, or made now."""
    from semisure.calibrate.choice import FirstUse, calibration_for, shipped_for

    def tell(sentence: str) -> None:
        if not quiet:
            typer.echo(sentence, err=True)

    calibration = shipped_for(matcher)
    if calibration is None:
        first_use = FirstUse(allowed=allowed, photos=photos, tell=tell, begin=begin)
        calibration = calibration_for(matcher, first_use=first_use)
    if not quiet:
        warn(calibration.caution)
        if photos is not None and not calibration.on_first_use:
            warn(
                f"--photos was not used: {calibration.matcher} has a shipped "
                "calibration; `semisure calibrate` makes another."
            )
    return calibration


def with_model_error(calibration: Calibration, share: float | None) -> Calibration:
    """The calibration with the least error of models that was asked for."""
    return calibration if share is None else replace(calibration, model_error=share)


def warn(sentence: str | None) -> None:
    """Print a warning, if there is one, where it does not mix with results."""
    if sentence is not None:
        typer.echo(f"Warning: {sentence}", err=True)


def check_pages(report: Path | None, picture: Path | None) -> list[Path]:
    """The page and the picture that were asked for, if they can be written."""
    from semisure.io.atomic import check_output

    if report is not None:
        check_output(report, (".html", ".htm"))
    if picture is not None:
        check_output(picture, (".png",))
    return [path for path in (report, picture) if path is not None]


def check_calibration_output(
    output: Path, inputs: Sequence[Path], report: Path | None = None, *beside: Path
) -> None:
    """Raise before the work starts if a calibration could not be written."""
    from semisure.io.atomic import check_not_inputs, check_output

    check_output(output, (".json",))
    for path in beside:
        check_output(path)
    pages = check_pages(report, None)
    check_not_inputs([output, *pages, *beside], inputs)


def parse_size(text: str | None) -> tuple[int, int] | None:
    """(width, height) of "640x480"."""
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdigit() and int(part) for part in parts):
        raise typer.BadParameter(f"{text!r} is not WIDTHxHEIGHT, such as 640x480")
    return int(parts[0]), int(parts[1])
