"""The server's guards against requests of other sites, and against oversized ones."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from semisure.web.orders import Limits

# Another site can point a host name of its own at this server (DNS rebinding).
HOSTS = ("127.0.0.1", "localhost")
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
    """Checks the origin and the length of requests; adds headers to responses."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        answer = self._refusal(scope) or self.app
        await answer(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> JSONResponse | None:
        headers, most = Headers(scope=scope), self.limits.body_bytes
        if scope["method"] not in ("GET", "HEAD") and not _same_origin(headers):
            return _error(403, "Requests from other sites are refused.")
        # Browsers state the length of what they send.
        if int(headers.get("content-length", "0")) > most:
            accepted = f"the {most / 1e6:.0f} MB that are accepted"
            return _error(413, f"The upload is larger than {accepted}.")
        return None


def _error(status: int, sentence: str) -> JSONResponse:
    return JSONResponse({"detail": sentence}, status)


def _same_origin(headers: Headers) -> bool:
    """False if a browser states that the request came from another site."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    return headers.get("origin") in (None, f"http://{headers.get('host')}")
