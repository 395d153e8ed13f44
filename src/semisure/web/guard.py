"""The server's guards against foreign and oversized requests."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from semisure.web.orders import Limits

LOOPBACK = ("127.0.0.1", "localhost", "::1")
TOKEN = "token"  # noqa: S105 - its name, in the address and the cookie
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

    def __init__(
        self, app: ASGIApp, hosts: Iterable[str], limits: Limits, token: str | None
    ) -> None:
        self.app, self.limits, self.token = app, limits, token
        self.hosts = {host.lower() for host in (*LOOPBACK, *hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        headers = Headers(scope=scope)
        refusal = self._stranger(scope, headers) or self._refusal(scope, headers)
        answer = refusal or self.app
        await answer(scope, self._counted(receive), send_with_headers)

    def _stranger(self, scope: Scope, headers: Headers) -> Response | None:
        """The answer to whoever has not shown the token; it becomes a cookie."""
        if self.token is None:
            return None
        query = parse_qs(scope["query_string"].decode("latin1"))
        if _same(query.get(TOKEN, [""])[0], self.token):
            answer = RedirectResponse(scope["path"], 303)
            answer.set_cookie(TOKEN, self.token, httponly=True, samesite="strict")
            return answer
        if _same(cookie_parser(headers.get("cookie", "")).get(TOKEN, ""), self.token):
            return None
        return _error(403, "Open the address that semisure serve printed.")

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        # Another site can point a host name of its own at this server (DNS rebinding),
        # or post a form to it; then the host or the origin is not ours.
        host = headers.get("host", "")
        if self.token is None and _host_name(f"//{host}") not in self.hosts:
            return _error(403, "This server does not answer to that host name.")
        if scope["method"] not in ("GET", "HEAD") and not _same_origin(headers, host):
            return _error(403, "Requests from other sites are refused.")
        length, most = headers.get("content-length", "0"), self.limits.body_bytes
        if not length.isdigit() or len(length) > 18 or int(length) > most:
            return _error(413, _too_large(most))
        return None

    def _counted(self, receive: Receive) -> Receive:
        """Count the bytes too: a request need not state its length, or may lie."""
        left = self.limits.body_bytes

        async def receive_counted() -> Message:
            nonlocal left
            message = await receive()
            left -= len(message.get("body", b""))
            if left < 0:
                raise HTTPException(413, _too_large(self.limits.body_bytes))
            return message

        return receive_counted


def _too_large(most: int) -> str:
    return f"The upload is larger than the {most / 1e6:.0f} MB that are accepted."


def _same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode(), token.encode())


def _error(status: int, sentence: str) -> Response:
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
