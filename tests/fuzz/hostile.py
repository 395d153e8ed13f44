"""What campaigns share: odd numbers, flipped bits, and the word for a wrong result."""

from __future__ import annotations

from typing import Any

import numpy as np

ODD = (
    0.0, -0.0, 1.0, -1.0, 0.5, 1e-3, 5e-324, 1e-300, 1e-30, 1e30, 1e9, 1.1e9, 1e24,
    1e160, 1e300, -1e300, np.inf, -np.inf, np.nan, 2.0**31, 2.0**53, -2.0**63,
)  # fmt: skip


class Wrong(AssertionError):
    """A result that is wrong, and does not say so."""


def require(right: object, sentence: str) -> None:
    """Raise :class:`Wrong` with the sentence unless `right`."""
    if not right:
        raise Wrong(sentence)


def chosen(rng: np.random.Generator, values: Any) -> Any:
    """One of the values, as it is."""
    values = list(values)
    return values[int(rng.integers(len(values)))]


def with_odd(rng: np.random.Generator, array: Any, share: float = 0.05) -> Any:
    """A copy with some entries, a whole row or everything replaced by odd numbers."""
    odd = np.array(array, dtype=np.float64)
    if not odd.size:
        return odd
    kind = rng.integers(4)
    if kind == 0:
        odd.flat[rng.integers(odd.size)] = chosen(rng, ODD)
    elif kind == 1:
        odd[rng.random(odd.shape) < share] = chosen(rng, ODD)
    elif kind == 2:
        odd[...] = chosen(rng, ODD)
    else:
        with np.errstate(all="ignore"):
            odd *= chosen(rng, ODD)
    return odd


def flipped(rng: np.random.Generator, data: bytes, count: int = 1) -> bytes:
    """The bytes with some bits flipped."""
    changed = bytearray(data)
    for _ in range(count if changed else 0):
        changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def damaged(rng: np.random.Generator, data: bytes) -> bytes:
    """The bytes flipped, cut, grown, repeated, zeroed or replaced."""
    kind = rng.integers(7)
    size = len(data)
    at, end = sorted(int(v) for v in rng.integers(0, size + 1, 2))
    if kind == 0:
        return flipped(rng, data)
    if kind == 1:
        return flipped(rng, data, int(rng.integers(2, 30)))
    if kind == 2:
        return data[:at]
    if kind == 3:
        return data[:at] + data[end:]
    if kind == 4:
        return data[:at] + rng.bytes(int(rng.integers(1, 64))) + data[at:]
    if kind == 5:
        return data[:at] + bytes(end - at) + data[end:]
    return data[:at] + b"\xff" * min(end - at, 8) + data[at + min(end - at, 8) :]
