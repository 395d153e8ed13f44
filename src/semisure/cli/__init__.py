"""The command line: parse, call one function, print."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Annotated

import typer

from semisure.__about__ import __version__
from semisure.errors import SemisureError

# The module of each command; only that of the given command is imported.
_HOME = {
    "bench": "bench",
    "calibrate": "calibrate",
    "demo": "demo",
    "export": "sfm",
    "fetch": "matchers",
    "fit": "fit",
    "localize": "localize",
    "match": "pair",
    "match-pairs": "match_pairs",
    "matchers": "matchers",
    "reconstruct": "sfm",
    "refit": "pair",
    "serve": "serve",
}
INTERRUPTED = 130  # exit code, the shells' own for Ctrl-C

root = typer.Typer(
    name="semisure",
    help="Calibrated pixel errors for semi-dense matches, and a better homography.",
    epilog="Example: `semisure match a.jpg b.jpg --report page.html`; each command has "
    "its own, see `semisure match --help`. Exit codes: 0 done; 1 an error, explained "
    "in one sentence; 2 wrong usage; 3 no model, queries without a pose, or pairs that "
    "failed; 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
command = root.command


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"semisure {__version__}")
        raise typer.Exit


@root.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    pass


def __getattr__(name: str) -> typer.Typer:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _app_with(_HOME)


def _app_with(commands: Iterable[str]) -> typer.Typer:
    """The app with these commands, which register when they are imported."""
    for name in commands:
        import_module(f"{__name__}.{_HOME[name]}")
    return root


def main() -> None:
    """Run the command; a user's mistake is one sentence and exit code 1."""
    # Only flags precede the command. Without a known command, all are imported.
    name = next((word for word in sys.argv[1:] if not word.startswith("-")), None)
    app = _app_with([name] if name in _HOME else _HOME)
    try:
        app()
    except SystemExit as leaving:
        if leaving.code == INTERRUPTED:  # Typer has caught the Ctrl-C
            _print_error(
                "interrupted; files already written are complete; run a long command "
                "again to continue where it stopped."
            )
        raise
    except SemisureError as error:
        _print_error(str(error))
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        at = "" if error.filename is None else f"{error.filename}: "
        _print_error(f"{at}{error.strerror or error}.")
        sys.exit(1)


def _print_error(sentence: str) -> None:
    print(f"semisure: {sentence}", file=sys.stderr)  # noqa: T201
