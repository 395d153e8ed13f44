"""The command line: parse, call one function, print."""

from __future__ import annotations

import sys
from importlib import import_module

from semisure.errors import SemisureError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from semisure.cli.root import App

    app: App

# The module of each command, in the order of the help. A command loads its own alone.
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

__all__ = ["app", "main"]


def __getattr__(name: str) -> App:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _app_with(_HOME)


def _app_with(commands: Iterable[str]) -> App:
    """The app, to which some commands have added themselves."""
    for command in commands:
        import_module(f"{__name__}.{_HOME[command]}")
    return import_module(f"{__name__}.root").app


def main() -> None:
    """Run the command; a user's mistake is one sentence and exit code 1."""
    # Words before the command are flags; all commands are there for help and mistakes.
    wanted = next((word for word in sys.argv[1:] if not word.startswith("-")), None)
    app = _app_with([wanted] if wanted in _HOME else _HOME)
    try:
        app()
    except SystemExit as leaving:
        if leaving.code == INTERRUPTED:  # Typer has caught the Ctrl-C
            print(  # noqa: T201
                "semisure: interrupted; files already written are whole; long commands "
                "continue where they stopped when they are run again.",
                file=sys.stderr,
            )
        raise
    except SemisureError as error:
        print(f"semisure: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:
        reason = error.strerror or str(error)
        at = "" if error.filename is None else f"{error.filename}: "
        print(f"semisure: {at}{reason}.", file=sys.stderr)  # noqa: T201
        sys.exit(1)
