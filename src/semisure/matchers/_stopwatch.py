"""Seconds that a process has spent on cues alone, for those who report overheads."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import wraps
from typing import Literal, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Stage = Literal["coarse", "fine"]  # the spread of the coarse rows, of the fine heat map
_spent: dict[Stage, float] = {"coarse": 0.0, "fine": 0.0}
_running: list[Stage] = []


def extraction(stage: Stage) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Count the time of a function that only cues need, not the matches themselves.

    The device is waited for before and after. What is called within is not counted a
    second time.
    """

    def counting(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            if _running:
                return function(*args, **kwargs)
            synchronise()
            _running.append(stage)
            begin = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                synchronise()
                _spent[stage] += time.perf_counter() - begin
                _running.pop()

        return timed

    return counting


def seconds_on_cues() -> dict[Stage, float]:
    """All of them so far; the difference of two readings is one pair's."""
    return dict(_spent)


def synchronise() -> None:
    """Wait for what a graphics card still computes; nothing where none is in use."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    elif torch.backends.mps.is_available():
        torch.mps.synchronize()
