"""Pickled NumPy arrays, read without executing what the file names.

Data sets come with pickled indices. A pickle is a program: it may name any function,
and NumPy's own functions follow addresses that it holds, and crash. So its instructions
are checked against a list before any of them is followed, and what it names is replaced
by the classes below, which check type, shape and bytes before NumPy gets them.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import re
from typing import Any

import numpy as np

_INSTRUCTIONS = frozenset(
    re.findall(
        r"\w+",
        """
        PROTO FRAME STOP MARK GLOBAL STACK_GLOBAL REDUCE BUILD
        MEMOIZE BINPUT LONG_BINPUT BINGET LONG_BINGET
        NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT
        BINUNICODE SHORT_BINUNICODE BINBYTES SHORT_BINBYTES BINSTRING SHORT_BINSTRING
        EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST APPEND APPENDS
        EMPTY_DICT SETITEM SETITEMS
        """,
    )
)
_TYPE = re.compile(r"[?biufSU]\d{0,6}|[OV]\d?")
_ND_ARRAY = "numpy.ndarray"  # a name that is only passed on


def load(data: bytes) -> Any:
    """The array or dict of a pickle; ValueError for anything else."""
    for instruction, argument, _ in pickletools.genops(data):
        if instruction.name not in _INSTRUCTIONS:
            raise ValueError(f"it has the instruction {instruction.name}")
        if instruction.name.endswith("PUT") and int(argument or 0) > len(data):
            raise ValueError("it numbers more objects than it has bytes")
    loaded = _OnlyArrays(io.BytesIO(data), encoding="latin1").load()
    if not isinstance(loaded, np.ndarray | dict):
        raise ValueError("it holds no arrays")
    return loaded


class _Type:
    """In place of `numpy.dtype`, whose byte order comes in a second step."""

    def __init__(self, code: object, *_: object) -> None:
        code = _text(code)
        if not _TYPE.fullmatch(code):
            raise ValueError(f"it has an array of the type {code[:20]!r}")
        self.dtype = np.dtype(code)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if any(state[2:5]):
            raise ValueError("it has a type that is more than numbers or text")
        self.dtype = self.dtype.newbyteorder(_text(state[1]))  # type: ignore[arg-type]


class _Array(np.ndarray[Any, Any]):
    """An array, whose shape, type and content come in a second step."""

    def __new__(cls, kind: object, shape: object, code: object) -> _Array:
        if kind is not _ND_ARRAY:
            raise ValueError("it has an array that is none of NumPy's")
        return super().__new__(cls, (0,))

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, content = state
        if not all(type(side) is int and side >= 0 for side in shape):
            raise ValueError("it has an array of no shape")
        count, dtype = math.prod(shape), kind.dtype
        if not dtype.hasobject:
            content = _numbers(content, dtype, count)
        elif not isinstance(content, list) or len(content) != count:
            raise ValueError(f"it has an array of {count} objects without them")
        checked: Any = (1, tuple(shape), dtype, bool(fortran), content)
        super().__setstate__(checked)


def _numbers(content: object, dtype: np.dtype[Any], count: int) -> bytes:
    """The bytes of `count` numbers; Python 2 stores them as text."""
    content = content.encode("latin1") if isinstance(content, str) else content
    size = dtype.itemsize or -1  # text without letters could be of any length
    if not isinstance(content, bytes) or len(content) != count * size:
        raise ValueError(f"it has an array of {count} numbers that lacks some")
    return content


def _scalar(kind: _Type, content: object) -> Any:
    if kind.dtype.hasobject:
        raise ValueError("it has a number of no type")
    return np.frombuffer(_numbers(content, kind.dtype, 1), kind.dtype)[0].item()


def _encode(text: str, encoding: object) -> bytes:
    """Bytes, as older protocols write them."""
    return text.encode("latin1")


def _text(value: object) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else str(value)


_NAMES: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _ND_ARRAY,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "bytes"): lambda: b"",  # none, of an old protocol
}
for _package in ("numpy.core.multiarray", "numpy._core.multiarray"):
    _NAMES[_package, "_reconstruct"] = _Array
    _NAMES[_package, "scalar"] = _scalar


class _OnlyArrays(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _NAMES:
            raise ValueError(f"it asks for {module}.{name}")
        return _NAMES[module, name]
