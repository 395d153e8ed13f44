"""Data sets on disk: a module for each layout, which yields its pairs.

:mod:`semisure.datasets.layouts` recognises the layout of a folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from semisure.errors import InputError

Some = TypeVar("Some")


def evenly(entries: Sequence[Some], limit: int | None) -> Sequence[Some]:
    """No more than `limit` of them, taken evenly.

    >>> evenly("abcdefg", 3)
    ['a', 'c', 'e']
    """
    if limit is None or limit >= len(entries):
        return entries
    if limit < 1:
        raise InputError(f"limit must be at least 1, but is {limit}.")
    return [entries[k * len(entries) // limit] for k in range(limit)]
