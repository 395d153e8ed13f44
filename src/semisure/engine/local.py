"""Processes of this machine, one thread each, which may die without ending the work.

Each process has one batch at a time, over its own pipe: what a death costs is that
batch, and whoever died is known. Processes are spawned when there is work for them, and
end with this one, however that ends.
"""

from __future__ import annotations

import os
import pickle
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, cast

from semisure.engine.attempts import Attempt, Attempts, Lost
from semisure.engine.fingerprint import (
    MEANWHILE,
    Fingerprint,
    check_same,
    fingerprint,
)
from semisure.engine.protocol import Answer, Item, checked_answers
from semisure.engine.settings import EngineSettings
from semisure.engine.threads import ONE_THREAD, environment, one_thread
from semisure.errors import SemisureError
from semisure.io.processes import ctrl_c_blocked, exit_with_parent

ENDING_S = 5.0
STARTS = 3  # in a row that may fail before the engine gives up


class FromWorker(Exception):
    """Where in a worker process an error was raised."""


@contextmanager
def local_engine(settings: EngineSettings) -> Iterator[LocalEngine]:
    """Processes that are ended at the end."""
    engine = LocalEngine(settings.count(), settings.gpus_per_worker)
    try:
        yield engine
    finally:
        engine.close()


class LocalEngine:
    """At most `count` processes; with a share of a GPU each, they are spread over all.

    >>> engine = LocalEngine(1)
    >>> engine.count
    1
    """

    def __init__(self, count: int, gpus_per_worker: float = 0.0) -> None:
        self.count, self._gpus = count, gpus_per_worker
        self._here = fingerprint()
        self._workers: list[_Worker] = []
        self._failed_starts = 0

    def map(
        self,
        function: Callable[[Sequence[Item]], Sequence[Answer]],
        batches: Iterable[Sequence[Item]],
    ) -> Iterator[tuple[int, Answer | Lost]]:
        """(index, answer) of each item as they come.

        Where the caller stops asking, processes with unfinished batches are ended.
        """
        code = pickle.dumps(function)
        left: Attempts[Item] = Attempts(batches)
        try:
            while self._assign(code, left):
                busy = {w.pipe: w for w in self._workers if w.attempt is not None}
                for pipe in wait(list(busy)):
                    yield from self._heard(busy[cast("Connection", pipe)], left)
        finally:
            for worker in [w for w in self._workers if w.attempt is not None]:
                self._remove(worker)

    def close(self) -> None:
        """End all processes."""
        for worker in list(self._workers):
            self._remove(worker)

    def _assign(self, code: bytes, left: Attempts[Any]) -> bool:
        """Give idle processes something to do; False where nobody has anything."""
        while True:
            idle = next((w for w in self._workers if w.attempt is None), None)
            if idle is None and len(self._workers) >= self.count:
                break
            attempt = left.take()
            if attempt is None:
                break
            if idle is None:
                idle = self._started()
            idle.give(code, attempt)
        return any(w.attempt is not None for w in self._workers)

    def _started(self) -> _Worker:
        taken = {worker.number for worker in self._workers}
        number = next(k for k in range(self.count) if k not in taken)
        worker = _Worker(number, self._gpus, self._here)
        self._workers.append(worker)
        return worker

    def _heard(
        self, worker: _Worker, left: Attempts[Item]
    ) -> Iterator[tuple[int, Any]]:
        """What follows from a message, or from the death, of a worker."""
        attempt = worker.attempt
        assert attempt is not None
        try:
            kind, content = worker.pipe.recv()
        except (EOFError, OSError):
            worker.let_end()
            self._remove(worker)
            if worker.ready:
                yield from left.died(attempt, worker.why_dead())
            else:
                self._count_failed_start(worker)
                left.again(attempt)
            return
        if kind == "ready":
            worker.ready, self._failed_starts = True, 0
        elif kind == "answers":
            worker.attempt = None
            yield from enumerate(content, start=attempt.start)
        else:
            error, told = content
            raise error from FromWorker(told)

    def _count_failed_start(self, worker: _Worker) -> None:
        self._failed_starts += 1
        if self._failed_starts >= STARTS:
            raise SemisureError(
                f"Worker processes end before they begin: {worker.why_dead()}. In a "
                "script, call this below `if __name__ == '__main__':`, as "
                "Python's multiprocessing asks for; otherwise try fewer --workers."
            )

    def _remove(self, worker: _Worker) -> None:
        worker.kill()
        self._workers.remove(worker)


class _Worker:
    """A process, what it is doing, and the pipe to it."""

    def __init__(self, number: int, gpus: float, driver: Fingerprint) -> None:
        context = get_context("spawn")
        self.number = number
        self.ready = False
        self.attempt: Attempt[Any] | None = None
        self._code = b""
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_work, args=(theirs, driver), name="semisure worker", daemon=True
        )
        with environment({**ONE_THREAD, **_gpu(number, gpus)}), ctrl_c_blocked():
            self._process.start()
        theirs.close()

    def give(self, code: bytes, attempt: Attempt[Any]) -> None:
        """Send a batch, and the function if it is another one than before."""
        self.attempt = attempt
        # A process that is dead already is noticed when its pipe is read.
        with suppress(OSError):
            self.pipe.send((None if code == self._code else code, attempt.items))
        self._code = code

    def let_end(self) -> None:
        """Wait until a process whose pipe is closed has an exit code of its own."""
        self._process.join(ENDING_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self.pipe.close()

    def why_dead(self) -> str:
        """How the process ended, for people."""
        code = self._process.exitcode
        if code is None or code >= 0:
            return f"its process ended with exit code {code}"
        name = (
            signal.Signals(-code).name if -code in set(signal.Signals) else str(-code)
        )
        memory = ", perhaps for want of memory" if -code == 9 else ""
        return f"its process was ended by {name}{memory}"


def _gpu(number: int, share: float) -> dict[str, str]:
    """The device of a process: with 0.5 each, the first two share the first one."""
    if share <= 0.0:
        return {}
    visible = [v for v in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if v]
    device = int(number * share + 1e-9)
    if visible:
        return {"CUDA_VISIBLE_DEVICES": visible[device % len(visible)]}
    return {"CUDA_VISIBLE_DEVICES": str(device)}


# ---- in the process ------------------------------------------------------------------


def _work(pipe: Connection, driver: Fingerprint) -> None:
    """Answer batches until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    exit_with_parent()
    one_thread()
    pipe.send(("ready", None))
    function: Callable[[Any], Any] | None = None
    with suppress(EOFError, BrokenPipeError):
        while True:
            code, items = pipe.recv()
            try:
                check_same(driver, "A new worker process", MEANWHILE)
                if code is not None:
                    function = pickle.loads(code)  # noqa: S301, by our own parent
                assert function is not None
                answers = checked_answers(function(items), len(items))
            except Exception as error:  # noqa: BLE001, told to the parent
                pipe.send(("error", (_portable(error), traceback.format_exc())))
            else:
                pipe.send(("answers", answers))


def _portable(error: Exception) -> Exception:
    """The error, or its text where it cannot be sent."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301
    except Exception:  # noqa: BLE001, whatever its own code does
        return SemisureError(f"{type(error).__name__}: {error}")
    return error
