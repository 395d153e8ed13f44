"""Pickled NumPy arrays, read without running anything that the file says.

Data sets come with pickled indices. A pickle is a program: it may name any function,
and even NumPy's own take addresses from it and crash. So its instructions are checked
against a list before any of them is followed, and no name in it leads to NumPy: arrays
are rebuilt here from a plain type, a shape and bytes, once all three fit together.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

MAX_DEPTH = 16  # of lists in lists
_OPCODES = frozenset(
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
_CODES = {opcode.code: opcode for opcode in pickletools.opcodes}
_TYPE = re.compile(r"[?biufSU]\d{0,6}|[OV]\d?")


def load(data: bytes) -> Any:
    """The arrays, lists, numbers and strings of a pickle; ValueError for any other."""
    _check_instructions(data)
    loaded = _OnlyStandIns(io.BytesIO(data), encoding="latin1").load()
    return _real(loaded, {}, MAX_DEPTH)


def _check_instructions(data: bytes) -> None:
    """Raise at the first instruction that no pickle of arrays has."""
    file = io.BytesIO(data)
    name = ""
    while name != "STOP":
        opcode = _CODES.get(file.read(1).decode("latin1"))
        name = "?" if opcode is None else opcode.name
        if opcode is None or name not in _OPCODES:
            raise ValueError(f"it has the instruction {name}")
        argument = None
        if name == "GLOBAL":  # two lines, which are no literals
            file.readline()
            file.readline()
        elif opcode.arg is not None:
            argument = opcode.arg.reader(file)
        if name.endswith("PUT") and int(argument or 0) > len(data):
            raise ValueError("it numbers more objects than it has bytes")


class _Blank:
    """Something that a pickle may name and pass on, but not change."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        raise ValueError("it changes what it only may name")


class _DType(_Blank):
    """A type on its way: NumPy's pickles give its byte order in a second step."""

    __slots__ = ("code", "order")

    def __init__(self, code: object) -> None:
        if isinstance(code, bytes):
            code = code.decode("ascii")
        if not isinstance(code, str) or not _TYPE.fullmatch(code):
            raise ValueError(f"it has an array of the type {str(code)[:20]!r}")
        self.code, self.order = code, "|"

    def __setstate__(self, state: object) -> None:
        order = state[1] if isinstance(state, tuple) and len(state) > 4 else None
        if isinstance(order, bytes):
            order = order.decode("ascii")
        if order not in ("<", ">", "|", "=") or any(state[2:5]):  # type: ignore[index]
            raise ValueError("it has a type that is more than numbers or text")
        self.order = order

    def real(self) -> np.dtype[Any]:
        return np.dtype(self.order + self.code)


class _Array(_Blank):
    """An array on its way: NumPy's pickles fill it in a second step."""

    __slots__ = ("content", "dtype", "fortran", "shape")

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise ValueError("it has an array without a shape")
        _, self.shape, self.dtype, self.fortran, self.content = state
        shape_known = isinstance(self.shape, tuple) and all(
            type(side) is int and side >= 0 for side in self.shape
        )
        if not shape_known or not isinstance(self.dtype, _DType):
            raise ValueError("it has an array of no shape, or of no type")

    def real(self, memo: dict[int, Any], depth: int) -> Any:
        if not hasattr(self, "content"):
            raise ValueError("it has an array without content")
        count, dtype = math.prod(self.shape), self.dtype.real()
        if dtype.hasobject:
            entries = self.content
            if not isinstance(entries, list) or len(entries) != count:
                raise ValueError(f"it has an array of {count} objects without them")
            array = np.empty(count, dtype=object)
            for k, entry in enumerate(entries):
                array[k] = _real(entry, memo, depth)
        else:
            array = _from_bytes(self.content, dtype, count)
        return array.reshape(self.shape, order="F" if self.fortran else "C")


def _from_bytes(content: object, dtype: np.dtype[Any], count: int) -> Any:
    if isinstance(content, str):  # of Python 2
        content = content.encode("latin1")
    if not isinstance(content, bytes) or len(content) != count * dtype.itemsize:
        raise ValueError(f"it has an array of {count} numbers that lacks some")
    return np.frombuffer(content, dtype, count).copy()


def _real(value: Any, memo: dict[int, Any], depth: int) -> Any:
    """`value` with real arrays for the stand-ins; what is shared stays shared."""
    if not isinstance(value, (list, tuple, dict, _Blank)):
        return value
    if not depth:
        raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
    if id(value) not in memo:
        memo[id(value)] = _rebuilt(value, memo, depth - 1)
    return memo[id(value)]


def _rebuilt(value: Any, memo: dict[int, Any], depth: int) -> Any:
    if isinstance(value, _Array):
        return value.real(memo, depth)
    if isinstance(value, dict):
        return {key: _real(entry, memo, depth) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_real(entry, memo, depth) for entry in value)
    raise ValueError("it holds a name that is no array")


class _Named(_Blank):
    """What a pickle may name: a function of ours in NumPy's place, or no function."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[..., Any] | None) -> None:
        self.function = function

    def __call__(self, *arguments: object) -> Any:
        if self.function is None:
            raise ValueError("it calls what it only may name")
        return self.function(*arguments)


def _reconstruct(kind: object, shape: object, typecode: object) -> _Array:
    """An array that is filled later."""
    if kind is not _ND_ARRAY:
        raise ValueError("it has an array that is none of NumPy's")
    return _Array()


def _scalar(dtype: object, content: object) -> Any:
    if not isinstance(dtype, _DType) or dtype.real().hasobject:
        raise ValueError("it has a number of no type")
    return _from_bytes(content, dtype.real(), 1)[0].item()


def _encode(text: object, encoding: object) -> bytes:
    """Bytes, as older protocols write them."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise ValueError("it has text that is no bytes")
    return text.encode("latin1")


_ND_ARRAY = _Named(None)
_NAMES: dict[tuple[str, str], _Blank] = {
    ("numpy", "ndarray"): _ND_ARRAY,
    ("numpy", "dtype"): _Named(lambda code, *_: _DType(code)),
    ("_codecs", "encode"): _Named(_encode),
    ("__builtin__", "bytes"): _Named(lambda: b""),  # none, of an old protocol
}
for _package in ("numpy.core.multiarray", "numpy._core.multiarray"):
    _NAMES[_package, "_reconstruct"] = _Named(_reconstruct)
    _NAMES[_package, "scalar"] = _Named(_scalar)


class _OnlyStandIns(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _NAMES:
            raise ValueError(f"it asks for {module}.{name}")
        return _NAMES[module, name]
