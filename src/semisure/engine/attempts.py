"""The remaining batches when workers may die: the rules of both engines."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

Item = TypeVar("Item")
DEATHS = 2  # of workers, after which a batch is split, or its only item given up


@dataclass(frozen=True, slots=True)
class Lost:
    """The answer of an item that ended every process it was given to."""

    reason: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """A batch for one worker; its first item is number `start` of all."""

    start: int
    items: Sequence[Any]
    deaths: int = 0  # of workers with exactly this batch


class Attempts:
    """The remaining work; batches are drawn when they are needed.

    >>> queue = Attempts([["a", "poison"], ["c"]])
    >>> first = queue.take()
    >>> queue.died(first, "killed"), queue.died(queue.take(), "killed")  # twice: split
    ([], [])
    >>> queue.take().items, queue.take().items
    (['a'], ['poison'])
    """

    def __init__(self, batches: Iterable[Sequence[Any]]) -> None:
        self._batches = iter(batches)
        self._again: deque[Attempt] = deque()
        self._next = 0

    def take(self) -> Attempt | None:
        """The next attempt; None where nothing is waiting."""
        if self._again:
            return self._again.popleft()
        for items in self._batches:
            attempt = Attempt(self._next, items)
            self._next += len(items)
            return attempt
        return None

    def died(self, attempt: Attempt, reason: str) -> list[tuple[int, Lost]]:
        """Queue the batch again, or its halves, or give up its only item."""
        start, items, deaths = attempt.start, attempt.items, attempt.deaths + 1
        if deaths < DEATHS:
            self._again.append(replace(attempt, deaths=deaths))
        elif len(items) == 1:
            return [(start, Lost(reason))]
        else:
            middle = len(items) // 2
            self._again.append(Attempt(start, items[:middle]))
            self._again.append(Attempt(start + middle, items[middle:]))
        return []
