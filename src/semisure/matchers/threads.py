"""Work shared by threads: NumPy and OpenCV let go of Python's lock.

As many threads as OpenCV has (``cv2.setNumThreads``), up to a few; answers do not
depend on it.
"""

from __future__ import annotations

import threading
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

    >>> list(by_threads(abs, [-3, 4]))
    [3, 4]
    """
    threads = min(cv2.getNumThreads(), MAX_THREADS)
    if threads < 2:
        yield from map(work, items)
        return
    with _quiet_blas, ThreadPoolExecutor(threads) as pool:
        yield from pool.map(work, items)


class _QuietBlas:
    """BLAS keeps to one thread as long as anybody is inside.

    Its own threads and ours would fight over the processors: products of tiles then
    take half as long again.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._limits: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._limits = _libraries().limit(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limits.restore_original_limits()


@lru_cache(maxsize=1)
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


_quiet_blas = _QuietBlas()
