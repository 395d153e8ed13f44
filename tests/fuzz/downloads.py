"""Downloads from a server that lies, hangs up and talks nonsense."""

from __future__ import annotations

import hashlib
import os
import threading
from dataclasses import replace
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fuzz.hostile import chosen, damaged, require
from semisure.matchers import weights as w

CONTENT = bytes(range(256)) * 40
DIGEST = hashlib.sha256(CONTENT).hexdigest()
GOOD = w.Weights(filename="net.pt", licence="MIT", sha256=DIGEST, size=len(CONTENT))
BLOB = hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT).hexdigest()  # noqa: S324
BY_BLOB = w.Weights(
    filename="net.pt", licence="MIT", git_blob=BLOB, size=len(CONTENT) - 100
)


class _Handler(BaseHTTPRequestHandler):
    """Sends the bytes that the attack has laid out for the path."""

    reply: ClassVar[bytes] = b""

    def do_GET(self) -> None:
        self.wfile.write(self.reply)

    def log_message(self, *args: object) -> None:
        """Nothing: a campaign makes thousands of requests."""


@cache
def _server() -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.handle_error = lambda *args: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def attack(rng: np.random.Generator, folder: Path) -> str:
    """One download into an empty cache."""
    os.environ |= {
        "SEMISURE_CACHE": str(folder / "cache"), "SEMISURE_OFFLINE": "0",
        "SEMISURE_QUIET": "1", "no_proxy": "*",
    }  # fmt: skip
    body = CONTENT if rng.random() < 0.5 else damaged(rng, CONTENT)
    length = chosen(rng, (len(body), len(body), len(body) + 9, 0, -1, "x"))
    status = chosen(rng, ("200 OK", "200 OK", "206 Partial", "416 No", "500 Oh"))
    whole = f"HTTP/1.0 {status}\r\nContent-Length: {length}\r\n\r\n".encode() + body
    _Handler.reply = whole if rng.random() < 0.9 else damaged(rng, whole)
    address = f"http://127.0.0.1:{_server().server_port}/net.pt"
    weights: Any = replace(chosen(rng, (GOOD, BY_BLOB)), url=address)
    path = w.obtain(weights)
    require(path.read_bytes() == CONTENT, "a file that is not the official one")
    require(len(list(path.parent.iterdir())) == 1, "something is left over")
    return "fetched"
