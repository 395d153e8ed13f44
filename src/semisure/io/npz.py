"""NPZ files by strangers: what each array will take is known before it is read."""

from __future__ import annotations

import csv
import math
import pickle
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import IO, Any

import numpy as np

from semisure.types.checks import require_file

MAX_BYTES = 384 << 20  # of all arrays of a file together
# What NumPy, zipfile, csv and unpicklers raise on damaged files.
UNREADABLE = (
    OSError,
    ValueError,
    TypeError,
    EOFError,
    LookupError,
    AttributeError,
    NotImplementedError,
    RuntimeError,  # of encrypted members; RecursionError
    OverflowError,
    MemoryError,
    SyntaxError,  # of headers, which are Python literals
    tokenize.TokenError,
    zipfile.BadZipFile,
    csv.Error,
    zlib.error,
    pickle.UnpicklingError,
)
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
_BLOCK = 1 << 20
_SUFFIX = ".npy"


def read_npz(
    path: Path,
    names: Collection[str] | None = None,
    *,
    unpickle: Callable[[bytes], Any] | None = None,
) -> dict[str, Any]:
    """The arrays of a file, or those of the given `names` that it has.

    Pickled ones are refused unless `unpickle` reads them. Raises `UNREADABLE`.
    """
    require_file(path)
    arrays, left = {}, MAX_BYTES
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name = member.filename.removesuffix(_SUFFIX)
            if name == member.filename or (names is not None and name not in names):
                continue
            left -= member.file_size
            if left < 0:
                raise ValueError(
                    f"its arrays take more than {MAX_BYTES >> 20} MB once unpacked"
                )
            with archive.open(member) as file:
                arrays[name] = _array(file, member.file_size, unpickle)
    return arrays


def _array(file: IO[bytes], size: int, unpickle: Callable[[bytes], Any] | None) -> Any:
    version = np.lib.format.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"it has an array in version {version} of NumPy's format")
    shape, fortran, dtype = _HEADERS[version](file)
    if dtype.hasobject:
        if unpickle is None:
            raise ValueError("it has pickled objects, which are not read")
        return unpickle(file.read())
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize > size:
        raise ValueError(f"an array of shape {shape} lacks its end")
    content = np.empty(count * dtype.itemsize, np.uint8)
    filled = 0
    while block := file.read(_BLOCK):  # up to the end, where the checksum is compared
        if filled + len(block) > len(content):
            raise ValueError(f"an array of shape {shape} has too many bytes")
        content[filled : filled + len(block)] = np.frombuffer(block, np.uint8)
        filled += len(block)
    if filled < len(content):
        raise ValueError(f"an array of shape {shape} lacks its end")
    array = content.view(dtype) if count else np.empty(0, dtype)
    return array.reshape(shape, order="F" if fortran else "C")
