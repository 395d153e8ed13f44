"""The server: one page, its pictures, and a queue of pairs to match."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import fields
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
from semisure.web.limits import Limits
from semisure.web.middleware import LOOPBACK, Guard
from semisure.web.orders import (
    FIELDS,
    STAGES,
    Kept,
    Order,
    available_choices,
    check_order,
    shipped_calibrations,
)
from semisure.web.protocol import PromptProtocol
from semisure.web.queue import FullError, Job, Queue
from semisure.web.samples import available, thumbnail
from semisure.web.uploads import check_upload
from semisure.web.workers import Worker

STATIC = Path(__file__).with_name("static")
SCRIPTS = ("app", "choices", "compare", "copies", "jobs", "matches", "page", "view")
FILES = {
    "": ("index.html", "text/html; charset=utf-8"),
    "app.css": ("app.css", "text/css; charset=utf-8"),
    **{
        f"{name}.js": (f"{name}.js", "text/javascript; charset=utf-8")
        for name in SCRIPTS
    },
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
    token: str | None = None,
) -> FastAPI:
    """The application; it answers to loopback names and `hosts`.

    With a `token` it answers to any name, but only whoever knows the token.
    """
    limits = limits or Limits()
    offered = {**shipped_calibrations(), **(calibrations or {})}
    queue = Queue(limits, partial(Worker, offered, limits))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        queue.open()
        yield
        await run_in_threadpool(queue.close)

    app = FastAPI(
        title="semisure", docs_url=None, redoc_url=None, openapi_url=None,
        lifespan=lifespan,
    )  # fmt: skip
    app.add_middleware(
        Guard,
        hosts=(*LOOPBACK, *hosts),
        body_bytes=limits.body_bytes,
        upload_seconds=limits.upload_seconds,
        token=token,
    )
    for name, (file, kind) in FILES.items():
        response = partial(Response, (STATIC / file).read_bytes(), media_type=kind)
        app.add_api_route(f"/{name}", _constant(response), methods=["GET"])
    _add_api(app, _Api(limits, offered, queue))
    return app


def _constant(response: partial[Response]) -> Any:
    async def give() -> Response:
        return response()

    return give


class _Api:
    """What the page asks of the server; each public method answers one route."""

    def __init__(
        self, limits: Limits, calibrations: Mapping[str, Calibration], queue: Queue
    ) -> None:
        self._limits, self._calibrations, self._queue = limits, calibrations, queue
        self._in_memory = asyncio.Semaphore(limits.workers)

    def choices(self) -> dict[str, Any]:
        limits = {"file_bytes": self._limits.file_bytes, "pixels": self._limits.pixels}
        return {**available_choices(self._calibrations), "limits": limits}

    def sample(self, name: str) -> Response:
        if name not in available():
            raise HTTPException(404, "There is no such sample.")
        return Response(thumbnail(name), media_type="image/jpeg")

    async def start(self, request: Request) -> dict[str, str]:
        # Uploads arrive on disk; a few requests at a time read theirs into memory.
        try:
            self._queue.check_room()
            async with (
                request.form(max_files=2, max_fields=len(FIELDS)) as form,
                self._in_memory,
            ):
                order = await self._order(form)
                await run_in_threadpool(check_order, order, self._calibrations)
                job = self._queue.add(order)
        except FullError as error:
            raise HTTPException(503, str(error)) from None
        except InputError as error:
            raise HTTPException(422, str(error)) from None
        except ClientDisconnect:
            raise HTTPException(400, "The upload broke off.") from None
        return {"id": job.id}

    async def _order(self, form: FormData) -> Order:
        """The order in a form; other files than image0 and image1 are ignored."""
        chosen: dict[str, Any] = {
            key: v for key in FIELDS if isinstance(v := form.get(key), str)
        }
        again = chosen.pop("again", "")
        if again:
            job = self._job(again)
            parts = {
                part.name: self._file(again, file)
                for part, file in zip(fields(Kept), Kept.files(), strict=True)
            }
            earlier = {"matcher": job.matcher, "sample": job.sample}
            return Order(kept=Kept(**parts), **{**chosen, **earlier})
        return Order(files=await _uploads(form, self._limits), **chosen)

    def poll(self, job_id: str) -> dict[str, Any]:
        job = self._job(job_id)
        return {
            **{k: getattr(job, k) for k in ("state", "stage", "step", "message")},
            "steps": max(len(STAGES), job.step + 1),
            "ahead": self._queue.ahead(job),
            "seconds": job.seconds(),
            "usual_seconds": self._queue.usual_seconds(job),
        }

    def cancel(self, job_id: str) -> None:
        self._queue.cancel(self._job(job_id))

    def page(self, job_id: str) -> Response:
        return Response(self._file(job_id, "page.json"), media_type="application/json")

    def picture(self, job_id: str, which: str) -> Response:
        return Response(self._file(job_id, f"{which}.jpg"), media_type="image/jpeg")

    def download(self, filename: str, kind: str) -> Callable[[str], Response]:
        """The route of one of the files that can be saved."""
        headers = {"Content-Disposition": f'attachment; filename="{filename}"'}

        def give(job_id: str) -> Response:
            content = self._file(job_id, filename)
            return Response(content, media_type=kind, headers=headers)

        return give

    def _job(self, job_id: str) -> Job:
        job = self._queue.get(job_id)
        if job is None:
            raise HTTPException(404, "This result is no longer kept. Run it again.")
        return job

    def _file(self, job_id: str, filename: str) -> bytes:
        job = self._job(job_id)
        if job.state != "done":
            raise HTTPException(409, job.message or "The result is not ready yet.")
        if filename not in job.files:
            raise HTTPException(404, "There is no such file.")
        return job.files[filename]


def _add_api(app: FastAPI, api: _Api) -> None:
    app.get("/api/menu")(api.choices)
    app.get("/api/samples/{name}.jpg")(api.sample)
    app.post("/api/jobs", status_code=202)(api.start)
    app.get("/api/jobs/{job_id}")(api.poll)
    app.delete("/api/jobs/{job_id}", status_code=204)(api.cancel)
    app.get("/api/jobs/{job_id}/page")(api.page)
    app.get("/api/jobs/{job_id}/picture/{which}")(api.picture)
    for filename, kind in DOWNLOADS.items():
        app.get(f"/api/jobs/{{job_id}}/{filename}")(api.download(filename, kind))


async def _uploads(form: FormData, limits: Limits) -> tuple[bytes, bytes] | None:
    """The two images of a form, checked; None if it has neither."""
    files = [form.get(name) for name in ("image0", "image1")]
    if not any(isinstance(file, UploadFile) for file in files):
        return None
    uploads = []
    for file, name in zip(files, ("Image 1", "Image 2"), strict=True):
        if not isinstance(file, UploadFile):
            raise HTTPException(422, f"{name} is missing: choose two images.")
        data = await file.read(limits.file_bytes + 1)
        try:
            await run_in_threadpool(check_upload, data, name, limits)
        except FileError as error:
            status = 413 if len(data) > limits.file_bytes else 422
            raise HTTPException(status, str(error)) from None
        uploads.append(data)
    return uploads[0], uploads[1]


def listen(host: str, port: int) -> socket.socket:
    """A socket at that address; port 0 takes any free one."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise InputError(
            f"The address {host}, port {port} cannot be used: {error}. Give another "
            "--port, or 0 for any that is free."
        ) from None


def serve(app: FastAPI, listener: socket.socket, limits: Limits) -> None:
    """Serve until interrupted."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        http=PromptProtocol,
        ws="none",
        limit_concurrency=limits.connections,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=2,
    )
    uvicorn.Server(config).run(sockets=[listener])
