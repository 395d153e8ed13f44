"""The Typer app, and what its commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from semisure.__about__ import __version__

app = typer.Typer(
    name="semisure",
    help="Calibrated pixel errors for semi-dense matches, and a better homography.",
    epilog="Example: `semisure match a.jpg b.jpg --report page.html`; each command has "
    "its own, see `semisure match --help`.",
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

Size = Annotated[
    str | None,
    typer.Option(help="Image size WxH, for files that do not hold it.", metavar="WxH"),
]
EstimatorName = Annotated[
    str, typer.Option("-e", "--estimator", help="Robust estimator for the start.")
]
MethodName = Annotated[
    str, typer.Option("-m", "--method", help="core+ (ours) or core (the paper's).")
]
Threshold = Annotated[float, typer.Option("--threshold", help="Of inliers, px.")]
Seed = Annotated[int, typer.Option(help="Of whatever is random.")]
Device = Annotated[
    str | None, typer.Option(help="For networks: cpu, cuda, mps.", metavar="DEVICE")
]
WeightsFile = Annotated[
    Path | None, typer.Option(help="For networks: a file, not the official weights.")
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


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
def progress(what: str, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error; the caller is told how to advance it: (done, total)."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=quiet) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def stages() -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """Bars of several stages, each begun by its name, with the time still to go."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:

        def begin(what: str) -> Callable[[int, int], None]:
            task = bar.add_task(what, total=None)
            return lambda done, total: bar.update(task, completed=done, total=total)

        yield begin
