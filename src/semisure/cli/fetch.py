"""`semisure fetch`: weights of matchers, now and verified."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from semisure.cli import choices
from semisure.cli.options import Quiet
from semisure.cli.root import app


@app.command(
    epilog="Example: `semisure fetch loftr eloftr`; where you have read the terms and "
    "accept them: `semisure fetch gim-loftr --yes`"
)
def fetch(
    matchers: Annotated[
        list[str],
        typer.Argument(
            help=f"Matchers: {choices.listed(choices.MATCHERS)}.",
            metavar="MATCHER",
            callback=choices.checked(choices.MATCHERS),
            autocompletion=choices.completing(choices.MATCHERS),
        ),
    ],
    yes: Annotated[
        bool, typer.Option("--yes", help="Accept the terms of the weights.")
    ] = False,
    quiet: Quiet = False,
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
