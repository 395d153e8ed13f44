"""The options that several commands share, and the names that their values may have.

The names are repeated here so that help and completion import nothing; a test compares
them with the code.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from semisure.law.fit_law import FitReport

PAGE = (".html", ".htm")  # suffixes
NOT_ALL = 3  # exit code: no model, queries without a pose, pairs that failed

MATCHERS = (
    *("daisy", "xfeat-star", "xfeat-star-raw"),
    *("loftr", "loftr-indoor", "loftr-indoor-new"),
    *("eloftr", "gim-loftr", "comatch", "edm"),
)
ESTIMATORS = ("ransac", "lo-ransac", "prosac", "gc-ransac", "magsac++", "poselib")
Model = Literal["auto", "homography", "fundamental", "essential"]

FILES_HELP = """

A file of matches is an NPZ with the arrays source, target, fine_std, coarse_std (n × 2,
px), confidence (n), source_size, target_size (width, height) and, where needed, side (0
or 1: the image that was refined; else 1), fine_window (px; else 8) and cell (n × 2 × 3,
px: the coarse cell that was chosen), or a CSV with the columns x0, y0, x1, y1,
confidence, fine_std_x, fine_std_y, coarse_std_x, coarse_std_y [, width0, height0,
width1, height1, side, fine_window, cell_xx, cell_xy, cell_x, cell_yx, cell_yy, cell_y].
Matches are raw, as the matcher gave them.
"""


def option(words: str, *flags: str, **more: Any) -> Any:
    """A Typer option whose help is `words`."""
    return typer.Option(*flags, help=words, **more)


def one_of(names: Sequence[str], words: str, *flags: str) -> Any:
    """An option that takes one of `names`; its help is `words` and the names."""
    return option(
        f"{words}: {', '.join(names)}.",
        *flags,
        metavar="NAME",
        autocompletion=completing(names),
    )


def completing(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Shell completion: the names that begin with the typed text."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def _shipped(incomplete: str) -> list[str]:
    """The shipped calibrations; if none fits, the shell completes files."""
    from semisure.io.files import SHIPPED

    return completing(sorted(path.stem for path in SHIPPED.glob("*.json")))(incomplete)


def calibration(words: str) -> Any:
    """An option that takes a calibration."""
    return option(
        words,
        *("-c", "--calibration"),
        metavar="FILE|NAME",
        autocompletion=_shipped,
    )


def size(words: str) -> Any:
    """An option that takes a size such as 640x480."""
    return option(words, metavar="WxH", parser=_size)


def _size(text: str) -> tuple[int, int]:
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdigit() and int(part) for part in parts):
        raise typer.BadParameter(f"{text!r} is not WIDTHxHEIGHT, such as 640x480")
    return int(parts[0]), int(parts[1])


def _no_bars(wanted: bool) -> bool:
    if wanted:  # of downloads, in worker processes too
        os.environ["SEMISURE_QUIET"] = "1"
    return wanted


Config = Annotated[
    Path | None,
    option("TOML file of further settings, which have their names in Python."),
]
MatcherName = Annotated[str | None, one_of(MATCHERS, "Matcher, by default daisy")]
EstimatorName = Annotated[
    str | None,
    one_of(ESTIMATORS, "Robust estimator of the initial model", "-e", "--estimator"),
]
CalibrationName = Annotated[
    str | None,
    calibration(
        "Calibration file, or the name of a shipped one; default: the matcher's own, "
        "made on first use if none is shipped."
    ),
]
Intrinsics = Annotated[
    list[str] | None,
    option(
        "fx,fy,cx,cy in px, or a 3 × 3 text file; twice if the cameras differ.",
        metavar="VALUES|FILE",
    ),
]
Device = Annotated[
    str | None, option("Device for networks: cpu, the default, cuda or mps.")
]
Workers = Annotated[
    int | None, option("Number of processes; 0: run in this process.", min=0)
]
Size = Annotated[Any, size("Image size, if the files do not contain it.")]
Output = Annotated[Path, option("Calibration (JSON).", "-o", "--output")]
OutputFolder = Annotated[Path, option("Folder of results.", "-o", "--output")]
Report = Annotated[Path | None, option("Write an HTML report, one file.")]
AsJson = Annotated[bool, option("Print JSON.", "--json", callback=_no_bars)]
Quiet = Annotated[
    bool, option("Print only errors.", "-q", "--quiet", callback=_no_bars)
]


def warn(sentence: str | None) -> None:
    """Print a warning, if there is one, to standard error."""
    if sentence is not None:
        typer.echo(f"Warning: {sentence}", err=True)


def check_outputs(
    *outputs: tuple[Path | None, Sequence[str]], inputs: Iterable[object] = ()
) -> None:
    """Raise before the work starts if an output could not be written.

    Each output comes with its allowed suffixes.
    """
    from semisure.io.atomic import check_not_inputs, check_output

    targets = [(path, suffixes) for path, suffixes in outputs if path is not None]
    for path, suffixes in targets:
        check_output(path, suffixes)
    read = [Path(str(path)) for path in inputs if path is not None]
    check_not_inputs([path for path, _ in targets], read)


def print_fit(report: FitReport) -> None:
    """Print a table of a fit, and its summary."""
    print_table(report.rows(), "Fit")
    typer.echo(report.summary())


def print_table(rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """Print a table whose first row is its head."""
    from rich.console import Console
    from rich.table import Column, Table

    table = Table(*(Column(head, overflow="fold") for head in rows[0]), title=title)
    for row in rows[1:]:
        table.add_row(*row)
    Console().print(table)
