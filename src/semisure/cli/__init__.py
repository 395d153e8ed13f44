"""The command line: parse, call one function, print."""

from __future__ import annotations

import sys

from semisure.cli import (
    bench,
    calibrate,
    demo,
    export,
    fetch,
    fit_law,
    localize,
    match,
    match_pairs,
    matchers,
    reconstruct,
    refit,
    serve,
)
from semisure.cli.app import app
from semisure.errors import SemisureError

__all__ = [
    "app",
    "bench",
    "calibrate",
    "demo",
    "export",
    "fetch",
    "fit_law",
    "localize",
    "main",
    "match",
    "match_pairs",
    "matchers",
    "reconstruct",
    "refit",
    "serve",
]


INTERRUPTED = 130  # exit code, the shells' own for Ctrl-C


def main() -> None:
    """Run the command; a user's mistake is one sentence and exit code 1."""
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
