"""The command line: parse, call one function, print."""

from __future__ import annotations

import sys

from semisure.cli import calibration, demo, localize, matchers, pairs, serve
from semisure.cli.app import app
from semisure.errors import SemisureError

__all__ = [
    "app",
    "calibration",
    "demo",
    "localize",
    "main",
    "matchers",
    "pairs",
    "serve",
]


def main() -> None:
    """Run the command; a user's mistake is one sentence and exit code 1."""
    try:
        app()
    except SemisureError as error:
        print(f"semisure: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
