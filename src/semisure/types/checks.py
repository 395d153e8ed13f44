"""Checks that the types share; an error is one sentence that names the offender."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from semisure.errors import FileError, InputError, in_short
from semisure.types.arrays import Array, BoolArray, FloatArray, Mask

Choice = TypeVar("Choice", bound=str)

# Beyond any image, and small enough that its fourth power is far from overflow.
MAX_PX = 1e9
MAX_WORLD = 1e12  # the same for lengths in a map's unit, whatever that is


def as_choice(name: str, value: str, choices: Sequence[Choice]) -> Choice:
    """`value` if it is one of `choices`; otherwise an error that lists them.

    >>> as_choice("colour", "red", ("red", "blue"))
    'red'
    """
    if isinstance(value, str) and value in choices:
        return cast("Choice", value)
    shown = " ".join(repr(value).split())  # in one line: an array prints many
    shown = shown if len(shown) < 80 else f"{shown[:60]}…"
    raise InputError(
        f"{name} must be one of {', '.join(choices)}, but is {shown}."
        f"{did_you_mean(value, choices)}"
    )


def did_you_mean(value: object, choices: Sequence[str]) -> str:
    """A question that ends a sentence about a mistyped name; empty without a guess.

    >>> did_you_mean("xfeat*", ("daisy", "xfeat-star"))
    ' Did you mean xfeat-star?'
    >>> did_you_mean("sift", ("daisy", "xfeat-star"))
    ''
    """
    if not isinstance(value, str):
        return ""
    # A shortened name counts as close, however much of it is left out.
    typed = value.strip().lower()
    close = [c for c in choices if c == typed]
    close = close or [c for c in choices if typed and c.startswith(typed)]
    close = close or get_close_matches(typed, choices, n=1)
    return f" Did you mean {' or '.join(close)}?" if close else ""


def as_path(path: object, advice: str = "") -> Path:
    """`path` as a Path; an error for other types.

    >>> as_path(None)
    Traceback (most recent call last):
    semisure.errors.InputError: a path cannot be None. Give the name of a file.
    """
    require_kind("a path", path, str | PathLike, advice or "Give the name of a file.")
    return Path(cast("str | PathLike[str]", path))


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
        kind = "a folder" if path.is_dir() else "no plain file"
        raise FileError(f"The {what} {path} cannot be read: it is {kind}.")
    raise FileError(f"There is no {what} {path}.{_near(path)}")


def read_lines(path: Path) -> list[str]:
    """The lines of a text file."""
    try:
        return require_file(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path} must be a text file, but {error}.") from None


def _near(path: Path) -> str:
    """A question about the file beside it whose name differs by little."""
    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except (OSError, ValueError):
        return ""
    same = [name for name in names if Path(name).stem == path.stem and path.stem]
    close = same[:1] or get_close_matches(path.name, names, n=1, cutoff=0.8)
    return f" Did you mean {path.with_name(close[0])}?" if close else ""


def require_kind(name: str, value: object, kind: type | UnionType, advice: str) -> None:
    """Raise unless `value` is of the kind, saying what to write instead.

    >>> require_kind("calibration", "daisy", dict, "Load it first.")
    Traceback (most recent call last):
    semisure.errors.InputError: calibration cannot be of type str. Load it first.
    """
    if not isinstance(value, kind):
        what = "None" if value is None else f"of type {type(value).__name__}"
        raise InputError(f"{name} cannot be {what}. {advice}")


def as_reals(name: str, values: ArrayLike) -> FloatArray:
    """`values` as float64 of any shape; an error for text and complex numbers."""
    try:
        if np.iscomplexobj(values):
            raise InputError(f"{name} must be real numbers, but some are complex.")
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{name} must be numbers, but {in_short(error)}.") from None


def as_floats(name: str, values: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """A copy of `values` as finite float64 of `shape`; otherwise an error.

    As it is a copy, the caller may change their array later.
    """
    # One axis after the other in memory: arithmetic on (n, 2) arrays then runs
    # along n, which is several times faster than in pairs.
    array = np.array(as_reals(name, values), order="F")
    if array.shape != shape:
        raise InputError(
            f"{name} must have shape {shape} to go with the other arrays, "
            f"but has {array.shape}.{_reshaped(name, array.shape, shape)}"
        )
    require(name, array, np.isfinite(array), "be finite", "Drop such matches first.")
    return array


def _reshaped(name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> str:
    """Advice for an array with the right numbers in another shape; or nothing."""
    if len(expected) == 2 and shape == (expected[0], 1, expected[1]):  # OpenCV's points
        return f" Pass {name}.reshape(-1, {expected[1]})."
    if len(expected) == 1 and shape == (*expected, 1):
        return f" Pass {name}.reshape(-1)."
    if len(expected) == 2 and shape == expected[::-1]:
        return f" Pass {name}.T."
    return ""


def require_px(name: str, array: FloatArray) -> None:
    """Raise unless all lengths in px fit into an image."""
    rule = f"lie within ±{MAX_PX:g} px"
    require(name, array, np.abs(array) <= MAX_PX, rule, "No image is that large.")


def within_px(array: FloatArray) -> Mask:
    """Which rows hold finite lengths in px that fit into an image.

    >>> within_px(np.array([[3.0, -4.0], [np.inf, 0.0], [1e24, 0.0]])).tolist()
    [True, False, False]
    """
    with np.errstate(invalid="ignore"):
        return np.asarray((np.abs(array) <= MAX_PX).all(axis=1))


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


def in_line(array: Array) -> str:
    """An array's numbers in one line.

    >>> in_line(np.eye(2))
    '[[1. 0.] [0. 1.]]'
    """
    return " ".join(np.array2string(array, precision=4).split("\n")).replace("  ", " ")


def as_size(name: str, size: ArrayLike) -> tuple[int, int]:
    shown = as_reals(name, size)
    if shown.shape != (2,) or not ((shown >= 1) & (shown <= MAX_PX)).all():
        raise InputError(f"{name} must be (width, height) in pixels, but is {size!r}.")
    return int(shown[0]), int(shown[1])


def as_number(name: str, value: ArrayLike) -> float:
    """`value` as one finite number; otherwise an error."""
    array = as_reals(name, value)
    if array.shape != () or not np.isfinite(array):
        raise InputError(f"{name} must be one finite number, but is {value!r}.")
    return float(array)


def as_integer(name: str, value: ArrayLike) -> int:
    """`value` as one whole number; otherwise an error."""
    number = as_number(name, value)
    if number != round(number) or abs(number) > 2**53:
        raise InputError(f"{name} must be a whole number, but is {value!r}.")
    return int(number)


def put(checked: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass in its ``__post_init__``."""
    for name, value in values.items():
        object.__setattr__(checked, name, value)


def as_numbers(name: str, values: ArrayLike, count: int) -> tuple[float, ...]:
    return tuple(as_floats(name, as_reals(name, values), (count,)).tolist())
