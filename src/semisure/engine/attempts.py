"""What is left of a list of batches when workers may die: both engines' rules."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

Item = TypeVar("Item")
DEATHS = 2  # of workers, after which a batch is split, or its only item given up


@dataclass(frozen=True, slots=True)
class Lost:
    """The answer of an item that ended every process it was given to."""

    reason: str


@dataclass(frozen=True, slots=True)
class Attempt(Generic[Item]):
    """Some items for one worker; the first is the `start`-th of all."""

    start: int
    items: Sequence[Item]
    deaths: int = 0  # of workers that had exactly these


class Attempts(Generic[Item]):
    """What is still to be done; batches are asked for when they are needed.

    >>> left = Attempts([["a", "poison"], ["c"]])
    >>> first = left.take()
    >>> left.died(first, "killed"), left.died(left.take(), "killed")  # twice: split
    ([], [])
    >>> left.take().items, left.take().items
    (['a'], ['poison'])
    """

    def __init__(self, batches: Iterable[Sequence[Item]]) -> None:
        self._batches = iter(batches)
        self._again: deque[Attempt[Item]] = deque()
        self._next = 0

    def take(self) -> Attempt[Item] | None:
        """What to do next; None where nothing is waiting."""
        if self._again:
            return self._again.popleft()
        for items in self._batches:
            attempt = Attempt(self._next, items)
            self._next += len(items)
            if len(items):
                return attempt
        return None

    def again(self, attempt: Attempt[Item]) -> None:
        """Do it once more: its worker died for reasons of its own."""
        self._again.append(attempt)

    def died(self, attempt: Attempt[Item], reason: str) -> list[tuple[int, Lost]]:
        """Do it once more, or its halves, or give up its only item."""
        start, items, deaths = attempt.start, attempt.items, attempt.deaths + 1
        if deaths < DEATHS:
            self._again.append(replace(attempt, deaths=deaths))
        elif len(items) == 1:
            return [(start, Lost(reason))]
        else:
            # One more death splits a part of a deadly batch; an item has all its lives.
            middle = len(items) // 2
            for begin, part in ((0, items[:middle]), (middle, items[middle:])):
                lives = 0 if len(part) == 1 else DEATHS - 1
                self._again.append(Attempt(start + begin, part, lives))
        return []
