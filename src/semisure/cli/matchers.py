"""`semisure matchers` and `semisure fetch`: what there is, and its weights."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from semisure.cli import options
from semisure.cli.root import app


@app.command(
    epilog="Example: `semisure matchers`; for a program: `semisure matchers --json`"
)
def matchers(as_json: options.AsJson = False) -> None:
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


@app.command(
    epilog="Example: `semisure fetch loftr eloftr`; where you have read the terms and "
    "accept them: `semisure fetch gim-loftr --yes`"
)
def fetch(
    matchers: Annotated[
        list[str],
        typer.Argument(
            help=f"Matchers: {options.listed(options.MATCHERS)}.",
            metavar="MATCHER",
            callback=options.checked(options.MATCHERS),
            autocompletion=options.completing(options.MATCHERS),
        ),
    ],
    yes: Annotated[
        bool, typer.Option("--yes", help="Accept the terms of the weights.")
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Fetch the weights of matchers and verify them, to work offline afterwards.

    Other commands fetch what they need by themselves, but for weights whose terms ask
    for your consent: those are fetched here, after you have said yes.
    """
    from semisure.matchers import fetch_weights, terms_of

    for name in matchers:
        terms = terms_of(name)
        if terms and not yes:
            _ask(name, terms)
        file = fetch_weights(name, accept_terms=True)
        if not quiet:
            where = "needs no weights" if file is None else f"has its weights in {file}"
            typer.echo(f"{name} {where}.")


def _ask(name: str, terms: str) -> None:
    """Show the terms; raise unless a person agrees."""
    typer.echo(f"{name}: {terms}", err=True)
    if not _is_person():
        raise typer.BadParameter("give --yes if you accept these terms")
    if not typer.confirm("Do you accept these terms?", err=True):
        raise typer.Exit(1)


def _is_person() -> bool:
    return sys.stdin.isatty()
