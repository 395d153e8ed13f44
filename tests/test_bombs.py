"""Small files that would take gigabytes, hours, or for ever: refused by their head."""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
import zipfile
import zlib

import cv2
import numpy as np
import pytest

from semisure.errors import FileError
from semisure.io.files import load_matches, save_matches
from semisure.io.images import read_image
from semisure.synthetic import SyntheticMatcher


def chunk(kind: bytes, data: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(kind + data))
    return struct.pack(">I", len(data)) + kind + data + checksum


def png(width: int, height: int, bits: int = 8) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, bits, 2, 0, 0, 0)
    body = chunk(b"IDAT", zlib.compress(bytes(1 << 20)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + body + chunk(b"IEND", b"")


def jpeg(width: int, height: int) -> bytes:
    encoded = cv2.imencode(".jpg", np.zeros((16, 16, 3), np.uint8))[1].tobytes()
    at = encoded.index(b"\xff\xc0")
    return encoded[: at + 5] + struct.pack(">HH", height, width) + encoded[at + 9 :]


IMAGES = {
    "large.png": (png(32_000, 32_000), "pixels"),
    "deep.png": (png(9_000, 9_000, bits=16), "pixels"),
    "large.jpg": (jpeg(65_000, 65_000), "pixels"),
    "scans.jpg": (jpeg(8_000, 8_000)[:-2] + b"\xff\xda" * 100_000 + b"\xff\xd9", "sc"),
}


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_that_would_take_gigabytes_is_refused(tmp_path, name: str) -> None:
    content, words = IMAGES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileError, match=f"{name} .*{words}"):
        read_image(tmp_path / name)


@pytest.mark.parametrize("name", ["nobody_needs_this", "source"])
def test_an_array_of_400_mb_is_refused_or_not_unpacked(tmp_path, name: str) -> None:
    path = tmp_path / "a.npz"
    if name != "source":
        matches, _ = SyntheticMatcher().match(np.eye(3), count=50)
        save_matches(matches, path)
    head = io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (50 << 20,)}
    np.lib.format.write_array_header_1_0(head, shape)
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(f"{name}.npy", "w", force_zip64=True) as member,
    ):
        member.write(head.getvalue())
        for _ in range(25):
            member.write(bytes(1 << 24))
    tracemalloc.start()
    if name == "source":
        with pytest.raises(FileError, match="more than 384 MB once unpacked"):
            load_matches(path)
    else:
        assert len(load_matches(path)) == 50
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50e6


@pytest.mark.parametrize(
    ("read", "suffix"), [(read_image, "png"), (load_matches, "npz")]
)
def test_a_hole_of_gigabytes_and_a_pipe_are_refused(tmp_path, read, suffix) -> None:
    hole, pipe = tmp_path / f"hole.{suffix}", tmp_path / f"pipe.{suffix}"
    with hole.open("wb") as file:
        file.truncate(8 << 30)
    with pytest.raises(FileError, match="hole"):
        read(hole)
    if hasattr(os, "mkfifo"):
        os.mkfifo(pipe)
        with pytest.raises(FileError, match="it is no plain file"):
            read(pipe)
