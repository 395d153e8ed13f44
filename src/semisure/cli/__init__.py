"""The command line: parse, call one function, print."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from semisure.__about__ import __version__
from semisure.errors import SemisureError

INTERRUPTED = 130  # exit code, the shells' own for Ctrl-C
Function = TypeVar("Function", bound=Callable[..., Any])


class _ShownFlags:
    """Flags shown as flags, not as options that take a value."""

    def get_params(self, ctx: Any) -> Any:
        parameters = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False) and parameter.metavar is None:
                parameter.metavar = ""
        return parameters


class _Command(_ShownFlags, TyperCommand):
    """One of ours."""


class _Group(_ShownFlags, TyperGroup):
    """All of them, by name."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(self.commands)


app = typer.Typer(
    cls=_Group,
    name="semisure",
    help="Calibrated pixel errors for semi-dense matches, and a better homography.",
    epilog="Example: `semisure match a.jpg b.jpg --report page.html`; each command has "
    "its own, see `semisure match --help`. Exit codes: 0 done; 1 an error, explained "
    "in one sentence; 2 wrong usage; 3 no model, queries without a pose, or pairs that "
    "failed; 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def command(*names: str, epilog: str) -> Callable[[Function], Function]:
    """Make a function a command, whose help ends with these examples."""
    return app.command(*names, cls=_Command, epilog=epilog)


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


def main() -> None:
    """Run the command; a user's mistake is one sentence and exit code 1."""
    try:
        app()
    except SystemExit as leaving:
        if leaving.code == INTERRUPTED:  # Typer has caught the Ctrl-C
            _tell(
                "interrupted; files already written are whole; long commands continue "
                "where they stopped when they are run again."
            )
        raise
    except SemisureError as error:
        _tell(str(error))
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        at = "" if error.filename is None else f"{error.filename}: "
        _tell(f"{at}{error.strerror or error}.")
        sys.exit(1)


def _tell(sentence: str) -> None:
    print(f"semisure: {sentence}", file=sys.stderr)  # noqa: T201


# Each adds its commands to the app, and loads what they need when they run.
from semisure.cli import (
    bench,
    calibrate,
    demo,
    fit,
    localize,
    match_pairs,
    matchers,
    pair,
    serve,
    sfm,
)
