"""What `semisure match` and `semisure refit` print of a pair and write."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semisure.cli import options

if TYPE_CHECKING:
    from semisure.pairs.result import PairResult

NO_MODEL, WEAK = 3, 4  # exit codes

Strict = Annotated[
    bool, typer.Option("--strict", help="Exit with 4 where the model is weak.")
]

Outputs = Annotated[
    list[Path] | None,
    typer.Option(
        "-o",
        "--output",
        help="JSON, NPZ or CSV, by its suffix; may be repeated.",
        metavar="FILE",
    ),
]


def check_outputs(
    outputs: list[Path] | None,
    *,
    inputs: Sequence[str | Path | None],
    report: Path | None = None,
    picture: Path | None = None,
) -> None:
    """Raise before the work starts if what it makes could not be written."""
    from semisure.io.atomic import check_not_inputs, check_output
    from semisure.report.documents import RESULT_SUFFIXES

    for path in outputs or []:
        check_output(path, RESULT_SUFFIXES)
    asked = [*(outputs or []), *options.check_pages(report, picture)]
    check_not_inputs(asked, [Path(path) for path in inputs if path is not None])


def print_result(
    result: PairResult, as_json: bool, quiet: bool, *, strict: bool
) -> None:
    """Print the result; exit with 3 if there is no model, or only a chance one.

    With `strict`, exit with 4 if the model is weak.
    """
    from semisure.report import documents

    if as_json:
        typer.echo(json.dumps(documents.document(result), indent=2, allow_nan=False))
    elif not quiet:
        typer.echo(result.summary())
        if result.related:
            typer.echo(_described(result))
    if not result.related:
        raise typer.Exit(NO_MODEL)
    if strict and result.verdict.name == "weak":
        raise typer.Exit(WEAK)


def _described(result: PairResult) -> str:
    """The model's numbers: a matrix, or a motion with its standard errors."""
    if result.motion is not None:
        return result.motion.describe()
    model = result.refit.model
    assert model is not None  # or the images were not related
    return str(model)
