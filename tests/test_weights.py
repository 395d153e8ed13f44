"""Weights: located in order, fetched from loopback servers, always verified."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from semisure.cli import app
from semisure.errors import FileError
from semisure.matchers import weights as w

CONTENT = bytes(range(256)) * 800
SHA256 = hashlib.sha256(CONTENT).hexdigest()
GOOD = w.Weights(filename="net.pt", sha256=SHA256, size=204_800, licence="Apache-2.0")
HUB = w.Weights(filename="net.bin", licence="MIT", hub="some/net", size=200_000)
# As `git hash-object` prints it: SHA-1 of b"blob 204800", a zero byte, and the content.
BLOB = hashlib.sha1(b"blob 204800\0" + CONTENT).hexdigest()  # noqa: S324
TERMS = {"licence": "research only", "terms": "For research only."}
ON_TERMS = w.Weights(
    filename="net.pt", size=200_000, git_blob=BLOB, matcher="gim-loftr", **TERMS
)


class Server(ThreadingHTTPServer):
    """Sends what `reply` writes, and is a hub of one file to who asks for its head."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[str] = []
        self.digest = SHA256
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.reply: Callable[[BaseHTTPRequestHandler], None] = send(CONTENT)

    def handle_error(self, request, client_address) -> None:
        """Clients that hang up are no news."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        self.server.reply(self)

    def do_HEAD(self) -> None:
        self.send_response(200 if self.server.digest else 404)
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("ETag", f'"{self.server.digest}"')
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


def send(body: bytes, status: int = 200):
    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return reply


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("SEMISURE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(w.OFFLINE_VARIABLE, raising=False)
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.05,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture
def hub(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    constants = pytest.importorskip("huggingface_hub.constants")
    template = server.url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return server


# ---- where they are ------------------------------------------------------------------


def test_order_is_path_cache_package(server: Server, tmp_path: Path) -> None:
    mine = tmp_path / "mine.pt"
    with pytest.raises(FileError, match="There is no weights file"):
        w.obtain(GOOD, mine)
    mine.write_bytes(b"anything")
    assert w.obtain(GOOD, mine) == mine
    packaged = replace(GOOD, package=("this-package", "semisure", "py.typed"))
    place = w.locate(packaged)
    assert place is not None
    assert place[1] == "package this-package"
    cached = w.cache_folder() / "net.pt"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(CONTENT)
    assert w.locate(packaged) == (cached, "cache")


def test_truncated_and_altered_files_are_refused(server: Server) -> None:
    cached = w.cache_folder() / "net.pt"
    cached.parent.mkdir(parents=True)
    for content in (CONTENT[:-5], CONTENT[:-1] + b"x"):
        cached.write_bytes(content)
        with pytest.raises(FileError, match="its SHA-256 differs"):
            w.obtain(GOOD)
        with pytest.raises(FileError, match="its git blob differs"):
            w.obtain(ON_TERMS)


# ---- downloads -----------------------------------------------------------------------


def test_download_is_verified_kept_and_not_repeated(server: Server) -> None:
    weights = replace(GOOD, url=f"{server.url}/net.pt")
    path = w.obtain(weights)
    assert path == w.cache_folder() / "net.pt"
    assert path.read_bytes() == CONTENT
    assert w.obtain(weights) == path
    assert len(server.requests) == 1
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("body", [CONTENT[:-1] + b"x", CONTENT[:-1], b"<html>"])
def test_another_content_is_not_kept(server: Server, body: bytes) -> None:
    server.reply = send(body)
    for weights in (GOOD, replace(ON_TERMS, terms="")):
        with pytest.raises(FileError, match=r"did not send the official net\.pt: it"):
            w.obtain(replace(weights, url=server.url))
    assert not w.cache_folder().exists()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"SMTP nonsense\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\n\r\n",
    ],
)
def test_replies_that_are_none_are_one_sentence(server: Server, text: bytes) -> None:
    server.reply = lambda handler: handler.wfile.write(text)
    with pytest.raises(FileError, match=r"net\.pt .*could not be downloaded: .*Fetch"):
        w.obtain(replace(GOOD, url=server.url))


def test_the_hub_says_what_the_file_must_be(hub: Server) -> None:
    hub.digest = ""
    with pytest.raises(FileError, match=r"net\.bin could not be downloaded: .*by hand"):
        w.obtain(HUB)
    hub.digest = SHA256
    path = w.obtain(HUB)
    assert path.read_bytes() == CONTENT
    assert w.locate(HUB) == (path, "the hub's cache")
    assert w.obtain(HUB) == path
    assert len(hub.requests) == 1
    path.resolve().write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(FileError, match="its SHA-256 differs"):
        w.obtain(HUB)
    path.unlink()
    hub.digest = "0" * 64
    with pytest.raises(FileError, match=r"net\.bin.*its SHA-256 differs"):
        w.obtain(HUB)


def test_no_program_may_fetch_it_or_offline_name_the_next_step(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand = replace(GOOD, page="https://x.example/a")
    with pytest.raises(FileError, match=r"by a program.*https://x\.example/a by hand"):
        w.obtain(by_hand)
    monkeypatch.setenv(w.OFFLINE_VARIABLE, "1")
    package = "some-package", "no_module", "x.pt"
    packaged = replace(GOOD, url=server.url, package=package)
    with pytest.raises(FileError, match=r"forbids downloads.*pip install some-package"):
        w.obtain(packaged)
    assert server.requests == []
    monkeypatch.setenv(w.OFFLINE_VARIABLE, "No")
    assert w.obtain(packaged).read_bytes() == CONTENT


# ---- terms and terminals -------------------------------------------------------------


def test_nothing_is_fetched_before_its_terms_are_accepted(server: Server) -> None:
    weights = replace(ON_TERMS, url=server.url)
    with pytest.raises(FileError, match=r"consent\. Run: semisure fetch gim-loftr"):
        w.obtain(weights)
    assert server.requests == []
    file = w.obtain(weights, accept_terms=True)
    assert w.obtain(weights) == file  # it is here: nobody is asked again


@pytest.mark.parametrize(
    ("flags", "typed", "code"), [([], "n\n", 1), ([], "y\n", 0), (["--yes"], "", 0)]
)
def test_fetch_asks_for_consent(
    server: Server, monkeypatch, flags: list[str], typed: str, code: int
) -> None:
    monkeypatch.setitem(w.WEIGHTS, "gim-loftr", replace(ON_TERMS, url=server.url))
    done = CliRunner().invoke(app, ["fetch", "gim-loftr", *flags], input=typed)
    assert done.exit_code == code, done.output
    assert bool(server.requests) == (code == 0)
    if code == 0:
        assert "has its weights in" in done.output
    if not flags:
        assert "For research only." in done.output
