"""The Typer app that each command adds itself to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from semisure.__about__ import __version__

Function = TypeVar("Function", bound=Callable[..., Any])


def _as_flags(parameters: list[Any]) -> list[Any]:
    """Flags shown as flags, not as options that take a value."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters


class Command(TyperCommand):
    """A command that shows its flags as flags."""

    def get_params(self, ctx: Any) -> Any:
        return _as_flags(super().get_params(ctx))


class Group(TyperGroup):
    """All commands, likewise."""

    def get_params(self, ctx: Any) -> Any:
        return _as_flags(super().get_params(ctx))


class App(typer.Typer):
    """Typer, with our own kind of command."""

    def command(self, *names: Any, **settings: Any) -> Callable[[Function], Function]:
        return super().command(*names, **{"cls": Command, **settings})


app = App(
    cls=Group,
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
