"""Downloads from a hostile server, several at once, into a hostile cache."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from semisure.errors import FileError
from semisure.matchers import _weights as w

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX locks")

CONTENT = bytes(range(256)) * 800
GOOD = w.Weights(
    filename="net.pt",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    size=len(CONTENT),
    licence="Apache-2.0",
)
HUB = w.Weights(filename="mine.bin", licence="MIT", hub="some/net")
LISTED = {"oid": GOOD.sha256, "size": GOOD.size}


class Server(ThreadingHTTPServer):
    """Answers by the function `reply`, and remembers the ranges that were asked for."""

    daemon_threads = True
    reply: Callable[[BaseHTTPRequestHandler, int], None]
    head: Callable[[BaseHTTPRequestHandler], None]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.ranges: list[str | None] = []
        self.url = f"http://127.0.0.1:{self.server_port}/net.pt"

    def handle_error(self, request, client_address) -> None:
        """Clients that hang up are no news."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        header = self.headers.get("Range")
        self.server.ranges.append(header)
        self.server.reply(self, int(header[6:-1]) if header else 0)

    def do_HEAD(self) -> None:
        self.server.head(self)

    def log_message(self, *args: object) -> None:
        pass


def send(body: bytes, *, stated: int | None = None, slowly: bool = False):
    """A reply with `body` from the byte asked for; it may state another length."""

    def reply(handler: BaseHTTPRequestHandler, start: int) -> None:
        handler.send_response(206 if start else 200)
        rest = body[start:]
        length = len(rest) if stated is None else stated - start
        handler.send_header("Content-Length", str(length))
        handler.end_headers()
        for k in range(0, len(rest), 8192):
            handler.wfile.write(rest[k : k + 8192])
            if slowly:
                time.sleep(0.002)

    return reply


def state_length(length: object):
    """A reply to HEAD that states a length."""

    def reply(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(length))
        handler.end_headers()

    return reply


def raw(text: bytes):
    return lambda handler, start: handler.wfile.write(text)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("SEMISURE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SEMISURE_OFFLINE", raising=False)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    with Server() as running:
        monkeypatch.setenv("HF_ENDPOINT", running.url.removesuffix("/net.pt"))
        running.reply = send(CONTENT)
        running.head = state_length(len(CONTENT))
        thread = threading.Thread(target=running.serve_forever, args=(0.05,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def part(*, content: bytes | None = None) -> Path:
    path = w.cache_folder() / "net.pt.part"
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is not None:
        path.write_bytes(content)
    return path


# ---- what is here already stays ------------------------------------------------------


def test_a_body_that_ends_early_keeps_its_part_and_goes_on(server: Server) -> None:
    weights = replace(GOOD, url=server.url)
    server.reply = send(CONTENT[:70_000], stated=len(CONTENT))
    with pytest.raises(FileError, match=r"70,000 of 204,800 bytes, .* run again"):
        w.obtain(weights)
    server.reply = send(CONTENT[:90_000], stated=len(CONTENT))
    with pytest.raises(FileError, match="90,000 of"):
        w.obtain(weights)
    server.reply = send(CONTENT)
    assert w.obtain(weights).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=70000-", "bytes=90000-"]
    assert [path.name for path in w.cache_folder().iterdir()] == ["net.pt"]


def test_a_server_that_begins_anew_and_stops_loses_nothing(server: Server) -> None:
    path = part(content=CONTENT[:70_000])
    server.reply = lambda handler, start: send(CONTENT[:5000], stated=9000)(handler, 0)
    with pytest.raises(FileError, match="70,000 of"):
        w.obtain(replace(GOOD, url=server.url))
    assert path.read_bytes() == CONTENT[:70_000]


def test_a_part_that_is_whole_needs_no_server(server: Server) -> None:
    part(content=CONTENT)
    assert w.obtain(replace(GOOD, url=server.url)).read_bytes() == CONTENT
    assert server.ranges == []


def test_another_part_than_was_asked_for_is_not_appended(server: Server) -> None:
    path = part(content=CONTENT[:70_000])

    def shifted(handler: BaseHTTPRequestHandler, start: int) -> None:
        handler.send_response(206)
        handler.send_header("Content-Range", f"bytes 10-{len(CONTENT) - 1}/*")
        handler.end_headers()
        handler.wfile.write(CONTENT[10:])

    server.reply = shifted
    with pytest.raises(FileError, match="another part than was asked for"):
        w.obtain(replace(GOOD, url=server.url))
    assert path.read_bytes() == CONTENT[:70_000]


def test_a_part_that_the_server_does_not_know_is_dropped(server: Server) -> None:
    part(content=CONTENT[:70_000])
    server.reply = lambda handler, start: handler.send_error(416)
    with pytest.raises(FileError, match=r"it was deleted\. Run again"):
        w.obtain(replace(GOOD, url=server.url))
    server.reply = send(CONTENT)
    assert w.obtain(replace(GOOD, url=server.url)).read_bytes() == CONTENT


def test_three_at_once_get_one_right_file(server: Server) -> None:
    server.reply = send(CONTENT, slowly=True)
    for trial in range(5):
        weights = replace(GOOD, filename=f"{trial}.pt", url=server.url)
        server.ranges.clear()
        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(lambda _, one=weights: w.obtain(one), range(3)))
        assert [path.read_bytes() for path in found] == [CONTENT] * 3
        assert server.ranges == [None]
    assert len(list(w.cache_folder().iterdir())) == 5


# ---- what servers say ----------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"SMTP nonsense\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 300 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc",
        b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n",
    ],
)
def test_replies_that_are_no_http_are_one_sentence(server, text: bytes) -> None:
    server.reply = raw(text)
    with pytest.raises(FileError, match=r"net\.pt"):
        w.obtain(replace(GOOD, url=server.url))


@pytest.mark.parametrize("address", ["nonsense", "http://[", "http://a b", "ftp:x"])
def test_a_mirror_that_is_no_address_is_one_sentence(
    server, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    with pytest.raises(FileError, match=r"mine\.bin could not be downloaded"):
        w.obtain(HUB)


def listing(**changed: object) -> bytes:
    return json.dumps([{"path": "mine.bin", "lfs": {**LISTED, **changed}}]).encode()


@pytest.mark.parametrize(
    "text",
    [
        b"[1, 2]",
        b"null",
        b"[" * 100_000,
        b"[" + b"9" * 5000 + b"]",
        listing(size=-1),
        listing(size="12"),
        listing(size=True),
        listing(size=1e9),
        listing(size=2**70),
        listing(size=None),
        listing(oid="abc"),
        listing(oid=None),
        listing(oid="../" * 21 + "x"),
        listing(oid=GOOD.sha256.upper()),
        b'[{"path": "mine.bin", "lfs": []}]',
        "[{'path'\u00e9".encode("latin-1"),
    ],
)
def test_odd_listings_are_not_trusted(server: Server, text: bytes) -> None:
    server.reply = raw(b"HTTP/1.0 200 OK\r\n\r\n" + text)
    with pytest.raises(FileError, match=r"does not list mine\.bin with its SHA-256"):
        w.obtain(HUB)
    assert len(server.ranges) == 1


@pytest.mark.parametrize("value", ["0", "false", "No", "off", ""])
def test_offline_can_be_switched_off(server, value: str, monkeypatch) -> None:
    monkeypatch.setenv("SEMISURE_OFFLINE", value)
    assert w.obtain(replace(GOOD, url=server.url)).read_bytes() == CONTENT


# ---- what lies in the cache ----------------------------------------------------------


def test_a_symlinked_part_is_refused_and_its_target_untouched(server, tmp_path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    part().symlink_to(victim)
    with pytest.raises(FileError, match=r"part must be a plain file"):
        w.obtain(replace(GOOD, url=server.url))
    assert victim.read_bytes() == b"precious"


@pytest.mark.parametrize("make", ["mkfifo", "mkdir"])
def test_a_part_that_is_no_file_is_refused(server: Server, make: str) -> None:
    getattr(os, make)(part())
    with pytest.raises(FileError, match="must be a plain file"):
        w.obtain(replace(GOOD, url=server.url))


def test_a_cache_that_is_a_file_is_one_sentence(server: Server, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    with pytest.raises(
        FileError, match=r"could not be downloaded: (File exists|Not a)"
    ):
        w.obtain(replace(GOOD, url=server.url))


@pytest.fixture
def fetched(server: Server) -> Path:
    listed = raw(b"HTTP/1.0 200 OK\r\n\r\n" + listing())
    server.reply = lambda handler, start: (
        listed if handler.path.startswith("/api/") else send(CONTENT)
    )(handler, start)
    return w.obtain(HUB)


@pytest.mark.parametrize("text", [b"", b"\n", "é".encode(), b"abc  mine.bin\n"])
def test_a_record_that_says_nothing_is_one_sentence(fetched: Path, text: bytes) -> None:
    fetched.with_name("mine.bin.sha256").write_bytes(text)
    with pytest.raises(FileError, match=r"must hold the SHA-256 of mine\.bin"):
        w.obtain(HUB)


def test_without_its_record_a_file_is_said_to_be_unverified(fetched, caplog) -> None:
    assert w.obtain(HUB) == fetched
    assert caplog.messages == []
    fetched.with_name("mine.bin.sha256").unlink()
    assert w.obtain(HUB) == fetched
    assert "mine.bin, found in cache, was not verified" in caplog.text


def test_the_hubs_cache_names_files_by_their_digest(server, tmp_path, caplog) -> None:
    home = tmp_path / "hf" / "hub" / "models--some--net"
    for folder in ("blobs", "snapshots/0123"):
        (home / folder).mkdir(parents=True)
    blob = home / "blobs" / GOOD.sha256
    blob.write_bytes(CONTENT)
    (home / "snapshots/0123/mine.bin").symlink_to(blob)
    assert w.obtain(HUB).read_bytes() == CONTENT
    assert caplog.messages == []
    blob.write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(FileError, match="its SHA-256 differs"):
        w.obtain(HUB)
    assert server.ranges == []


def test_torchs_cache_is_said_to_be_unverified(server, tmp_path, caplog) -> None:
    checkpoints = tmp_path / "torch" / "hub" / "checkpoints"
    checkpoints.mkdir(parents=True)
    (checkpoints / "mine.bin").write_bytes(b"whatever")
    assert w.obtain(HUB) == checkpoints / "mine.bin"
    assert "found in torch's cache, was not verified" in caplog.text


# ---- what is known by its git blob, and given on terms -------------------------------

# As `git hash-object` prints it: SHA-1 of b"blob 204800", a zero byte, and the content.
BLOB = hashlib.sha1(b"blob 204800\0" + CONTENT).hexdigest()  # noqa: S324
ON_TERMS = w.Weights(
    filename="net.pt",
    licence="research only",
    git_blob=BLOB,
    terms="For research only.",
    matcher="gim-loftr",
)


def test_the_name_that_git_gives_a_content_is_computed_as_git_does(
    tmp_path: Path,
) -> None:
    # `printf 'hello\n' | git hash-object --stdin`, of any git.
    (tmp_path / "hello").write_bytes(b"hello\n")
    blob = "ce013625030ba8dba906f756967f9e9ca394464a"
    w.verify(tmp_path / "hello", replace(ON_TERMS, git_blob=blob))
    with pytest.raises(FileError, match="its git blob differs"):
        w.verify(tmp_path / "hello", ON_TERMS)


def test_nothing_is_fetched_before_its_terms_are_accepted(server: Server) -> None:
    weights = replace(ON_TERMS, url=server.url)
    with pytest.raises(FileError, match=r"consent\. Run: semisure fetch gim-loftr"):
        w.obtain(weights)
    assert server.ranges == []
    assert not w.cache_folder().exists()


def test_a_file_is_verified_by_its_git_blob_now_and_later(server: Server) -> None:
    weights = replace(ON_TERMS, url=server.url)
    file = w.obtain(weights, accept_terms=True)
    assert file.read_bytes() == CONTENT
    assert w.obtain(weights) == file  # it is here: nobody is asked again
    file.write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(FileError, match="its git blob differs"):
        w.obtain(weights)


@pytest.mark.parametrize("body", [CONTENT[:-1] + b"x", b"<html>", CONTENT + b"more"])
def test_another_content_is_not_kept(server: Server, body: bytes) -> None:
    server.reply, server.head = send(body), state_length(len(body))
    with pytest.raises(FileError, match=r"is not the official net\.pt"):
        w.obtain(replace(ON_TERMS, url=server.url), accept_terms=True)
    assert not list(w.cache_folder().glob("net.pt*"))


@pytest.mark.parametrize("length", ["", "-1", "0", "many", "9" * 30])
def test_a_server_that_states_no_size_is_not_believed(
    server: Server, length: str
) -> None:
    server.head = state_length(length)
    with pytest.raises(FileError, match=r"does not say how large|could not be"):
        w.obtain(replace(ON_TERMS, url=server.url), accept_terms=True)


def test_a_download_of_a_blob_goes_on_where_it_stopped(server: Server) -> None:
    weights = replace(ON_TERMS, url=server.url)
    server.reply = send(CONTENT[:70_000], stated=len(CONTENT))
    with pytest.raises(FileError, match="run again to continue"):
        w.obtain(weights, accept_terms=True)
    server.reply = send(CONTENT)
    assert w.obtain(weights, accept_terms=True).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=70000-"]


def test_gims_weights_are_known_by_the_blob_of_their_repository() -> None:
    from semisure.matchers.gim import WEIGHTS

    assert WEIGHTS.git_blob == "490fcc531b20fc02187eb4bc70976c94eccaa5f3"
    assert WEIGHTS.address.startswith("https://github.com/xuelunshen/gim/raw/")
    assert "research purposes only" in WEIGHTS.terms


@pytest.mark.parametrize(
    ("flags", "typed", "code"),
    [([], "", 2), ([], "n\n", 1), ([], "y\n", 0), (["--yes"], "", 0)],
)
def test_fetch_asks_for_consent(
    server: Server, monkeypatch, flags: list[str], typed: str, code: int
) -> None:
    pytest.importorskip("torch")
    from typer.testing import CliRunner

    from semisure.cli import app, matchers
    from semisure.matchers import gim

    monkeypatch.setattr(gim, "WEIGHTS", replace(ON_TERMS, url=server.url))
    monkeypatch.setattr(matchers, "_is_person", lambda: bool(typed))
    done = CliRunner().invoke(app, ["fetch", "gim-loftr", *flags], input=typed)
    assert done.exit_code == code, done.output
    assert bool(server.ranges) == (code == 0)
    if code == 0:
        assert "has its weights in" in done.output
    if not flags:
        assert "For research only." in done.output
