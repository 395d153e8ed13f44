"""Seconds that a process has spent on cues alone, for those who report overheads."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_spent = [0.0]


def extraction(function: Callable[P, T]) -> Callable[P, T]:
    """Count the time of a function that only cues need, not the matches themselves.

    On a GPU it counts what the CPU waits for, no more.
    """

    @wraps(function)
    def timed(*args: P.args, **kwargs: P.kwargs) -> T:
        begin = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            _spent[0] += time.perf_counter() - begin

    return timed


def seconds_on_cues() -> float:
    """All of them so far; the difference of two readings is one pair's."""
    return _spent[0]
