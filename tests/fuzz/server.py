"""The page's server: nonsense on the wire, and hostile forms; it must answer after."""

from __future__ import annotations

import socket
import threading
from functools import cache
from pathlib import Path

import cv2
import numpy as np

from fuzz.hostile import chosen, damaged, require

MENU = b"GET /api/menu HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
FORM = (
    b'--x\r\nContent-Disposition: form-data; name="matcher"\r\n\r\ndaisy\r\n'
    b'--x\r\nContent-Disposition: form-data; name="image0"; filename="a.png"\r\n\r\n'
    b"%b\r\n"
    b'--x\r\nContent-Disposition: form-data; name="image1"; filename="b.png"\r\n\r\n'
    b"%b\r\n--x--\r\n"
)
POST = (
    b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    b"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: %d\r\n\r\n%b"
)
PATHS = (b"/", b"/app.js", b"/api/jobs/x", b"/api/jobs/../../etc", b"/%00", b"//", b"*")


def attack(rng: np.random.Generator, folder: Path) -> str:
    """One request, then a sound one, which must be answered."""
    try:
        address = _address()
    except ImportError:
        return "no server"
    answer = _ask(address, _request(rng), 0.5)
    require(not answer.startswith(b"HTTP/1.1 500"), "an internal error")
    require(_ask(address, MENU, 20).startswith(b"HTTP/1.1 200"), "no answer any more")
    return answer[9:12].decode("latin1") or "hung up"


def _request(rng: np.random.Generator) -> bytes:
    kind = rng.integers(4)
    if kind == 0:
        return damaged(rng, MENU)
    if kind == 1:
        method = chosen(rng, (b"GET", b"HEAD", b"DELETE", b"PUT", b"POST", b"\xff"))
        return b"%b %b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % (
            method,
            chosen(rng, PATHS),
        )
    body = FORM % (_picture(rng), _picture(rng))
    if kind == 2:
        body = damaged(rng, body)
    request = POST % (len(body), body)
    return request if rng.random() < 0.7 else damaged(rng, request)


def _picture(rng: np.random.Generator) -> bytes:
    encoded = cv2.imencode(".png", np.zeros((40, 40), np.uint8))[1].tobytes()
    return damaged(rng, encoded)


def _ask(address: tuple[str, int], request: bytes, seconds: float) -> bytes:
    with socket.create_connection(address, timeout=seconds) as connection:
        try:
            connection.sendall(request)
            answer = b""
            while len(answer) < 12 and (part := connection.recv(4096)):
                answer += part
        except (ConnectionError, TimeoutError):  # half a request gets no answer
            return b""
    return answer


@cache
def _address() -> tuple[str, int]:
    import logging

    from semisure.web import app
    from semisure.web.orders import Limits

    logging.disable(logging.CRITICAL)
    listener = app.listen("127.0.0.1", 0)
    page = app.make_app(limits=Limits(waiting=100))
    threading.Thread(target=app.serve, args=(page, listener), daemon=True).start()
    address: tuple[str, int] = listener.getsockname()
    return address
