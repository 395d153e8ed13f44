"""What an engine is, and how most callers use one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, Generic, Protocol, TypeVar

from semisure.engine.attempts import Lost
from semisure.engine.part import Part, PartDone
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


@dataclass(frozen=True, slots=True)
class PartEngine:
    """An engine that works on a part of the batches, and ends with `PartDone`.

    Parts fit together only if all of them are given the same batches: whoever keeps
    answers must not leave out those that are there.

    >>> from semisure.engine.here import Here
    >>> try:
    ...     in_order(PartEngine(Here(), Part(2, 3)), abs, [-1, -2, -3, -4, -5])
    ... except PartDone as done:
    ...     print(done.answers)
    [2, 5]
    """

    engine: Engine
    part: Part

    def map(
        self,
        function: Callable[[Sequence[Item]], Sequence[Answer]],
        batches: Iterable[Sequence[Item]],
    ) -> Iterator[tuple[int, Answer | Lost]]:
        """(index, answer) of each item of the part."""
        listed = list(batches)
        starts = accumulate(map(len, listed), initial=0)
        numbered = [range(k, k + len(b)) for k, b in zip(starts, listed, strict=False)]
        mine = list(chain.from_iterable(self.part.of(numbered)))
        for index, answer in self.engine.map(function, self.part.of(listed)):
            yield mine[index], answer
        raise PartDone


def share(engine: Engine, batches: Iterable[Sequence[Item]]) -> int:
    """The number of items that the engine will answer: all, or those of its part."""
    mine = engine.part.of(batches) if isinstance(engine, PartEngine) else batches
    return sum(map(len, mine))


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
    An engine that does a part ends in `PartDone` with the answers of the part.

    >>> from semisure.engine.here import Here
    >>> in_order(Here(), abs, [-3, 2, -1])
    [3, 2, 1]
    """
    answers: dict[int, Any] = {}
    batches = list(in_batches(items, batch))
    total = share(engine, batches)
    try:
        for index, answer in engine.map(Each(function), batches):
            if isinstance(answer, Lost):
                if lost is None:
                    raise SemisureError(
                        f"Item {index + 1} of {len(items)} ended every process that "
                        f"had it: {answer.reason}. Try fewer --workers."
                    )
                answer = lost(items[index], answer)
            answers[index] = answer
            tick(len(answers), total)
    except PartDone:
        raise PartDone([answers[k] for k in sorted(answers)]) from None
    return [answers[k] for k in range(len(items))]


def checked_answers(answers: Sequence[Answer], count: int) -> Sequence[Answer]:
    """`answers` if there is one for each item."""
    if len(answers) != count:
        raise SemisureError(
            f"A function gave {len(answers)} answers for {count} items; it must give "
            "one for each."
        )
    return answers
