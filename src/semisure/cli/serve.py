"""`semisure serve`: a local page to match two images."""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semisure.cli.root import app
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
        str,
        typer.Option(
            help="Address to listen on; by default only this machine connects."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 for any free one.")
    ] = 8321,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Another host name to accept; may be repeated.", metavar="NAME"
        ),
    ] = None,
    calibration: Annotated[
        list[Path] | None,
        typer.Option(
            "-c",
            "--calibration",
            help="Calibration to offer; may be repeated.",
            metavar="FILE",
        ),
    ] = None,
    time_limit: Annotated[
        float, typer.Option(help="Seconds after which a job is stopped.", min=1)
    ] = 300.0,
) -> None:
    """Serve a page that matches two images, for your browser on this machine.

    Nothing leaves the machine, and images are never written to disk. A matcher without
    a calibration gets one from its first job, which is kept in semisure's cache. With
    --host, others on the network can use the page if they have the whole address that
    is printed.
    """
    for module, package in NEEDED.items():
        if find_spec(module) is None:
            raise MissingExtraError(package, "web", "The page")
    from semisure.web.app import listen, make_app
    from semisure.web.app import serve as run
    from semisure.web.orders import Limits

    limits = Limits(seconds=time_limit)
    listener = listen(host, port)
    token = None if _is_loopback(host) else secrets.token_urlsafe(16)
    web = make_app(
        limits=limits,
        hosts=[host, *(allow_host or [])],
        calibrations=_named(calibration or []),
        token=token,
    )
    address = f"http://{_shown(host)}:{listener.getsockname()[1]}"
    if token is not None:
        address = f"{address}/?token={token}"
        typer.echo(
            "Warning: others on the network reach this server. Only who has the "
            "address below can use it; nothing is encrypted.",
            err=True,
        )
    typer.echo(f"Open {address} (Ctrl-C to stop).")
    with suppress(KeyboardInterrupt):  # the usual way to stop it
        run(web, listener, limits)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _shown(host: str) -> str:
    """The host for an address: of all interfaces, this machine's name."""
    if host in ("", "0.0.0.0", "::"):  # noqa: S104
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


def _named(paths: list[Path]) -> dict[str, Calibration]:
    from semisure.io.files import load_calibration

    return {path.stem: load_calibration(path) for path in paths}
