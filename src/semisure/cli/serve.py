"""`semisure serve`: a local page to match two images."""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress
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
        str, option("Address to listen on; by default only this machine can connect.")
    ] = "127.0.0.1",
    port: Annotated[int, option("Port to listen on; 0 for any free one.")] = 8321,
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

    Nothing leaves the machine. A matcher without a calibration gets one from its first
    job, which is kept in semisure's cache. With --host, such as 0.0.0.0, other machines
    can connect: users need the token in the printed address. Nothing is encrypted.
    """
    from semisure.io.files import load_calibration

    try:
        from semisure.web.app import listen, make_app
        from semisure.web.app import serve as run
        from semisure.web.guard import HOSTS
        from semisure.web.orders import Limits
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "web", "The page") from None

    listener = listen(host, port)
    token = None if host in HOSTS else secrets.token_urlsafe(16)
    page = make_app(
        limits=Limits(seconds=time_limit),
        calibrations={path.stem: load_calibration(path) for path in calibration or ()},
        token=token,
    )
    name = socket.gethostname() if host == "0.0.0.0" else host  # noqa: S104
    address = f"http://{name}:{listener.getsockname()[1]}"
    if token is not None:
        address += f"/?token={token}"
    typer.echo(f"Open {address} (Ctrl-C to stop).")
    with suppress(KeyboardInterrupt):  # the usual way to stop it
        run(page, listener)
