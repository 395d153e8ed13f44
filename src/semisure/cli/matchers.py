"""`semisure matchers` and `semisure fetch`: the matchers and their weights."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from semisure.cli import command, options


@command(
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
    from rich.markup import escape

    table = [("matcher", "status", "calibration", "weights")]
    for row in rows:
        size = f"{row.size / 1e6:.0f} MB, " if row.size else ""
        weights = f"{size}{row.licence}, {row.source}"
        table.append((row.name, escape(row.status), row.calibration, escape(weights)))
    options.print_table(table)


@command(
    epilog="Example: `semisure fetch loftr eloftr`; where you have read the terms and "
    "accept them: `semisure fetch gim-loftr --yes`"
)
def fetch(
    matchers: Annotated[
        list[str],
        typer.Argument(
            help=f"Matchers: {', '.join(options.MATCHERS)}.",
            metavar="MATCHER",
            autocompletion=options.completing(options.MATCHERS),
        ),
    ],
    yes: Annotated[
        bool, options.option("Accept the terms of the weights.", "--yes")
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Fetch the weights of matchers and verify them, to work offline afterwards.

    Other commands fetch what they need by themselves, except weights whose terms
    require your consent: only this command fetches those, after you accept.
    """
    from semisure.matchers import fetch_weights, terms_of

    for name in matchers:
        terms = terms_of(name)
        if terms and not yes:
            typer.echo(f"{name}: {terms}", err=True)
            typer.confirm(
                "Do you accept these terms, as --yes does?", abort=True, err=True
            )
        file = fetch_weights(name, accept_terms=True)
        if not quiet:
            where = "needs no weights" if file is None else f"has its weights in {file}"
            typer.echo(f"{name} {where}.")
