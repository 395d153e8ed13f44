"""The options that several commands share, and the completion of their values."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from semisure.types import Calibration

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


def starting_with(incomplete: str, names: Iterable[str]) -> list[str]:
    """The names that complete what was typed."""
    return [name for name in names if name.startswith(incomplete)]


def complete_matchers(incomplete: str) -> list[str]:
    """Names of matchers."""
    from semisure.matchers import MATCHER_NAMES

    return starting_with(incomplete, MATCHER_NAMES)


def _estimators(incomplete: str) -> list[str]:
    from semisure.estimators import ESTIMATOR_NAMES

    return starting_with(incomplete, ESTIMATOR_NAMES)


def _methods(incomplete: str) -> list[str]:
    from semisure.refit import REFIT_METHODS

    return starting_with(incomplete, REFIT_METHODS)


def _models(incomplete: str) -> list[str]:
    from semisure.pipeline import MODELS

    return starting_with(incomplete, MODELS)


def _refinements(incomplete: str) -> list[str]:
    from semisure.matchers import REFINEMENTS

    return starting_with(incomplete, REFINEMENTS)


def _devices(incomplete: str) -> list[str]:
    return starting_with(incomplete, ("cpu", "cuda", "mps"))


def complete_optimisers(incomplete: str) -> list[str]:
    """Names of optimisers."""
    from semisure.calibration.fit_law import OPTIMISERS

    return starting_with(incomplete, OPTIMISERS)


def complete_calibrations(incomplete: str) -> list[str]:
    """Shipped calibrations, then files and folders as the shell would offer them."""
    from glob import escape, glob

    from semisure.io.files import SHIPPED

    shipped = sorted(path.stem for path in SHIPPED.glob("*.json"))
    paths = sorted(glob(f"{escape(incomplete)}*"))  # noqa: PTH207
    folders = [f"{path}/" for path in paths if Path(path).is_dir()]
    files = [path for path in paths if path.endswith(".json")]
    return [*starting_with(incomplete, shipped), *folders, *files]


Size = Annotated[
    str | None,
    typer.Option(help="Image size, for files that do not hold it.", metavar="WxH"),
]
MatcherName = Annotated[
    str,
    typer.Option(
        help="Name of the matcher; see `semisure matchers`.",
        autocompletion=complete_matchers,
    ),
]
CalibrationName = Annotated[
    str | None,
    typer.Option(
        "-c",
        "--calibration",
        help="Calibration file, or the name of a shipped one; default: the matcher's.",
        autocompletion=complete_calibrations,
    ),
]
EstimatorName = Annotated[
    str,
    typer.Option(
        "-e",
        "--estimator",
        help="Robust estimator of the initial model.",
        autocompletion=_estimators,
    ),
]
MethodName = Annotated[
    str,
    typer.Option(
        "-m",
        "--method",
        help="Refit method: core+ (ours) or core (the paper's).",
        autocompletion=_methods,
    ),
]
ModelName = Annotated[
    str,
    typer.Option(
        "--model",
        help="auto (the matches decide), homography, fundamental, or essential.",
        autocompletion=_models,
    ),
]
Threshold = Annotated[float, typer.Option("--threshold", help="Inlier threshold, px.")]
PairThreshold = Annotated[
    float,
    typer.Option(
        "--threshold", help="Inlier threshold, px; a third of it for epipolar lines."
    ),
]
MaxSide = Annotated[int | None, typer.Option(help="Reduce larger images to this, px.")]
Refinement = Annotated[
    str | None,
    typer.Option(
        help="Refine matches on the full-size photos: full or none. Default: full for "
        "daisy where photos are larger than --max-side, none for networks.",
        metavar="full|none",
        autocompletion=_refinements,
    ),
]
Seed = Annotated[int, typer.Option(help="Random seed.")]
Device = Annotated[
    str | None,
    typer.Option(
        help="Device for networks: cpu, cuda or mps.",
        metavar="DEVICE",
        autocompletion=_devices,
    ),
]
WeightsFile = Annotated[
    Path | None, typer.Option(help="Weights file for networks; default: the official.")
]
Report = Annotated[Path | None, typer.Option(help="Write an HTML report, one file.")]


Output = Annotated[Path, typer.Option("-o", "--output", help="Calibration (JSON).")]
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
        help="Least error of the model itself, by lens or relief, as a share of the "
        "image's diagonal; 0 for rendered images. Default: that of photographs.",
        metavar="SHARE",
    ),
]
Force = Annotated[
    bool, typer.Option("--force", help="Accept the calibration of another matcher.")
]


def calibration_of(
    name: str,
    matcher: str | None = None,
    *,
    force: bool = False,
    model_error: float | None = None,
    quiet: bool = False,
) -> Calibration:
    """The calibration called `name`; refused where it is of another matcher.

    Without a `matcher`, nobody knows where the matches came from.
    """
    from semisure.errors import InputError
    from semisure.io.files import load_calibration

    calibration = load_calibration(name)
    caution = calibration.caution
    if matcher is not None and calibration.matcher not in (matcher, "unknown"):
        foreign = (
            f"The calibration {name} is of {calibration.matcher}, not of {matcher}, so "
            "that its errors mean nothing here."
        )
        if not force:
            raise InputError(
                f"{foreign} Leave out -c, calibrate {matcher}, or give --force."
            )
        caution = foreign
    if not quiet:
        warn(caution)
    if model_error is None:
        return calibration
    return replace(calibration, model_error=model_error)


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
