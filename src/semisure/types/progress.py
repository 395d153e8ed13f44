"""The callback by which long work reports its progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Tick: TypeAlias = Callable[[int, int], None]  # called with (done, total)


def silent(done: int, total: int) -> None:
    """A tick that does nothing."""


Begin: TypeAlias = Callable[[str], Tick]  # called with the name of each stage


def quietly(stage: str) -> Tick:
    """Begin a stage that tells nobody."""
    return silent
