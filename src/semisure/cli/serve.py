"""`semisure serve`: a local page to match two images."""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer

from semisure.cli import command
from semisure.cli.options import option
from semisure.errors import MissingExtraError


@command(
    epilog="Example: `semisure serve --port 8080`; with a calibration of your own: "
    "`semisure serve -c theta.json --time-limit 60`"
)
def serve(
    host: Annotated[
        str, option("Address to listen on; by default only this machine connects.")
    ] = "127.0.0.1",
    port: Annotated[int, option("Port to listen on; 0 for any free one.")] = 8321,
    allow_host: Annotated[
        list[str] | None,
        option("Another host name to accept; may be repeated.", metavar="NAME"),
    ] = None,
    calibration: Annotated[
        list[Path] | None,
        option(
            "Calibration to offer; may be repeated.",
            *("-c", "--calibration"),
            metavar="FILE",
        ),
    ] = None,
    time_limit: Annotated[
        float, option("Seconds after which a job is stopped.", min=1)
    ] = 300.0,
) -> None:
    """Serve a page that matches two images, for your browser on this machine.

    Nothing leaves the machine, and images are never written to disk. A matcher without
    a calibration gets one from its first job, which is kept in semisure's cache. With
    --host, others on the network can use the page if they have the whole address that
    is printed.
    """
    from semisure.io.files import load_calibration

    try:
        from semisure.web.app import listen, make_app
        from semisure.web.app import serve as run
        from semisure.web.orders import Limits
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "web", "The page") from None

    listener = listen(host, port)
    bound, port = listener.getsockname()[:2]
    token = None if ip_address(bound).is_loopback else secrets.token_urlsafe(16)
    web = make_app(
        limits=Limits(seconds=time_limit),
        hosts=[host, *(allow_host or [])],
        calibrations={path.stem: load_calibration(path) for path in calibration or ()},
        token=token,
    )
    address = f"http://{_shown(host)}:{port}"
    if token is not None:
        address = f"{address}/?token={token}"
        typer.echo(
            "Warning: others on the network reach this server. Only who has the "
            "address below can use it; nothing is encrypted.",
            err=True,
        )
    typer.echo(f"Open {address} (Ctrl-C to stop).")
    with suppress(KeyboardInterrupt):  # the usual way to stop it
        run(web, listener)


def _shown(host: str) -> str:
    """The host for an address: of all interfaces, this machine's name."""
    if host in ("", "0.0.0.0", "::"):  # noqa: S104
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host
