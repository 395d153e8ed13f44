"""How long work says how far it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Tick: TypeAlias = Callable[[int, int], None]  # told (done, total)


def silent(done: int, total: int) -> None:
    """The tick of those who do not want to know."""
