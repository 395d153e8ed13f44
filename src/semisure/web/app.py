"""The server: one page, its pictures, and a queue of pairs to match."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from starlette.datastructures import FormData, UploadFile

from semisure.errors import FileError, InputError
from semisure.types import Calibration
from semisure.web import work
from semisure.web.guard import LOOPBACK, Guard
from semisure.web.jobs import FullError, Job, Queue
from semisure.web.limits import Limits
from semisure.web.uploads import check_upload

STATIC = Path(__file__).with_name("static")
FILES = {
    "": ("index.html", "text/html; charset=utf-8"),
    "app.css": ("app.css", "text/css; charset=utf-8"),
    "app.js": ("app.js", "text/javascript; charset=utf-8"),
    "icon.svg": ("icon.svg", "image/svg+xml"),
}
FIELDS = ("sample", "matcher", "estimator", "method", "calibration")


def make_app(
    *,
    limits: Limits | None = None,
    hosts: Iterable[str] = (),
    calibrations: Mapping[str, Calibration] | None = None,
) -> FastAPI:
    """The application; it answers to loopback names and `hosts`."""
    limits = limits or Limits()
    known = {**work.shipped_calibrations(), **(calibrations or {})}
    queue: Queue[work.Shown] = Queue(limits)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        queue.close()

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
    app: FastAPI,
    limits: Limits,
    known: Mapping[str, Calibration],
    queue: Queue[work.Shown],
) -> None:
    in_memory = asyncio.Semaphore(limits.workers)

    def found(name: str) -> Job[work.Shown]:
        job = queue.get(name)
        if job is None:
            raise HTTPException(404, "This result is no longer kept. Run it again.")
        return job

    def finished(name: str) -> work.Shown:
        job = found(name)
        if job.result is None:
            raise HTTPException(409, job.message or "The result is not ready yet.")
        return job.result

    @app.get("/api/menu")
    def menu() -> dict[str, Any]:
        accepted = {"file_bytes": limits.file_bytes, "pixels": limits.pixels}
        return {**work.menu(known), "limits": accepted}

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
                await run_in_threadpool(work.check_order, order, known)
                job = queue.add(partial(work.run, order, known, limits))
        except FullError as error:
            raise HTTPException(503, str(error)) from None
        except InputError as error:
            raise HTTPException(422, str(error)) from None
        return {"id": job.id}

    @app.get("/api/jobs/{name}")
    def poll(name: str) -> dict[str, Any]:
        job = found(name)
        asked = ("state", "stage", "step", "message")
        told = {key: getattr(job, key) for key in asked}
        return {**told, "steps": len(work.STAGES), "ahead": queue.ahead(job)}

    @app.get("/api/jobs/{name}/page")
    def page(name: str) -> JSONResponse:
        return JSONResponse(work.page_document(finished(name)))

    @app.get("/api/jobs/{name}/picture/{which}")
    def picture(name: str, which: str) -> Response:
        pictures = finished(name).pictures
        if which not in pictures:
            raise HTTPException(404, "There is no such picture.")
        return Response(pictures[which], media_type="image/jpeg")

    @app.get("/api/jobs/{name}/semisure.json")
    def as_json(name: str) -> Response:
        return _download(work.as_json(finished(name)), "application/json", "json")

    @app.get("/api/jobs/{name}/semisure.csv")
    def as_csv(name: str) -> Response:
        return _download(work.as_csv(finished(name)), "text/csv", "csv")


def _download(data: bytes, kind: str, suffix: str) -> Response:
    saved_as = f'attachment; filename="semisure.{suffix}"'
    return Response(data, media_type=kind, headers={"Content-Disposition": saved_as})


async def _order(form: FormData, limits: Limits) -> work.Order:
    """The order in a form; files count only under their two names."""
    chosen: dict[str, Any] = {
        key: v for key in FIELDS if isinstance(v := form.get(key), str)
    }
    files = [form.get(name) for name in ("image0", "image1")]
    if not any(isinstance(file, UploadFile) for file in files):
        return work.Order(**chosen)
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
    return work.Order(files=(uploads[0], uploads[1]), **chosen)


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
