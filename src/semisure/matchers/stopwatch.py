"""Seconds that a process has spent on cues alone, for those who report overheads."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

Stage = Literal["coarse", "fine"]  # the spread of the coarse rows, of the fine heat map
_spent: dict[Stage, float] = {"coarse": 0.0, "fine": 0.0}


@contextmanager
def extraction(stage: Stage) -> Iterator[None]:
    """Count the time of what only cues need, not the matches; a decorator, too."""
    synchronise()
    begin = time.perf_counter()
    yield
    synchronise()
    _spent[stage] += time.perf_counter() - begin


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
