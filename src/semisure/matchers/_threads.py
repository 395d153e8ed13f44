"""Work shared by threads: NumPy and OpenCV let go of Python's lock.

As many threads as OpenCV has (``cv2.setNumThreads``), up to a few; answers do not
depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

import cv2

MAX_THREADS = 8  # more gain little here, and each holds a tile of a few MB

Item = TypeVar("Item")
Answer = TypeVar("Answer")


def by_threads(
    work: Callable[[Item], Answer], items: Iterable[Item]
) -> Iterator[Answer]:
    """The answers in the items' order, few more than there are threads at a time.

    >>> list(by_threads(abs, [-3, 4]))
    [3, 4]
    """
    threads = min(cv2.getNumThreads(), MAX_THREADS)
    if threads < 2:
        yield from map(work, items)
        return
    rest = iter(items)
    with ThreadPoolExecutor(threads) as pool:
        pending = [pool.submit(work, item) for item in islice(rest, 2 * threads)]
        while pending:
            answer = pending.pop(0).result()
            pending += [pool.submit(work, item) for item in islice(rest, 1)]
            yield answer
