"""What the tests of the page's server share; skips where its packages are missing."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import cv2
import numpy as np
import pytest

from processes import command_line, descendants, wait_until

pytest.importorskip("fastapi", reason="needs the extra web")
pytest.importorskip("uvicorn", reason="needs the extra web")
pytest.importorskip("python_multipart", reason="needs the extra web")
pytest.importorskip("httpx2", reason="FastAPI's test client needs it")

from semisure.web.orders import Limits

ADDRESS = "http://127.0.0.1:8321"
ENDED = ("done", "failed", "cancelled")
SMALL = Limits(body_bytes=600_000, results=2)


def picture(shift: int = 0, suffix: str = ".png") -> bytes:
    blobs = np.random.default_rng(0).normal(size=(25, 40)).repeat(8, 0).repeat(8, 1)
    pixels = np.uint8(128 + 40 * np.clip(np.roll(blobs, shift, axis=(0, 1)), -3, 3))
    return cv2.imencode(suffix, pixels)[1].tobytes()


def post(client: Any, *files: bytes, **fields: Any) -> Any:
    named = {f"image{k}": ("x", data) for k, data in enumerate(files)}
    return client.post("/api/jobs", files=named or None, data=fields)


def finish(client: Any, answer: Any) -> dict[str, Any]:
    assert answer.status_code == 202, answer.text
    return ended(client, answer.json()["id"])


def ended(client: Any, name: str) -> dict[str, Any]:
    def job() -> dict[str, Any]:
        return client.get(f"/api/jobs/{name}").json()

    wait_until(lambda: job()["state"] in ENDED)
    return {**job(), "id": name}


def page_of(client: Any, job: dict[str, Any]) -> dict[str, Any]:
    assert job["state"] == "done", job
    page: dict[str, Any] = client.get(f"/api/jobs/{job['id']}/page.json").json()
    return page


def workers_of(server: int) -> list[int]:
    """The worker processes of a server, by /proc."""
    return [p for p in descendants(server) if "spawn_main" in command_line(p)]


@contextmanager
def serving(stderr: int | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`semisure serve` in a process group of its own, and its address."""
    with subprocess.Popen(
        [sys.executable, "-m", "semisure", "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        start_new_session=True,
        # A shell's background job ignores Ctrl-C, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as server:
        assert server.stdout is not None
        match = re.search(r"http\S+", server.stdout.readline())
        assert match
        try:
            yield server, match[0]
        finally:
            server.terminate()
