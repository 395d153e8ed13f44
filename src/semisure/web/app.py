"""The server: one page, its pictures, and a queue of pairs to match."""

from __future__ import annotations

import asyncio
import mimetypes
import socket
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import python_multipart  # noqa: F401 - reads uploads; missed here, not at the first
import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import FormData, UploadFile
from starlette.requests import ClientDisconnect

from semisure.errors import InputError
from semisure.types import Calibration
from semisure.web.guard import Guard
from semisure.web.jobs import FullError, Job, Queue
from semisure.web.orders import (
    FIELDS,
    KEPT,
    UPLOADS,
    Limits,
    Order,
    available_choices,
    available_samples,
    check_order,
    check_upload,
    shipped_calibrations,
    thumbnail,
)

STATIC = Path(__file__).with_name("static")
# By their suffix, as Windows may not know them.
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".json": "application/json",
    ".csv": "text/csv",
    ".jpg": "image/jpeg",
    ".npz": "application/octet-stream",
}
STATUS = {FullError: 503, InputError: 422, ClientDisconnect: 400}


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
    queue = Queue(limits, offered)
    in_memory = asyncio.Semaphore(limits.workers)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        queue.open()
        yield
        await run_in_threadpool(queue.close)

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.add_middleware(Guard, hosts=hosts, limits=limits, token=token)
    for error in STATUS:
        app.add_exception_handler(error, _refused)

    def job_of(job_id: str) -> Job:
        job = queue.get(job_id)
        if job is None:
            raise HTTPException(404, "This result is no longer kept. Run it again.")
        return job

    def file_of(job_id: str, name: str) -> bytes:
        job = job_of(job_id)
        if job.state != "done":
            raise HTTPException(409, job.message or "The result is not ready yet.")
        if name not in job.files:
            raise HTTPException(404, "There is no such file.")
        return job.files[name]

    @app.get("/api/menu")
    def menu() -> dict[str, Any]:
        return {**available_choices(offered), "file_bytes": limits.file_bytes}

    @app.get("/api/samples/{name}.jpg")
    def sample(name: str) -> Response:
        if name not in available_samples():
            raise HTTPException(404, "There is no such sample.")
        return Response(thumbnail(name), media_type="image/jpeg")

    @app.post("/api/jobs", status_code=202)
    async def start(request: Request) -> dict[str, str]:
        queue.check_room()
        # Uploads arrive on disk; a few requests at a time read theirs into memory.
        async with (
            request.form(max_files=2, max_fields=len(FIELDS)) as form,
            in_memory,
        ):
            texts = {k: v for k in FIELDS if isinstance(v := form.get(k), str)}
            again = texts.pop("again", "")
            if again:
                job = job_of(again)
                files = {name: file_of(again, name) for name in KEPT}
                texts |= {k: getattr(job.order, k) for k in ("matcher", "sample")}
            else:
                files = await _uploads(form, limits)
            order = Order(files=files, **texts)
            await run_in_threadpool(check_order, order, offered)
            return {"id": queue.add(order).id}

    @app.get("/api/jobs/{job_id}")
    def poll(job_id: str) -> dict[str, Any]:
        return queue.progress(job_of(job_id))

    @app.delete("/api/jobs/{job_id}", status_code=204)
    def cancel(job_id: str) -> None:
        queue.cancel(job_of(job_id))

    @app.get("/api/jobs/{job_id}/{name}")
    def file(job_id: str, name: str) -> Response:
        content = file_of(job_id, name)
        headers = {}
        if name.startswith("semisure."):
            headers["Content-Disposition"] = f'attachment; filename="{name}"'
        return Response(content, media_type=KINDS[Path(name).suffix], headers=headers)

    mimetypes.add_type(KINDS[".js"], ".js")
    app.mount("/", StaticFiles(directory=STATIC, html=True))
    return app


def _refused(_: Request, error: Exception) -> Response:
    status = next(s for kind, s in STATUS.items() if isinstance(error, kind))
    return JSONResponse({"detail": str(error) or "The upload broke off."}, status)


async def _uploads(form: FormData, limits: Limits) -> dict[str, bytes]:
    """The two images of a form, checked; nothing if it has neither."""
    files = {name: form.get(name) for name in UPLOADS}
    if not any(isinstance(file, UploadFile) for file in files.values()):
        return {}
    uploads = {}
    for number, (name, file) in enumerate(files.items(), start=1):
        if not isinstance(file, UploadFile):
            raise InputError(f"Image {number} is missing: choose two images.")
        uploads[name] = await file.read(limits.file_bytes + 1)
        await run_in_threadpool(check_upload, uploads[name], f"Image {number}", limits)
    return uploads


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


def serve(app: FastAPI, listener: socket.socket) -> None:
    """Serve until interrupted."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        timeout_graceful_shutdown=2,
    )
    uvicorn.Server(config).run(sockets=[listener])
