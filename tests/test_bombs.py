"""Small files that would take gigabytes, hours, or for ever: refused by their head."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import cv2
import numpy as np
import pytest

from semisure.io.files import save_matches
from semisure.synthetic import SyntheticMatcher

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX")

# Reads a file, then says what came of it, how long that took, and the peak in MB.
READ = """
import importlib, json, re, resource, sys, time
from pathlib import Path
from semisure.errors import SemisureError
module, name = sys.argv[1].rsplit(".", 1)
read = getattr(importlib.import_module(module), name)
start = time.perf_counter()
try:
    told = f"read {type(read(Path(sys.argv[2]))).__name__}"
except SemisureError as error:
    told = str(error)
seconds = time.perf_counter() - start
try:  # a process begins with its parent's ru_maxrss, but with a peak of its own
    status = Path("/proc/self/status").read_text()
    peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) / 1024
except OSError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([told, seconds, peak]))
"""


def outcome(reader: str, path: Path) -> str:
    """What a reader says of a bomb, within a second and 500 MB."""
    done = subprocess.run(
        [sys.executable, "-c", READ, f"semisure.{reader}", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-500:]
    told, seconds, peak = json.loads(done.stdout)
    assert seconds < 1, seconds
    assert peak < 500, peak
    return told


def chunk(kind: bytes, data: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + checksum


def png(width: int, height: int, bits: int = 8) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, bits, 2, 0, 0, 0)
    packer = zlib.compressobj(9)
    row = bytes(1 + width * 3 * bits // 8)
    body = b"".join(packer.compress(row) for _ in range(200)) + packer.flush()
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def tiff_of_one_tile(side: int) -> bytes:
    """An image of 64 × 64 px in a tile that is larger."""
    tags = {256: 64, 257: 64, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: 1}
    tags |= {322: side, 323: side}
    entries = [struct.pack("<HHII", t, 4, 1, v) for t, v in sorted(tags.items())]
    count = struct.pack("<H", len(entries))
    return b"II*\0" + struct.pack("<I", 8) + count + b"".join(entries) + bytes(400)


def jpeg(width: int, height: int) -> bytes:
    encoded = cv2.imencode(".jpg", np.zeros((16, 16, 3), np.uint8))[1].tobytes()
    at = encoded.index(b"\xff\xc0")
    return encoded[: at + 5] + struct.pack(">HH", height, width) + encoded[at + 9 :]


IMAGES = {
    "a.png": png(32_000, 32_000),
    "deep.png": png(9_000, 9_000, bits=16),
    "a.jpg": jpeg(65_000, 65_000),
    "scans.jpg": jpeg(8_000, 8_000)[:-2] + b"\xff\xda" * 100_000 + b"\xff\xd9",
    "tiled.tif": tiff_of_one_tile(1 << 15),
    "a.pgm": b"P5\n" + b"9" * 4000 + b" 1 255\n",
}


@posix
@pytest.mark.slow
@pytest.mark.parametrize("name", IMAGES)
def test_an_image_that_would_take_gigabytes_is_refused(tmp_path, name: str) -> None:
    (tmp_path / name).write_bytes(IMAGES[name])
    told = outcome("io.images.read_image", tmp_path / name)
    assert name in told


# ---- archives, holes, pipes ----------------------------------------------------------


@posix
@pytest.mark.slow
def test_arrays_of_gigabytes_are_refused_or_not_unpacked(tmp_path: Path) -> None:
    matches, _ = SyntheticMatcher().match(np.eye(3), count=50)
    head = io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (1 << 27,)}
    np.lib.format.write_array_header_1_0(head, shape)
    for name in ("nobody_needs_this", "source"):  # 1 GB in 1 MB
        path = tmp_path / f"{name}.npz"
        if name != "source":
            save_matches(matches, path)
        with (
            zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive,
            archive.open(f"{name}.npy", "w", force_zip64=True) as member,
        ):
            member.write(head.getvalue())
            for _ in range(1 << 10):
                member.write(bytes(1 << 20))
    needless = tmp_path / "nobody_needs_this.npz"
    assert outcome("io.files.load_matches", needless) == "read Matches"
    told = outcome("io.files.load_matches", tmp_path / "source.npz")
    assert "more than 384 MB once unpacked" in told


READERS = {
    ".png": "io.images.read_image",
    ".npz": "io.files.load_matches",
    ".csv": "io.files.load_matches",
    ".json": "io.files.load_calibration",
}


@posix
@pytest.mark.slow
@pytest.mark.parametrize("suffix", READERS)
def test_a_hole_of_gigabytes_and_a_pipe_are_refused(tmp_path, suffix: str) -> None:
    hole, pipe = tmp_path / f"hole{suffix}", tmp_path / f"pipe{suffix}"
    if suffix in (".png", ".npz"):  # the others are text
        with hole.open("wb") as file:
            file.truncate(8 << 30)
        assert "hole" in outcome(READERS[suffix], hole)
    os.mkfifo(pipe)
    assert "it is no plain file" in outcome(READERS[suffix], pipe)
