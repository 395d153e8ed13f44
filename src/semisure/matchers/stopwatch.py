"""Seconds that a process has spent on cues alone, to report their overhead."""

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
    """Count the time of work that only cues need; also a decorator."""
    synchronise()
    begin = time.perf_counter()
    yield
    synchronise()
    _spent[stage] += time.perf_counter() - begin


def seconds_on_cues() -> dict[Stage, float]:
    """The totals so far; the difference of two readings is one pair's."""
    return dict(_spent)


def synchronise() -> None:
    """Wait until the GPU has finished, if one is in use."""
    torch = sys.modules.get("torch")
    if torch is None:
        return
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()
    elif torch.backends.mps.is_available():
        torch.mps.synchronize()
