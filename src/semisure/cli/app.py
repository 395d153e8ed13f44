"""The Typer app, and what its commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from semisure.__about__ import __version__

Tick = Callable[[int, int], None]

app = typer.Typer(
    name="semisure",
    help="Calibrated pixel errors for semi-dense matches, and a better homography.",
    epilog="Example: `semisure match a.jpg b.jpg --report page.html`; each command has "
    "its own, see `semisure match --help`. Exit codes: 0 done; 1 an error, told in one "
    "sentence; 2 wrong usage; 3 no model, or not of all queries; 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

FILES_HELP = """
A file of matches is an NPZ with the arrays **source**, **target**, **fine_std**,
**coarse_std** (n × 2, px), **confidence** (n), **source_size**, **target_size**
(width, height) and, where needed, **side** (0 or 1: the image that was refined), or a
CSV with the columns x0, y0, x1, y1, confidence, fine_std_x, fine_std_y, coarse_std_x,
coarse_std_y [, width0, height0, width1, height1, side].
"""


def complete_matchers(incomplete: str) -> list[str]:
    """Names of matchers."""
    from semisure.matchers import MATCHER_NAMES

    return _beginning(MATCHER_NAMES, incomplete)


def _estimators(incomplete: str) -> list[str]:
    from semisure.estimators import ESTIMATOR_NAMES

    return _beginning(ESTIMATOR_NAMES, incomplete)


def _methods(incomplete: str) -> list[str]:
    from semisure.refit import REFIT_METHODS

    return _beginning(REFIT_METHODS, incomplete)


def _devices(incomplete: str) -> list[str]:
    return _beginning(("cpu", "cuda", "mps"), incomplete)


def complete_calibrations(incomplete: str) -> list[str]:
    """The shipped ones, and files and folders as the shell would offer them."""
    from glob import escape, glob

    from semisure.io.files import SHIPPED

    shipped = sorted(path.stem for path in SHIPPED.glob("*.json"))
    found = sorted(glob(f"{escape(incomplete)}*"))  # noqa: PTH207
    folders = [f"{path}/" for path in found if Path(path).is_dir()]
    files = [path for path in found if path.endswith(".json")]
    return [*_beginning(shipped, incomplete), *folders, *files]


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


Size = Annotated[
    str | None,
    typer.Option(help="Image size WxH, for files that do not hold it.", metavar="WxH"),
]
MatcherName = Annotated[
    str, typer.Option(help="See `semisure matchers`.", autocompletion=complete_matchers)
]
CalibrationName = Annotated[
    str | None,
    typer.Option(
        "-c",
        "--calibration",
        help="File, or the name of a shipped one; default: the matcher's own.",
        autocompletion=complete_calibrations,
    ),
]
EstimatorName = Annotated[
    str,
    typer.Option(
        "-e",
        "--estimator",
        help="Robust estimator for the start.",
        autocompletion=_estimators,
    ),
]
MethodName = Annotated[
    str,
    typer.Option(
        "-m",
        "--method",
        help="core+ (ours) or core (the paper's).",
        autocompletion=_methods,
    ),
]
Threshold = Annotated[float, typer.Option("--threshold", help="Of inliers, px.")]
MaxSide = Annotated[int | None, typer.Option(help="Match at this size at most, px.")]
Seed = Annotated[int, typer.Option(help="Of whatever is random.")]
Device = Annotated[
    str | None,
    typer.Option(
        help="For networks: cpu, cuda, mps.", metavar="DEVICE", autocompletion=_devices
    ),
]
WeightsFile = Annotated[
    Path | None, typer.Option(help="For networks: a file, not the official weights.")
]
Report = Annotated[
    Path | None, typer.Option(help="HTML: all of it on one page, in one file.")
]


def _hush(wanted: bool) -> bool:
    """Told to whatever may draw a bar of its own, in this process and its children."""
    if wanted:
        os.environ["SEMISURE_QUIET"] = "1"
    return wanted


Quiet = Annotated[
    bool,
    typer.Option("-q", "--quiet", help="Print nothing but errors.", callback=_hush),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.", callback=_hush)]


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


def parse_size(text: str | None) -> tuple[int, int] | None:
    """(width, height) of "640x480"."""
    if text is None:
        return None
    parts = text.lower().split("x")
    if len(parts) != 2 or not all(part.isdigit() and int(part) for part in parts):
        raise typer.BadParameter(f"{text!r} is not WIDTHxHEIGHT, such as 640x480")
    return int(parts[0]), int(parts[1])


@contextmanager
def stages(quiet: bool = False) -> Iterator[Callable[[str], Tick]]:
    """Bars on standard error, each begun by its name, with the time still to go.

    What a stage returns is told how far it is: (done, total). A stage that tells
    nothing has a clock, and makes room for the next one.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("left,"),
        TimeElapsedColumn(),
        TextColumn("so far"),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    ) as bar:

        def begin(what: str) -> Tick:
            for earlier in bar.tasks:
                earlier.visible = earlier.total is not None
            task = bar.add_task(what, total=None)
            return lambda done, total: bar.update(task, completed=done, total=total)

        yield begin


@contextmanager
def progress(what: str, quiet: bool = False) -> Iterator[Tick]:
    """The same for a single stage."""
    with stages(quiet) as begin:
        yield begin(what)
