"""What an engine is, and how most callers use one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

from semisure.engine.attempts import Lost
from semisure.errors import SemisureError
from semisure.types import Tick, silent

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class Engine(Protocol):
    """Runs a function of batches; an error of the function ends all."""

    def map(
        self,
        function: Callable[[Sequence[Item]], Sequence[Answer]],
        batches: Iterable[Sequence[Item]],
    ) -> Iterator[tuple[int, Answer | Lost]]:
        """(index, answer) of each item, in whatever order they come.

        `function` gives one answer for each item of a batch. It is sent to each worker
        once and must be found there by its name, as in pickles.
        """


@dataclass(frozen=True, slots=True)
class Each(Generic[Item, Answer]):
    """A function of one item as a function of a batch.

    >>> Each(abs)([-1, 2])
    [1, 2]
    """

    function: Callable[[Item], Answer]

    def __call__(self, items: Sequence[Item]) -> list[Answer]:
        return [self.function(item) for item in items]


def in_batches(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """The items in their order, `size` at a time.

    >>> list(in_batches("abcde", 2))
    ['ab', 'cd', 'e']
    """
    return (items[k : k + size] for k in range(0, len(items), size))


def in_order(
    engine: Engine,
    function: Callable[[Item], Answer],
    items: Sequence[Item],
    tick: Tick = silent,
    *,
    batch: int = 1,
    lost: Callable[[Item, Lost], Answer] | None = None,
) -> list[Answer]:
    """The answers in the order of the items.

    `lost` turns the loss of an item into an answer; without it, a loss is an error.

    >>> from semisure.engine.here import Here
    >>> in_order(Here(), abs, [-3, 2, -1])
    [3, 2, 1]
    """
    answers: list[Any] = [None] * len(items)
    coming = engine.map(Each(function), in_batches(items, batch))
    for done, (index, answer) in enumerate(coming, start=1):
        if isinstance(answer, Lost):
            if lost is None:
                raise SemisureError(
                    f"Item {index + 1} of {len(items)} ended every process that had "
                    f"it: {answer.reason}. Try fewer --workers."
                )
            answer = lost(items[index], answer)
        answers[index] = answer
        tick(done, len(items))
    return cast("list[Answer]", answers)


def checked_answers(answers: Sequence[Answer], count: int) -> Sequence[Answer]:
    """`answers` if there is one for each item."""
    if len(answers) != count:
        raise SemisureError(
            f"A function gave {len(answers)} answers for {count} items; it must give "
            "one for each."
        )
    return answers
