"""The engine without other processes: for callables that cannot be sent to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from semisure.engine.attempts import Lost
from semisure.engine.protocol import Answer, Item, checked_answers


@dataclass(frozen=True, slots=True)
class Here:
    """Works in this process, with all its threads.

    >>> from semisure.engine import Each
    >>> list(Here().map(Each(abs), [[-1, -2], [3]]))
    [(0, 1), (1, 2), (2, 3)]
    """

    def map(
        self,
        function: Callable[[Sequence[Item]], Sequence[Answer]],
        batches: Iterable[Sequence[Item]],
    ) -> Iterator[tuple[int, Answer | Lost]]:
        """(index, answer) of each item, in order."""
        start = 0
        for items in batches:
            answers = checked_answers(function(items), len(items))
            yield from enumerate(answers, start=start)
            start += len(items)
