"""The server: one page, its pictures, and a queue of pairs to match."""

from __future__ import annotations

import mimetypes
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import python_multipart  # noqa: F401 - reads uploads; raises here if missing
import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.datastructures import FormData, UploadFile
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect

from semisure.errors import InputError
from semisure.types import Calibration
from semisure.web.guard import HOSTS, Guard
from semisure.web.jobs import Job, Queue
from semisure.web.orders import (
    FIELDS,
    KEPT,
    UPLOADS,
    Limits,
    Order,
    available_choices,
    available_samples,
    check_order,
    shipped_calibrations,
    thumbnail,
)

STATIC = Path(__file__).with_name("static")
# Media types by suffix, as Windows may lack them.
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".json": "application/json",
    ".csv": "text/csv",
    ".jpg": "image/jpeg",
    ".npz": "application/octet-stream",
}


def make_app(
    *,
    limits: Limits | None = None,
    calibrations: Mapping[str, Calibration] | None = None,
    token: str | None = None,
) -> FastAPI:
    """The application; `calibrations` are offered beside the shipped ones.

    It serves this machine only, or, with a `token`, anyone who sends it.
    """
    limits = limits or Limits()
    offered = {**shipped_calibrations(), **(calibrations or {})}
    queue = Queue(limits, offered)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        queue.open()
        yield
        await run_in_threadpool(queue.close)

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    hosts = HOSTS if token is None else ("*",)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts)
    app.add_middleware(Guard, limits=limits, token=token)

    @app.exception_handler(InputError)
    def refused(_: Request, error: Exception) -> Response:
        return JSONResponse({"detail": str(error)}, 422)

    @app.exception_handler(ClientDisconnect)
    def broken_off(_: Request, error: Exception) -> Response:
        return Response(status_code=400)

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
        return {**available_choices(offered), "body_bytes": limits.body_bytes}

    @app.get("/api/samples/{name}.jpg")
    def sample(name: str) -> Response:
        if name not in available_samples():
            raise HTTPException(404, "There is no such sample.")
        return Response(thumbnail(name), media_type="image/jpeg")

    @app.post("/api/jobs", status_code=202)
    async def start(request: Request) -> dict[str, str]:
        async with request.form(max_files=2, max_fields=len(FIELDS)) as form:
            texts = {k: v for k in FIELDS if isinstance(v := form.get(k), str)}
            again = texts.pop("again", "")
            if again:
                job = job_of(again)
                files = {name: file_of(again, name) for name in KEPT}
                texts |= {k: getattr(job.order, k) for k in ("matcher", "sample")}
            else:
                files = await _uploads(form)
            order = Order(files=files, **texts)
            await run_in_threadpool(check_order, order, offered)
            if queue.is_full():
                raise HTTPException(
                    503, "Too many jobs are waiting. Try again in a minute."
                )
            return {"id": queue.add(order).id}

    @app.get("/api/jobs/{job_id}")
    def poll(job_id: str) -> dict[str, Any]:
        return job_of(job_id).progress()

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


async def _uploads(form: FormData) -> dict[str, bytes]:
    """The two images of a form, or none."""
    uploads = {
        name: await file.read()
        for name in UPLOADS
        if isinstance(file := form.get(name), UploadFile)
    }
    if len(uploads) == 1:
        raise InputError("One image is missing: give two.")
    return uploads


def listen(host: str, port: int) -> socket.socket:
    """A socket at that address; port 0 takes any free one."""
    try:
        return socket.create_server((host, port))
    except (OSError, OverflowError) as error:
        raise InputError(
            f"{host}, port {port} cannot be used: {error}. Give another --port, or 0 "
            "for any that is free."
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
