"""Rivals timed in turn, by the time they compute, on however busy a machine.

The clock is that of the process, all its threads together: waiting for others, which
a busy machine makes every rival do by chance, does not count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

Arms = Mapping[str, Callable[[], Any]]


def medians(
    arms: Arms,
    repeats: int,
    warm_up: int = 2,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """Median seconds of each arm over rounds in which every arm has its turn."""
    for _ in range(warm_up):
        for run in arms.values():
            run()
    seconds: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(repeats):
        for name, run in arms.items():
            begun = clock()
            run()
            seconds[name].append(clock() - begun)
    return {name: median(times) for name, times in seconds.items()}


def wanted(value: float, bar: float, *, at_least: bool = False) -> str:
    """The bar, and whether it was met."""
    met = value >= bar if at_least else value <= bar
    words = "at least" if at_least else "at most"
    return f"(wanted: {words} {bar:g}; {'met' if met else 'MISSED'})"
