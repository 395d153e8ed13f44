"""The same function over many items, in worker processes of one thread each.

Work is always done in child processes, even by a single one: thread counts, and with
them the last bits of a sum, are then the same whatever the number of workers.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from typing import TypeVar

from semisure.errors import InputError, SemisureError
from semisure.io.processes import exit_with_parent
from semisure.types import Tick, silent

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Workers:
    """A pool of processes."""

    pool: ProcessPoolExecutor

    def map(
        self,
        function: Callable[[Item], Answer],
        items: Sequence[Item],
        tick: Tick = silent,
    ) -> list[Answer]:
        """The answers in the order of the items; the first error ends all."""
        waiting = [self.pool.submit(function, item) for item in items]
        try:
            return [
                _answer(future, k, len(items), tick) for k, future in enumerate(waiting)
            ]
        finally:
            for future in waiting:
                future.cancel()


def _answer(future: Future[Answer], k: int, total: int, tick: Tick) -> Answer:
    try:
        answer = future.result()
    except BrokenProcessPool:
        raise SemisureError(
            "A worker process died, perhaps for want of memory; try fewer --workers."
        ) from None
    tick(k + 1, total)
    return answer


@contextmanager
def workers(count: int) -> Iterator[Workers]:
    """A pool of `count` processes, closed at the end."""
    if count < 1:
        raise InputError(f"workers must be at least 1, but is {count}.")
    # Libraries read these when they are loaded, so before a child's first import.
    with _environment(dict.fromkeys(_THREADS, "1")):
        pool = ProcessPoolExecutor(
            count, mp_context=get_context("spawn"), initializer=_prepare
        )
        try:
            yield Workers(pool)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _prepare() -> None:
    """One thread, no ear for Ctrl-C, and no life without the parent."""
    import cv2

    exit_with_parent()
    # An interrupt is the parent's to handle: it lets the pairs under way finish.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    cv2.setNumThreads(1)
