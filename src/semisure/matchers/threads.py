"""Work shared by threads: NumPy and OpenCV release Python's lock.

As many threads as OpenCV has (``cv2.setNumThreads``), up to a few; answers do not
depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, TypeVar

import cv2

MAX_THREADS = 8  # more gain little here, and each holds a tile of a few MB

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def by_threads(
    work: Callable[[Item], Answer], items: Iterable[Item]
) -> Iterator[Answer]:
    """The answers in the items' order.

    Meanwhile BLAS has one thread: its own threads would compete with these for the
    processors, and products of tiles would take 1.5 times as long.

    >>> list(by_threads(abs, [-3, 4]))
    [3, 4]
    """
    threads = min(cv2.getNumThreads(), MAX_THREADS)
    if threads < 2:
        yield from map(work, items)
        return
    one = _libraries().limit(limits=1, user_api="blas")
    with one, ThreadPoolExecutor(threads) as pool:
        yield from pool.map(work, items)


@lru_cache(maxsize=1)
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
