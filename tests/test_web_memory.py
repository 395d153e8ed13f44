"""Uploads made to hurt: the server stays up, its memory bounded, the disk untouched."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from web_client import chunk, finish, picture, png_of_size, post, workers_of

if not Path("/proc/self/status").exists():
    pytest.skip("peak memory is read from /proc", allow_module_level=True)

import httpx2

pytestmark = pytest.mark.slow
MEGABYTE = 1_000_000
SIGNATURE = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[int, httpx2.Client]]:
    """A server whose home, folder and temporary folder are empty."""
    for name in ("home", "here", "tmp"):
        (tmp_path / name).mkdir()
    places = {"HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path / "tmp")}
    command = "from semisure.cli import main; main()"
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(
            [sys.executable, "-c", command, "serve", "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=tmp_path / "here",
            env={**os.environ, **places},
        ) as running,
    ):
        assert running.stdout is not None
        match = re.search(r"http\S+", running.stdout.readline())
        assert match
        with httpx2.Client(base_url=match[0], timeout=60) as client:
            yield running.pid, client
        running.terminate()
    assert "Traceback" not in (tmp_path / "log").read_text()


def peak_bytes(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    match = re.search(r"VmHWM:\s+(\d+) kB", text)
    return 0 if match is None else 1024 * int(match[1])


def png(width: int, height: int, idat: bytes, *others: bytes, bits: int = 8) -> bytes:
    """Grey, or 16-bit RGBA."""
    head = struct.pack(">IIBBBBB", width, height, bits, 6 if bits == 16 else 0, 0, 0, 0)
    ends = chunk(b"IDAT", idat), chunk(b"IEND", b"")
    return b"".join((SIGNATURE, chunk(b"IHDR", head), *others, *ends))


def compressed_zeros(megabytes: int) -> bytes:
    """zlib's stream of so many zeros, of one block repeated: it is made at once."""
    packer = zlib.compressobj(9, wbits=-15)
    block = packer.compress(bytes(MEGABYTE)) + packer.flush(zlib.Z_FULL_FLUSH)
    checksum = 1
    for _ in range(megabytes):
        checksum = zlib.adler32(bytes(MEGABYTE), checksum)
    return b"\x78\xda" + megabytes * block + b"\x03\x00" + checksum.to_bytes(4, "big")


def test_the_zeros_are_what_zlib_unpacks() -> None:
    assert zlib.decompress(compressed_zeros(3)) == bytes(3 * MEGABYTE)


def bombs() -> dict[str, bytes]:
    """Small files that would be large if they were believed."""
    zeros = compressed_zeros(400)  # 0.4 MB
    text = chunk(b"zTXt", b"Comment\x00\x00" + zeros)
    profile = chunk(b"iCCP", b"x\x00\x00" + zeros)
    fits = zlib.compress(bytes(201 * 200), 9)
    jpeg = bytearray(picture(suffix=".jpg"))
    at = jpeg.index(b"\xff\xc0")
    jpeg[at + 5 : at + 9] = struct.pack(">HH", 65_500, 65_500)
    webp = b"RIFF\x00\x00\x00\x00WEBPVP8X"
    return {
        "a PNG of 3.6 Gpx": png_of_size(60_000, 60_000),
        "a PNG of 400 MB under a small size": png(200, 200, zeros),
        "a comment of 400 MB": png(200, 200, fits, text),
        "a colour profile of 400 MB": png(200, 200, fits, profile),
        "a 16-bit PNG of 24 Mpx": png(6000, 4000, zeros, bits=16),
        "a JPEG of 4.3 Gpx": bytes(jpeg),
        "a progressive JPEG of a thousand scans": bytes(jpeg) + b"\xff\xda" * 1000,
        "a WebP of 268 Mpx": webp + bytes(8) + b"\xff\x3f\x00" * 2,
        "a ZIP": b"PK\x03\x04" + zeros,
        "a gzip": b"\x1f\x8b\x08\x00" + zeros,
        "a TIFF": b"II*\x00" + zeros,
        "an EXR": b"\x76\x2f\x31\x01" + bytes(2000),
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


def test_slow_and_broken_uploads_leave_room_for_others(server) -> None:
    """Half a request each from a few sockets, then silence: others are answered."""
    import socket

    _, client = server
    host, port = str(client.base_url.host), client.base_url.port
    head = (
        f"POST /api/jobs HTTP/1.1\r\nHost: {host}:{port}\r\n"
        "Content-Length: 30000000\r\n"
        "Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n"
    )
    opened = []
    for _ in range(12):
        opened.append(socket.create_connection((host, port)))
        opened[-1].sendall(head.encode())
    time.sleep(0.2)
    assert finish(client, post(client, picture(), picture(9)))["state"] == "done"
    for one in opened:
        one.close()
    assert client.get("/api/menu").status_code == 200


def mangled(rng: np.random.Generator, suffix: str) -> bytes:
    """A real image with flipped, cut or doubled bytes after its size."""
    data = bytearray(picture(side=120, suffix=suffix))
    for at in rng.integers(60, len(data), rng.integers(1, 12)):
        data[at] = rng.integers(256)
    cut = int(rng.integers(80, len(data)))
    kind = rng.integers(3)
    if kind == 0:
        del data[cut : cut + int(rng.integers(1, 200))]
    elif kind == 1:
        data[cut:cut] = data[: int(rng.integers(1, 200))]
    return bytes(data)


def test_damaged_images_end_in_a_result_or_a_sentence(server, tmp_path) -> None:
    """Decoders meet them in the workers; whatever comes of it, each job has an end."""
    pid, client = server
    rng = np.random.default_rng(0)
    ends: dict[str, int] = {}
    for k in range(45):
        suffix = (".png", ".jpg", ".webp")[k % 3]
        answer = post(client, mangled(rng, suffix), picture(side=120))
        if answer.status_code == 202:
            job = finish(client, answer)
            assert job["state"] == "done" or job["message"]
            ends[job["state"]] = ends.get(job["state"], 0) + 1
        else:
            assert answer.status_code == 422
            assert answer.json()["detail"].startswith("Image 1")
    assert set(ends) == {"done", "failed"}  # it was neither too mild nor too harsh
    assert finish(client, post(client, picture(), picture(9)))["state"] == "done"
    assert max(map(peak_bytes, [pid, *workers_of(pid)])) < 300 * MEGABYTE
    for name in ("home", "here", "tmp"):
        assert list((tmp_path / name).rglob("*")) == [], name
