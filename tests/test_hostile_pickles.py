"""Pickled arrays: hostile ones, which crash NumPy's own unpickling, and sound ones."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from semisure.datasets.megadepth import read_megadepth
from semisure.datasets.numpy_pickles import load
from semisure.errors import FileError
from test_datasets import write_index


def _state(code: str, state: tuple[object, ...]) -> bytes:
    """A pickle of `numpy.dtype(code)` whose state the file chooses."""
    return (
        b"\x80\x02cnumpy\ndtype\n"
        + pickle.dumps((code, False, True), 2)[2:-1]
        + b"R"
        + pickle.dumps(state, 2)[2:-1]
        + b"b."
    )


def _array(shape: object, code: str, content: object) -> bytes:
    """A pickle of an array of the type `code` whose state the file chooses."""
    dtype = _state(code, (3, "<", None, None, None, -1, -1, 0))[2:-1]
    return (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n"
        b"(cnumpy\nndarray\nK\x00\x85U\x01btR(K\x01"
        + pickle.dumps(shape, 2)[2:-1]
        + dtype
        + b"\x89"
        + pickle.dumps(content, 2)[2:-1]
        + b"tb."
    )


ADDRESSES = b"AAAAAAAA" * 4
HOSTILE = {
    "a function of the system": b"\x80\x02cposix\nmkdir\nX\x04\0\0\0evil\x85R.",
    "fields at an address": _state("V8", (3, "|", None, ("a",), {"a": 1}, 8, 8, 0)),
    "a subarray of itself": _state("V8", (3, "|", (0, (9,)), None, None, 8, 8, 0)),
    "objects at addresses": _array((4,), "O8", ADDRESSES),
    "fewer bytes than said": _array((2**40,), "f8", ADDRESSES),
    "a negative shape": _array((-1,), "f8", ADDRESSES),
    "text without letters": _array((2**40,), "U0", b""),
    "a class of its own": b"\x80\x02cnumpy\nndarray\n)\x81.",
    "a memo of gigabytes": b"\x80\x02Nr\xff\xff\xff\x7f.",
    "a changed function": b"\x80\x02cnumpy\ndtype\nN}U\x01aK\x01s\x86b.",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickles_are_one_sentence(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "scene_info" / "0022.npz"
    path.parent.mkdir()
    write_index(path)
    member = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        member, {"descr": "|O", "fortran_order": False, "shape": (1,)}
    )
    with zipfile.ZipFile(path) as old:
        others = {n: old.read(n) for n in old.namelist() if n != "image_paths.npy"}
    with zipfile.ZipFile(path, "w") as new:
        for other, content in others.items():
            new.writestr(other, content)
        new.writestr("image_paths.npy", member.getvalue() + HOSTILE[name])
    with pytest.raises(FileError, match="is not an index that can be read: "):
        read_megadepth(tmp_path)
    assert not Path("evil").exists()


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_arrays_numbers_and_text_are_rebuilt_as_they_were(protocol: int) -> None:
    infos = np.empty((2, 1), dtype=object)
    infos[:, 0] = [((0, 1), 0.3, np.array([1, 2])), "a"]
    for value in (
        np.arange(6, dtype=">i2").reshape(2, 3, order="F"),
        np.array(["é", "ab"]),
        np.array([b"x", b"yz"]),
        np.zeros((0, 3)),
    ):
        back = load(pickle.dumps(value, protocol))
        assert back.dtype.kind == value.dtype.kind
        np.testing.assert_array_equal(back, value)
    (pair, inner, array), text = load(pickle.dumps(infos, protocol))[:, 0]
    assert (pair, inner, array.tolist(), text) == ((0, 1), 0.3, [1, 2], "a")
    numbers = [np.float64(0.25), np.int32(-3), np.bool_(True)]
    rest = {"a": (1, None, 2.5, -7, "text"), "b": numbers}
    assert load(pickle.dumps(rest, protocol)) == rest
