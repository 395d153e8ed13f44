"""Downloads from a server that lies, hangs up and talks nonsense."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from dataclasses import replace
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fuzz.hostile import chosen, damaged, require
from semisure.matchers import _weights

CONTENT = bytes(range(256)) * 40
DIGEST = hashlib.sha256(CONTENT).hexdigest()
GOOD = _weights.Weights(
    filename="net.pt", licence="MIT", sha256=DIGEST, size=len(CONTENT)
)
HUB = _weights.Weights(filename="net.pt", licence="MIT", hub="some/net")
LISTING = json.dumps([{"path": "net.pt", "lfs": {"oid": DIGEST, "size": len(CONTENT)}}])


class _Handler(BaseHTTPRequestHandler):
    """Sends the bytes that the attack has laid out for the path."""

    replies: ClassVar[dict[str, bytes]] = {}

    def do_GET(self) -> None:
        kind = "listing" if self.path.startswith("/api/") else "body"
        self.wfile.write(self.replies[kind])

    def log_message(self, *args: object) -> None:
        """Nothing: a campaign makes thousands of requests."""


@cache
def _server() -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.handle_error = lambda *args: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def attack(rng: np.random.Generator, folder: Path) -> str:
    """One download into a cache that may hold a part, a record or nonsense."""
    address = f"http://127.0.0.1:{_server().server_port}"
    hub = rng.random() < 0.5
    os.environ |= {
        "SEMISURE_CACHE": str(folder / "cache"), "SEMISURE_OFFLINE": "0",
        "HF_ENDPOINT": address, "SEMISURE_QUIET": "1",
        "TORCH_HOME": str(folder), "HF_HOME": str(folder),
        "no_proxy": "*",
    }  # fmt: skip
    cache_folder = folder / "cache"
    cache_folder.mkdir()
    have = int(rng.integers(0, len(CONTENT) + 1))
    if rng.random() < 0.5:
        part = CONTENT[:have]
        part = part if rng.random() < 0.7 else damaged(rng, part)
        (cache_folder / "net.pt.part").write_bytes(part)
    _Handler.replies = {
        "listing": _reply(rng, LISTING.encode()),
        "body": _body(rng, have),
    }
    weights: Any = HUB if hub else replace(GOOD, url=f"{address}/net.pt")
    path = _weights.obtain(weights)
    require(path.read_bytes() == CONTENT, "a file that is not the official one")
    require(not list(cache_folder.glob("*.part")), "a part is left over")
    return "fetched"


def _reply(rng: np.random.Generator, body: bytes) -> bytes:
    body = body if rng.random() < 0.7 else damaged(rng, body)
    whole = b"HTTP/1.0 200 OK\r\n\r\n" + body
    return whole if rng.random() < 0.8 else damaged(rng, whole)


def _body(rng: np.random.Generator, have: int) -> bytes:
    start = int(chosen(rng, (0, have, have, 1)))
    body = CONTENT[start:]
    if rng.random() < 0.4:
        body = damaged(rng, body)
    length = chosen(rng, (len(body), len(body), len(body) + 9, 0, -1, "x"))
    status = chosen(rng, ("200 OK", "206 Partial", "206 Partial", "416 No", "500 Oh"))
    span = f"Content-Range: bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}\r\n"
    span = chosen(rng, ("", span))
    head = f"HTTP/1.0 {status}\r\n{span}Content-Length: {length}\r\n\r\n"
    whole = head.encode() + body
    return whole if rng.random() < 0.9 else damaged(rng, whole)
