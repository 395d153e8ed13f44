"""The server against idle connections, slow uploads and strangers on the network."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("fastapi", reason="needs the extra web")

import uvicorn
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from semisure.cli import app as commands
from semisure.web import app as web
from semisure.web import guard
from semisure.web.orders import Limits

FEW = Limits(connections=6, upload_seconds=1.0)


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    """A real server of few connections, which hangs up after half a second."""
    monkeypatch.setattr(guard, "REQUEST_SECONDS", 0.5)
    started: list[uvicorn.Server] = []
    run = uvicorn.Server.run

    def remember(self: uvicorn.Server, sockets=None) -> None:
        started.append(self)
        self.install_signal_handlers = lambda: None
        run(self, sockets)

    monkeypatch.setattr(uvicorn.Server, "run", remember)
    listener = web.listen("127.0.0.1", 0)
    page = web.make_app(limits=FEW)
    thread = threading.Thread(target=web.serve, args=(page, listener, FEW))
    thread.start()
    yield listener.getsockname()
    started[0].should_exit = True
    thread.join(20)


def ask(address: tuple[str, int]) -> bytes:
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(
            b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        )
        return connection.recv(12)


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: loc"])
def test_idle_connections_do_not_lock_others_out(address, begun: bytes) -> None:
    idle = [socket.create_connection(address, timeout=10) for _ in range(8)]
    for connection in idle:
        connection.sendall(begun)
    deadline = time.monotonic() + 8
    while (answer := ask(address)) != b"HTTP/1.1 200" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert answer == b"HTTP/1.1 200"
    for connection in idle:
        connection.close()


def test_an_upload_that_never_ends_is_given_up(address) -> None:
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(
            b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n"
            b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
        )
        assert connection.recv(12) == b"HTTP/1.1 408"


def test_strangers_need_the_token() -> None:
    page = web.make_app(token="secret")  # noqa: S106
    with TestClient(page, base_url="http://192.168.1.9:8321") as stranger:
        for path in ("/", "/api/menu", "/?token=wrong", "/app.js"):
            answer = stranger.get(path, headers={"Host": "localhost"})
            assert answer.status_code == 403, path
            assert "address that semisure serve printed" in answer.json()["detail"]
        assert stranger.post("/api/jobs").status_code == 403
        first = stranger.get("/?token=secret", follow_redirects=False)
        assert (first.status_code, first.headers["location"]) == (303, "/")
        assert "HttpOnly" in first.headers["set-cookie"]
        assert "samesite=strict" in first.headers["set-cookie"].lower()
        assert stranger.get("/api/menu").status_code == 200


@pytest.mark.parametrize(
    ("host", "open_to_others"),
    [("127.0.0.1", False), ("localhost", False), ("0.0.0.0", True)],  # noqa: S104
)
def test_serving_others_warns_and_prints_a_token(monkeypatch, host, open_to_others):
    made = {}
    make = web.make_app

    def remember(**settings):
        made.update(settings)
        return make(**settings)

    monkeypatch.setattr(web, "make_app", remember)
    monkeypatch.setattr(web, "serve", lambda page, listener, limits: listener.close())
    done = CliRunner().invoke(commands, ["serve", "--host", host, "--port", "0"])
    assert done.exit_code == 0, done.output
    assert (made["token"] is not None) == open_to_others
    assert ("Warning: others on the network" in done.stderr) == open_to_others
    if open_to_others:
        assert f"/?token={made['token']} " in done.stdout
