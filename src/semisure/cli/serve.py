"""`semisure serve`: the page to try two images on."""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semisure.cli.app import app
from semisure.errors import MissingExtraError

if TYPE_CHECKING:
    from semisure.types import Calibration

NEEDED = {
    "fastapi": "fastapi",
    "uvicorn": "uvicorn",
    "python_multipart": "python-multipart",
}


@app.command(
    epilog="Example: `semisure serve --port 8080`; with a calibration of your own: "
    "`semisure serve -c theta.json --time-limit 60`"
)
def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen at; the default is this machine's.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes any that is free.")] = 8321,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A further name to answer to; may be repeated."),
    ] = None,
    calibration: Annotated[
        list[Path] | None,
        typer.Option("-c", "--calibration", help="To offer too; may be repeated."),
    ] = None,
    time_limit: Annotated[
        float, typer.Option(help="Seconds a job may run before it is stopped.", min=1)
    ] = 300.0,
) -> None:
    """Serve a page to drop two images on, in your browser, on this machine.

    Nothing leaves the machine and nothing is kept on disk. There is no password: think
    twice before you give --host.
    """
    for module, package in NEEDED.items():
        if find_spec(module) is None:
            raise MissingExtraError(package, "web", "The page")
    from semisure.web.app import listen, make_app
    from semisure.web.app import serve as run
    from semisure.web.limits import Limits

    limits = Limits(seconds=time_limit)
    listener = listen(host, port)
    shown = f"[{host}]" if ":" in host else host
    web = make_app(
        limits=limits,
        hosts=[host, *(allow_host or [])],
        calibrations=_named(calibration or []),
    )
    typer.echo(f"Open http://{shown}:{listener.getsockname()[1]} (Ctrl-C to stop).")
    with suppress(KeyboardInterrupt):  # how it is meant to end
        run(web, listener, limits)


def _named(paths: list[Path]) -> dict[str, Calibration]:
    from semisure.io.files import load_calibration

    return {path.stem: load_calibration(path) for path in paths}
