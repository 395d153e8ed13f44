"""Uploads made to hurt: the server stays up, its memory bounded, the disk untouched."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from web_client import (
    chunk,
    finish,
    picture,
    png_of_size,
    post,
    serving,
    workers_of,
)

if not Path("/proc/self/status").exists():
    pytest.skip("peak memory is read from /proc", allow_module_level=True)

import httpx2

pytestmark = pytest.mark.slow
MEGABYTE = 1_000_000


@pytest.fixture
def server(tmp_path: Path, monkeypatch) -> Iterator[tuple[int, httpx2.Client]]:
    """A server whose home, folder and temporary folder are empty."""
    for name in ("home", "here", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.chdir(tmp_path / "here")
    with (
        serving() as (running, address),
        httpx2.Client(base_url=address, timeout=60) as client,
    ):
        yield running.pid, client


def peak_bytes(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    match = re.search(r"VmHWM:\s+(\d+) kB", text)
    return 0 if match is None else 1024 * int(match[1])


def png(idat: bytes, *others: bytes, side: int = 200, bits: int = 8) -> bytes:
    """A square, grey or in 16-bit RGBA."""
    head = struct.pack(">IIBBBBB", side, side, bits, 6 if bits == 16 else 0, 0, 0, 0)
    ends = chunk(b"IDAT", idat), chunk(b"IEND", b"")
    return b"".join((b"\x89PNG\r\n\x1a\n", chunk(b"IHDR", head), *others, *ends))


def bombs() -> dict[str, bytes]:
    """Small files that would be large if they were believed."""
    zeros = zlib.compress(bytes(400 * MEGABYTE), 9)  # 0.4 MB
    fits = zlib.compress(bytes(201 * 200), 9)
    jpeg = bytearray(picture(suffix=".jpg"))
    at = jpeg.index(b"\xff\xc0")
    jpeg[at + 5 : at + 9] = struct.pack(">HH", 65_500, 65_500)
    return {
        "a PNG of 3.6 Gpx": png_of_size(60_000, 60_000),
        "a PNG of 400 MB under a small size": png(zeros),
        "a comment of 400 MB": png(fits, chunk(b"zTXt", b"Comment\x00\x00" + zeros)),
        "a colour profile of 400 MB": png(fits, chunk(b"iCCP", b"x\x00\x00" + zeros)),
        "a 16-bit PNG of 25 Mpx": png(zeros, side=5000, bits=16),
        "a JPEG of 4.3 Gpx": bytes(jpeg),
        "a gzip": b"\x1f\x8b\x08\x00" + zeros,
        "a TIFF": b"II*\x00" + zeros,
        "20 MB of noise": np.random.default_rng(0).bytes(20 * MEGABYTE),
    }


def largest() -> bytes:
    """The costliest image that is accepted: 24 Mpx of texture, as a JPEG."""
    noise = np.random.default_rng(1).integers(0, 256, (400, 600), np.uint8)
    large = cv2.resize(noise, (6000, 4000), interpolation=cv2.INTER_CUBIC)
    return cv2.imencode(".jpg", large, [cv2.IMWRITE_JPEG_QUALITY, 80])[1].tobytes()


def test_what_is_made_to_hurt_is_refused_in_bounded_memory(server, tmp_path) -> None:
    pid, client = server
    assert finish(client, post(client, picture(), picture(9)))["state"] == "done"
    usual = peak_bytes(pid)
    outcomes = {}
    for name, data in bombs().items():
        answer = post(client, picture(), data)
        if answer.status_code == 202:
            job = finish(client, answer)
            outcomes[name] = job["state"], job["message"]
        else:
            outcomes[name] = answer.status_code, answer.json()["detail"]
    assert {o for o, _ in outcomes.values()} <= {413, 422, "failed", "done"}, outcomes
    assert all(words for state, words in outcomes.values() if state != "done")
    assert "internal error" not in str(outcomes)
    workers = workers_of(pid)
    assert max(peak_bytes(worker) for worker in workers) < 300 * MEGABYTE

    image = largest()
    assert finish(client, post(client, image, image))["state"] == "done"
    peaks = [peak_bytes(worker) for worker in workers_of(pid)]
    assert max(peaks) < 700 * MEGABYTE
    # The server itself holds uploads and answers, and decodes nothing.
    assert peak_bytes(pid) < usual + 100 * MEGABYTE
    assert finish(client, post(client, picture(), picture(9)))["state"] == "done"
    for name in ("home", "here", "tmp"):
        assert list((tmp_path / name).rglob("*")) == [], name
