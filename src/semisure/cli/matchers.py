"""`semisure matchers`: a list with licences, and whether each is ready."""

from __future__ import annotations

import json

import typer

from semisure.cli.options import AsJson
from semisure.cli.root import app


@app.command(
    epilog="Example: `semisure matchers`; for a program: `semisure matchers --json`"
)
def matchers(as_json: AsJson = False) -> None:
    """List the matchers with licence, size of weights, source and status."""
    from dataclasses import asdict

    from semisure.matchers import describe_matchers

    rows = describe_matchers()
    if as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("matcher", no_wrap=True)
    table.add_column("status", overflow="fold", min_width=24)
    table.add_column("calibration", overflow="fold", max_width=12)
    table.add_column("weights", overflow="fold")
    for row in rows:
        size = f"{row.size / 1e6:.0f} MB, " if row.size else ""
        weights = f"{size}{row.licence}, {row.source}"
        table.add_row(row.name, escape(row.status), row.calibration, escape(weights))
    Console().print(table)
