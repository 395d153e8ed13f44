"""Middleware: refuses foreign and oversized requests, adds security headers."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "::1")
SAFE_METHODS = ("GET", "HEAD")
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; "
        "img-src 'self' blob:; connect-src 'self'; form-action 'none'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Checks the host, origin and length of requests; adds headers to responses."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str], body_bytes: int) -> None:
        self.app = app
        self.hosts = frozenset(host.lower() for host in hosts)
        self.body_bytes = body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = self._refusal(scope["method"], Headers(scope=scope))
        answer: ASGIApp = self.app if refusal is None else refusal
        await answer(scope, self._counted(receive), send_with_headers)

    def _refusal(self, method: str, headers: Headers) -> JSONResponse | None:
        # Another site can point a host name of its own at this server (DNS rebinding),
        # or post a form to it; then the host or the origin is not ours.
        host = headers.get("host", "")
        if _host_name(f"//{host}") not in self.hosts:
            return _error(403, "This server does not answer to that host name.")
        if method not in SAFE_METHODS and not _same_origin(headers, host):
            return _error(403, "Requests from other sites are refused.")
        length = headers.get("content-length", "0")
        if not length.isdigit() or len(length) > 18 or int(length) > self.body_bytes:
            return _error(413, too_large(self.body_bytes))
        return None

    def _counted(self, receive: Receive) -> Receive:
        """Count the bytes too: a request need not state its length, or may lie."""
        left = self.body_bytes

        async def receive_counted() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(413, too_large(self.body_bytes))
            return message

        return receive_counted


def too_large(body_bytes: int) -> str:
    """The sentence for an upload over the limit."""
    return f"The upload is larger than the {body_bytes / 1e6:.0f} MB that are accepted."


def _error(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"detail": sentence}, status)


def _same_origin(headers: Headers, host: str) -> bool:
    """False if a browser states that the request came from another site."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or origin in (f"http://{host}", f"https://{host}")


def _host_name(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None
