"""Engines of one machine: this process, or a pool of processes that may die.

Each process of the pool has one batch at a time, over its own pipe: a death costs that
batch, and shows which it was. Processes are spawned when there is work for them, and
end with this one, however that ends.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from semisure.engine.attempts import Attempt, Attempts, Item, Lost
from semisure.errors import SemisureError
from semisure.types import Tick, silent

Answer = TypeVar("Answer")
OfBatch: TypeAlias = Callable[[Sequence[Any]], Sequence[Any]]
Batches: TypeAlias = Iterable[Sequence[Any]]
Answers: TypeAlias = Iterator[tuple[int, Any]]  # by the item's place; maybe Lost

ENDING_S = 5.0
# Libraries read these when they are loaded, so before a worker's first import.
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)


class Engine(Protocol):
    """Runs a function of batches; an error of the function ends all."""

    def map(self, function: OfBatch, batches: Batches) -> Answers:
        """(index, answer) of each item, in whatever order they come.

        `function` gives one answer for each item of a batch. It is sent to each worker
        once, pickled. Where the caller stops asking, unfinished work is ended.
        """


@dataclass(frozen=True, slots=True)
class Each:
    """A function of one item as a function of a batch.

    >>> Each(abs)([-1, 2])
    [1, 2]
    """

    function: Callable[[Any], Any]

    def __call__(self, items: Sequence[Any]) -> list[Any]:
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
    lost: Callable[[Item, Lost], Answer] | None = None,
) -> list[Answer]:
    """The answers in the order of the items.

    `lost` turns the loss of an item into an answer; without it, a loss is an error.

    >>> in_order(HERE, abs, [-3, 2, -1])
    [3, 2, 1]
    """
    answers: dict[int, Any] = {}
    for index, answer in engine.map(Each(function), in_batches(items, 1)):
        if isinstance(answer, Lost):
            if lost is None:
                raise SemisureError(
                    f"Item {index + 1} of {len(items)} ended every process that "
                    f"had it: {answer.reason}. Try fewer --workers."
                )
            answer = lost(items[index], answer)
        answers[index] = answer
        tick(len(answers), len(items))
    return [answers[k] for k in range(len(items))]


class _Here:
    """Works in this process, with all its threads; functions need no pickling."""

    def map(self, function: OfBatch, batches: Batches) -> Answers:
        start = 0
        for items in batches:
            yield from enumerate(function(items), start=start)
            start += len(items)


HERE: Engine = _Here()


# ---- processes of this machine -------------------------------------------------------


class ProcessPool:
    """At most `count` processes; with a share of a GPU each, spread over all GPUs."""

    def __init__(self, count: int, gpus_per_worker: float = 0.0) -> None:
        self.count, self._gpus = count, gpus_per_worker
        self._workers: dict[int, _Worker] = {}

    def map(self, function: OfBatch, batches: Batches) -> Answers:
        code = pickle.dumps(function)
        queue = Attempts(batches)
        try:
            while busy := self._assign(code, queue):
                for pipe in wait(list(busy)):
                    worker = busy[cast("Connection", pipe)]
                    yield from self._received(worker, queue)
        finally:
            for worker in list(self._workers.values()):
                if worker.attempt is not None:
                    self._remove(worker)

    def close(self) -> None:
        """End all processes."""
        for worker in list(self._workers.values()):
            self._remove(worker)

    def _assign(self, code: bytes, queue: Attempts) -> dict[Connection, _Worker]:
        """Give batches to idle processes; returns the busy ones by their pipes."""
        for number in range(self.count):
            worker = self._workers.get(number)
            if worker is None or worker.attempt is None:
                attempt = queue.take()
                if attempt is None:
                    break
                if worker is None:
                    worker = self._workers[number] = _Worker(number, self._gpus)
                worker.give(code, attempt)
        return {w.pipe: w for w in self._workers.values() if w.attempt is not None}

    def _received(self, worker: _Worker, queue: Attempts) -> Answers:
        """The answers in a message of a worker, or after its death."""
        attempt = worker.attempt
        assert attempt is not None
        try:
            kind, content = worker.pipe.recv()
        except (EOFError, OSError):
            worker.process.join(ENDING_S)  # for an exit code of its own
            self._remove(worker)
            if not worker.ready:
                raise SemisureError(
                    f"Worker processes end before they begin: {worker.why_dead()}. In "
                    "a script, call this below `if __name__ == '__main__':`, as "
                    "Python's multiprocessing asks for; otherwise try fewer --workers."
                ) from None
            yield from queue.died(attempt, worker.why_dead())
            return
        if kind == "ready":
            worker.ready = True
        elif kind == "answers":
            worker.attempt = None
            yield from enumerate(content, start=attempt.start)
        else:
            error, trace = content
            raise error from SemisureError(f"In a worker process: {trace}")

    def _remove(self, worker: _Worker) -> None:
        worker.process.kill()
        worker.process.join()
        worker.pipe.close()
        del self._workers[worker.number]


class _Worker:
    """A process, its current batch, and the pipe to it."""

    def __init__(self, number: int, gpus: float) -> None:
        self.number, self.ready = number, False
        self.attempt: Attempt | None = None
        self._code = b""
        variables = {**ONE_THREAD, **(_gpu(number, gpus) if gpus else {})}
        self.process, self.pipe = child_process(
            _work, name="semisure worker", variables=variables
        )

    def give(self, code: bytes, attempt: Attempt) -> None:
        """Send a batch, and the function if it is another one than before."""
        self.attempt = attempt
        # A process that is dead already is noticed when its pipe is read.
        with suppress(OSError):
            self.pipe.send((None if code == self._code else code, attempt.items))
        self._code = code

    def why_dead(self) -> str:
        """How the process ended, for people."""
        code = self.process.exitcode
        if code is None or code >= 0:
            return f"its process ended with exit code {code}"
        memory = ", perhaps for want of memory" if -code == 9 else ""
        return f"its process was ended by {signal.Signals(-code).name}{memory}"


def _gpu(number: int, share: float) -> dict[str, str]:
    """The device of a process: with 0.5 each, the first two share the first one."""
    visible = [v for v in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if v]
    device = int(number * share + 1e-9)
    chosen = visible[device % len(visible)] if visible else str(device)
    return {"CUDA_VISIBLE_DEVICES": chosen}


def child_process(
    target: Callable[..., None],
    *arguments: Any,
    name: str,
    variables: Mapping[str, str] | None = None,
) -> tuple[BaseProcess, Connection]:
    """A spawned process that runs ``target(pipe, *arguments)``, and our end of `pipe`.

    Ctrl-C, which a terminal sends to all its processes, is left to this one, from the
    start on: :func:`stay_a_child` does it only once Python has loaded.
    """
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(
        target=target, args=(theirs, *arguments), name=name, daemon=True
    )
    with _environment(variables or {}), _ctrl_c_blocked():
        process.start()
    theirs.close()
    return process, ours


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = os.environ.copy()
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def _ctrl_c_blocked() -> Iterator[None]:
    if sys.platform == "win32":
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # first: it changes the signal mask itself
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# ---- in the process ------------------------------------------------------------------


def stay_a_child() -> None:
    """Leave Ctrl-C to the parent, and end with it, even if it was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def one_thread() -> None:
    """Limit OpenCV, which does not read the environment, to one thread."""
    import cv2

    cv2.setNumThreads(1)


def _work(pipe: Connection) -> None:
    """Answer batches until the parent ends."""
    stay_a_child()
    one_thread()
    pipe.send(("ready", None))
    function: Callable[[Any], Any] | None = None
    with suppress(EOFError, BrokenPipeError):
        while True:
            code, items = pipe.recv()
            try:
                if code is not None:
                    function = pickle.loads(code)  # noqa: S301, by our own parent
                assert function is not None
                answers = function(items)
            except Exception as error:  # noqa: BLE001, raised again by the parent
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
