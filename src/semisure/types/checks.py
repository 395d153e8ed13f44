"""Checks that the types share: one sentence that names the offender."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike

from semisure.errors import FileError, InputError
from semisure.types.arrays import Array, BoolArray, FloatArray

Choice = TypeVar("Choice", bound=str)


def as_choice(name: str, value: str, choices: Sequence[Choice]) -> Choice:
    """`value` if it is one of `choices`, or a sentence that lists them.

    >>> as_choice("colour", "red", ("red", "blue"))
    'red'
    """
    for choice in choices:
        if choice == value:
            return choice
    raise InputError(f"{name} must be one of {', '.join(choices)}, but is {value!r}.")


def require_file(path: Path, what: str = "file") -> Path:
    """`path` if it is a file: a folder cannot be read, and a pipe might never end.

    >>> require_file(Path("nowhere"), "image")
    Traceback (most recent call last):
    semisure.errors.FileError: There is no image nowhere.
    """
    try:
        if path.is_file():
            return path
        exists = path.exists()
    except (OSError, ValueError):  # names that no file can have
        exists = False
    if exists:
        raise FileError(f"The {what} {path} cannot be read: it is no plain file.")
    raise FileError(f"There is no {what} {path}.")


def as_floats(name: str, values: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """`values` as finite float64 of `shape`, or a sentence naming the offender."""
    try:
        # One axis after the other in memory: arithmetic on (n, 2) arrays then runs
        # along n, which is several times faster than in pairs.
        array = np.asfortranarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers, but {error}.") from None
    if array.shape != shape:
        raise InputError(
            f"{name} must have shape {shape} to go with the other arrays, "
            f"but has {array.shape}."
        )
    require(name, array, np.isfinite(array), "be finite", "Drop such matches first.")
    return array


def require(name: str, array: Array, good: BoolArray, rule: str, advice: str) -> None:
    """Raise if any entry of `array` is not `good`, and show the first one."""
    if good.all():
        return
    bad = np.asarray(~np.atleast_2d(good.T).all(axis=0))
    first = int(np.flatnonzero(bad)[0])
    shown = np.array2string(array[first], precision=6, separator=", ")
    raise InputError(
        f"{name} must {rule}, but {int(bad.sum())} of {len(bad)} do not; "
        f"first: match {first} has {shown}. {advice}"
    )


def as_size(name: str, size: ArrayLike) -> tuple[int, int]:
    shown = np.asarray(size)
    numeric = shown.shape == (2,) and np.issubdtype(shown.dtype, np.number)
    if not numeric or not (np.isfinite(shown).all() and (shown >= 1).all()):
        raise InputError(f"{name} must be (width, height) in pixels, but is {size!r}.")
    return int(shown[0]), int(shown[1])


def as_numbers(name: str, values: ArrayLike, count: int) -> tuple[float, ...]:
    array = as_floats(name, np.atleast_1d(values), (count,))
    return tuple(float(v) for v in array)
