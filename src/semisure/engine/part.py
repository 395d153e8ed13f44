"""A part of the work, for arrays of jobs that share nothing but files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

from semisure.errors import InputError

Some = TypeVar("Some")


@dataclass(frozen=True, slots=True)
class Part:
    """The `number`-th of `count` parts, the first being 1.

    >>> list(Part.parsed("2/3").of("abcdefg"))
    ['b', 'e']
    """

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise InputError(
                "A part K/N must have K from 1 to N, but is "
                f"{self.number}/{self.count}."
            )

    @classmethod
    def parsed(cls, text: str) -> Part:
        """Of "K/N"."""
        if not re.fullmatch(r"\d{1,9}/\d{1,9}", text):
            raise InputError(f"A part must be K/N, such as 3/16, but is {text!r}.")
        number, count = map(int, text.split("/"))
        return cls(number, count)

    def of(self, items: Iterable[Some]) -> Iterator[Some]:
        """The items of this part: every `count`-th."""
        return islice(items, self.number - 1, None, self.count)


class PartDone(Exception):
    """A part is done and its answers are kept; who needs all must ask again for all.

    >>> PartDone([2, 5]).answers
    [2, 5]
    """

    def __init__(self, answers: Sequence[Any] = ()) -> None:
        super().__init__("A part is done; the whole needs all parts.")
        self.answers = answers
