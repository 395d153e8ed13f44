"""Odd numbers, damaged bytes and the check of results."""

from __future__ import annotations

from typing import Any

import numpy as np

ODD = (
    0.0, 1.0, -1.0, 1e-3, 5e-324, 1e-300, 1e-30, 1e30, 1.1e9, 1e24, 1e160, 1e300,
    -1e300, np.inf, -np.inf, np.nan, 2.0**31, 2.0**53, -2.0**63,
)  # fmt: skip
NO_NUMBERS: tuple[Any, ...] = (
    None, "x", [], {}, [[1], [1, 2]], object(), 1j, np.array(["a"]), True, 10**400,
)  # fmt: skip


def require(right: object, sentence: str) -> None:
    """Report a wrong result unless `right`."""
    if not right:
        raise AssertionError(sentence)


def chosen(rng: np.random.Generator, values: Any) -> Any:
    """One of the values, as it is."""
    values = list(values)
    return values[int(rng.integers(len(values)))]


def odd_value(rng: np.random.Generator, value: Any) -> Any:
    """The value with odd numbers, or another shape or type."""
    kind = rng.integers(6)
    if kind == 0:
        return chosen(rng, NO_NUMBERS)
    if kind == 1:
        return chosen(rng, ODD)
    array = np.array(value, dtype=np.float64)
    if kind == 2:
        return chosen(rng, (array.T, array[..., None], np.atleast_1d(array)[:4]))
    if kind == 3:
        with np.errstate(all="ignore"):
            return array * chosen(rng, ODD)
    array[rng.random(array.shape) < (0.05 if kind == 4 else 1)] = chosen(rng, ODD)
    return array


def damaged(rng: np.random.Generator, data: bytes) -> bytes:
    """The bytes without their end or a part, or with other bytes or bits in it."""
    start, end = sorted(int(v) for v in rng.integers(0, len(data) + 1, 2))
    kind = rng.integers(4)
    if kind == 0:
        return data[:start]
    if kind == 1:
        return data[:start] + data[end:]
    if kind == 2:
        return data[:start] + rng.bytes(end - start) + data[end:]
    flipped = bytearray(data)
    for _ in range(int(chosen(rng, (1, 1, 10)))):
        flipped[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
    return bytes(flipped)
