"""The server's guards against strangers, other sites and oversized requests."""

from __future__ import annotations

import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from semisure.web.orders import Limits

# Another site can point its own host name at this server (DNS rebinding).
HOSTS = ("127.0.0.1", "localhost")
COOKIE = "semisure"
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
    """Checks the token, origin and length of requests; adds headers to responses."""

    def __init__(self, app: ASGIApp, limits: Limits, token: str | None) -> None:
        self.app, self.limits, self.token = app, limits, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        request = Request(scope)
        answer = self._entrance(request) or self._refusal(request) or self.app
        await answer(scope, receive, send_with_headers)

    def _entrance(self, request: Request) -> Response | None:
        """The response without a cookie: the token in the address sets one."""
        if self.token is None or self._is_token(request.cookies.get(COOKIE, "")):
            return None
        if not self._is_token(request.query_params.get("token", "")):
            return _error(403, "Open the address that semisure serve printed.")
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, self.token, httponly=True)
        return answer

    def _is_token(self, given: str) -> bool:
        """Compared in constant time."""
        return secrets.compare_digest(given.encode(), str(self.token).encode())

    def _refusal(self, request: Request) -> Response | None:
        headers, most = request.headers, self.limits.body_bytes
        if request.method not in ("GET", "HEAD") and not _same_origin(headers):
            return _error(403, "Requests from other sites are refused.")
        # uvicorn reads no more of a body than its stated length.
        if "transfer-encoding" in headers:
            return _error(411, "The request must state its length.")
        if int(headers.get("content-length", "0")) > most:
            accepted = f"the {most / 1e6:.0f} MB that are accepted"
            return _error(413, f"The upload is larger than {accepted}.")
        return None


def _error(status: int, sentence: str) -> Response:
    return JSONResponse({"detail": sentence}, status)


def _same_origin(headers: Headers) -> bool:
    """False if a browser states that the request came from another site."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    return headers.get("origin") in (None, f"http://{headers.get('host')}")
