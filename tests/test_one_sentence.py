"""What is damaged, foreign or absent is told in one sentence, never by a traceback."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from semisure.bench.figures import rendered
from semisure.bench.outcome import Panel
from semisure.errors import FileError, InputError
from semisure.io.files import load_calibration, load_matches, save_matches
from semisure.report.plots import plot_reliability, png
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher

SHIPPED = load_calibration("daisy")


def refused(path: Path, content: bytes, read=load_matches) -> str:
    path.write_bytes(content)
    with pytest.raises(FileError) as refusal:
        read(path)
    assert "\n" not in str(refusal.value).strip()
    return str(refusal.value)


# ---- matches -------------------------------------------------------------------------


def archive(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as whole:
        for name, content in members.items():
            whole.writestr(f"{name}.npy", content)
    return file.getvalue()


def test_an_array_file_under_another_name(tmp_path: Path) -> None:
    file = io.BytesIO()
    np.save(file, np.zeros((3, 2)))
    assert "cannot be read" in refused(tmp_path / "a.npz", file.getvalue())


def test_an_encrypted_member(tmp_path: Path) -> None:
    matches, _ = SyntheticMatcher().match(np.eye(3), count=5)
    save_matches(matches, tmp_path / "a.npz")
    data = bytearray((tmp_path / "a.npz").read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = -1
        while (at := data.find(mark, at + 1)) >= 0:
            data[at + flags] |= 1
    assert "encrypted" in refused(tmp_path / "a.npz", bytes(data))


def test_a_header_of_a_megabyte(tmp_path: Path) -> None:
    text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (" + b"1," * 500_000
    head = b"\x93NUMPY\x02\x00" + len(text).to_bytes(4, "little") + text
    assert "cannot be read" in refused(tmp_path / "a.npz", archive(source=head))


@pytest.mark.parametrize(
    "shape", ["-1,", "2**9,", "(" * 4000, "1.5,", "'a',", "9" * 5000 + ",", "0," * 70]
)
def test_a_header_of_nonsense(tmp_path: Path, shape: str) -> None:
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': ({shape})}}".encode()
    head = b"\x93NUMPY\x02\x00" + len(text).to_bytes(4, "little") + text
    refused(tmp_path / "a.npz", archive(source=head + bytes(16)))


def test_pickled_matches_are_not_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", source=np.array([{}], dtype=object))
    told = refused(tmp_path / "a.npz", (tmp_path / "a.npz").read_bytes())
    assert "Object arrays cannot be loaded" in told


@pytest.mark.parametrize(
    "text",
    [
        b"x0," + b"y" * 200_000 + b"\n1,2\n",
        b'"' + b"x" * 300_000,
        b"x0,y0\n1,\xff\n",
        b"\xff\xfe\x00x",
        b"x0,y0\n1,2\n\x003,4\n",
    ],
)
def test_tables_of_nonsense(tmp_path: Path, text: bytes) -> None:
    refused(tmp_path / "a.csv", text)


# ---- calibrations --------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"format": ' + b"9" * 5000 + b"}",
        b"\xff\xfe",
        b"nul",
    ],
)
def test_json_of_nonsense(tmp_path: Path, text: bytes) -> None:
    refused(tmp_path / "theta.json", text, load_calibration)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("parameters", []),
        ("parameters", None),
        ("resolution", 3),
        ("resolution", [1, 2, 3]),
        ("resolution", ["a", "b"]),
        ("resolution", [10**400, 1]),
        ("pairs", {"a": 1}),
        ("pairs", [1]),
        ("law", 3),
        ("law", ["mixture"]),
        ("model_error", "x"),
        ("model_error", [[1], [2, 3]]),
        ("provenance", [1, 2]),
        ("schema_version", True),
        ("schema_version", "1"),
        ("schema_version", 0),
    ],
)
def test_calibrations_of_nonsense(tmp_path: Path, entry: str, value: object) -> None:
    from semisure.io.files import calibration_document

    document = calibration_document(EXAMPLE_CALIBRATION)
    assert entry in document
    text = json.dumps({**document, entry: value}).encode()
    refused(tmp_path / "theta.json", text, load_calibration)


# ---- names ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", [r"$\frac{$", "$a$", r"\$x$", "_hidden", "a_b^c", "%"])
def test_a_folder_named_like_tex_is_drawn_as_it_is(name: str) -> None:
    bars = Panel(title=name, xlabel=name, ylabel=name, lines={name: ([name], [1.0])})
    for kind in ("png", "svg"):
        assert rendered([bars], None, kind)
    values = np.linspace(0.1, 3, 50)
    assert png(plot_reliability(values, values, name))


# ---- devices and checkpoints ---------------------------------------------------------


@pytest.mark.parametrize("device", ["junk", "", "meta", "cpu:-3", "cuda:99"])
def test_a_device_that_is_not_there(device: str) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    from semisure.matchers import load_matcher

    if device.startswith("cuda") and torch.cuda.device_count() > 99:
        pytest.skip("it is there")
    with pytest.raises(InputError, match="device must be one that torch can use here"):
        load_matcher("comatch", device=device)


def test_no_flip_in_an_old_checkpoint_escapes(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra torch")
    from semisure.matchers.checkpoint import load_checkpoint

    def network():
        layers = torch.nn
        return layers.Sequential(layers.Conv2d(2, 3, 3), layers.BatchNorm2d(3))

    path = tmp_path / "old.pth"
    old = network().state_dict()
    torch.save(old, path, _use_new_zipfile_serialization=False)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(400):
        data = bytearray(whole)
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        try:
            back = load_checkpoint(network(), path).state_dict()
        except FileError:
            continue
        # The format has no checksum, but what is read is at least this network's.
        assert all(torch.isfinite(tensor).all() for tensor in back.values())
