"""The server: one page, its pictures, and a queue of pairs to match."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.requests import ClientDisconnect

from semisure.errors import FileError, InputError
from semisure.types import Calibration
from semisure.web.guard import LOOPBACK, Guard
from semisure.web.image_headers import check_upload
from semisure.web.limits import Limits
from semisure.web.orders import FIELDS, STAGES, Order, check_order, shipped_calibrations
from semisure.web.orders import menu as whole_menu
from semisure.web.queue import FullError, Job, Queue
from semisure.web.workers import Worker

STATIC = Path(__file__).with_name("static")
FILES = {
    "": ("index.html", "text/html; charset=utf-8"),
    "app.css": ("app.css", "text/css; charset=utf-8"),
    "app.js": ("app.js", "text/javascript; charset=utf-8"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}
DOWNLOADS = {
    "semisure.json": "application/json",
    "semisure.csv": "text/csv",
    "semisure.html": "text/html; charset=utf-8",
}


def make_app(
    *,
    limits: Limits | None = None,
    hosts: Iterable[str] = (),
    calibrations: Mapping[str, Calibration] | None = None,
) -> FastAPI:
    """The application; it answers to loopback names and `hosts`."""
    limits = limits or Limits()
    known = {**shipped_calibrations(), **(calibrations or {})}
    queue = Queue(limits, partial(Worker, known, limits))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        queue.open()
        yield
        await run_in_threadpool(queue.close)

    app = FastAPI(
        title="semisure", docs_url=None, redoc_url=None, openapi_url=None,
        lifespan=lifespan,
    )  # fmt: skip
    app.add_middleware(Guard, hosts=(*LOOPBACK, *hosts), body_bytes=limits.body_bytes)
    for name, (file, kind) in FILES.items():
        answer = partial(Response, (STATIC / file).read_bytes(), media_type=kind)
        app.add_api_route(f"/{name}", _constant(answer), methods=["GET"])
    _add_api(app, limits, known, queue)
    return app


def _constant(answer: partial[Response]) -> Any:
    async def give() -> Response:
        return answer()

    return give


def _add_api(
    app: FastAPI, limits: Limits, known: Mapping[str, Calibration], queue: Queue
) -> None:
    in_memory = asyncio.Semaphore(limits.workers)

    def found(name: str) -> Job:
        job = queue.get(name)
        if job is None:
            raise HTTPException(404, "This result is no longer kept. Run it again.")
        return job

    def file(name: str, which: str) -> bytes:
        job = found(name)
        if job.state != "done":
            raise HTTPException(409, job.message or "The result is not ready yet.")
        if which not in job.files:
            raise HTTPException(404, "There is no such file.")
        return job.files[which]

    @app.get("/api/menu")
    def menu() -> dict[str, Any]:
        accepted = {"file_bytes": limits.file_bytes, "pixels": limits.pixels}
        return {**whole_menu(known), "limits": accepted}

    @app.post("/api/jobs", status_code=202)
    async def start(request: Request) -> dict[str, str]:
        # Files arrive on disk; a few requests at a time take theirs into memory.
        try:
            queue.check_room()
            async with (
                request.form(max_files=2, max_fields=len(FIELDS)) as form,
                in_memory,
            ):
                order = await _order(form, limits)
                await run_in_threadpool(check_order, order, known)
                job = queue.add(order)
        except FullError as error:
            raise HTTPException(503, str(error)) from None
        except InputError as error:
            raise HTTPException(422, str(error)) from None
        except ClientDisconnect:
            raise HTTPException(400, "The upload broke off.") from None
        return {"id": job.id}

    @app.get("/api/jobs/{name}")
    def poll(name: str) -> dict[str, Any]:
        job = found(name)
        return {
            **{k: getattr(job, k) for k in ("state", "stage", "step", "message")},
            "steps": max(len(STAGES), job.step + 1),
            "ahead": queue.ahead(job),
            "seconds": job.seconds(),
            "usual_seconds": queue.usual_seconds(job),
        }

    @app.delete("/api/jobs/{name}", status_code=204)
    def cancel(name: str) -> None:
        queue.cancel(found(name))

    @app.get("/api/jobs/{name}/page")
    def page(name: str) -> Response:
        return Response(file(name, "page.json"), media_type="application/json")

    @app.get("/api/jobs/{name}/picture/{which}")
    def picture(name: str, which: str) -> Response:
        return Response(file(name, f"{which}.jpg"), media_type="image/jpeg")

    for saved_as, kind in DOWNLOADS.items():
        app.add_api_route(
            f"/api/jobs/{{name}}/{saved_as}", _download(file, saved_as, kind)
        )


def _download(file: Callable[[str, str], bytes], saved_as: str, kind: str) -> Any:
    head = {"Content-Disposition": f'attachment; filename="{saved_as}"'}

    def give(name: str) -> Response:
        return Response(file(name, saved_as), media_type=kind, headers=head)

    return give


async def _order(form: FormData, limits: Limits) -> Order:
    """The order in a form; files count only under their two names."""
    chosen: dict[str, Any] = {
        key: v for key in FIELDS if isinstance(v := form.get(key), str)
    }
    files = [form.get(name) for name in ("image0", "image1")]
    if not any(isinstance(file, UploadFile) for file in files):
        return Order(**chosen)
    uploads = []
    for file, name in zip(files, ("Image 1", "Image 2"), strict=True):
        if not isinstance(file, UploadFile):
            raise HTTPException(422, f"{name} is missing: choose two images.")
        data = await file.read(limits.file_bytes + 1)
        try:
            check_upload(data, name, limits)
        except FileError as error:
            status = 413 if len(data) > limits.file_bytes else 422
            raise HTTPException(status, str(error)) from None
        uploads.append(data)
    return Order(files=(uploads[0], uploads[1]), **chosen)


def listen(host: str, port: int) -> socket.socket:
    """A socket at that address; port 0 takes any that is free."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise InputError(
            f"The address {host}, port {port} cannot be used: {error}. Give another "
            "--port, or 0 for any that is free."
        ) from None


def serve(app: FastAPI, listener: socket.socket, limits: Limits) -> None:
    """Answer until interrupted."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        limit_concurrency=limits.connections,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=2,
    )
    uvicorn.Server(config).run(sockets=[listener])
