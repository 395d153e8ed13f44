"""A Ray cluster as an engine: plain tasks in a window, and nothing else of Ray.

A task is one batch: its items go in, a small answer for each comes out; what is large
is written by the task itself. Workers are kept for the next task, so that weights are
loaded once a process. Ray retries nothing: a lost batch is tried again by the same
rules as on one machine, by the remaining workers.
"""

from __future__ import annotations

import logging
import os
import pickle
import platform
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from semisure.engine import EngineSettings
from semisure.engine.attempts import Attempt, Attempts
from semisure.engine.pool import ONE_THREAD, Answers, Batches, OfBatch, one_thread
from semisure.errors import InputError, MissingExtraError, SemisureError, in_short
from semisure.io.cache import Installed, installed

BATCHES_A_SLOT = 2  # one running, one waiting
CONNECT_S = 10.0
_QUIET = {  # read when Ray is imported
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is sent over the network
    # Its notes on dead workers would go to standard output, among our JSON.
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
}


@contextmanager
def ray_engine(settings: EngineSettings) -> Iterator[RayEngine]:
    """A cluster; at the end it is left, or ended if it was started here."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise MissingExtraError("ray", "cluster", "The engine ray") from None
    address = settings.address
    own: dict[str, Any] = {"num_cpus": settings.count(), "include_dashboard": False}
    try:
        _connect(address or "local")
        ray.init(
            address=address or "local",
            **({} if address else own),
            runtime_env={"env_vars": dict(ONE_THREAD)},
            logging_level=logging.ERROR,
            log_to_driver=False,
        )
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise InputError(
            f"There is no Ray at {address or 'this machine'}: {in_short(error)}. Start "
            "one with `ray start --head`, and give its address as HOST:PORT; see "
            "docs/clusters.md."
        ) from None
    try:
        yield RayEngine(ray, settings)
    finally:
        ray.shutdown()


def _connect(address: str) -> None:
    """Raise unless something listens there: Ray itself may wait for minutes."""
    if address not in ("auto", "local"):  # Ray's own words
        host, _, port = address.removeprefix("ray://").rpartition(":")
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()


class RayEngine:
    """Tasks of one processor and a share of a GPU on all nodes of a cluster."""

    def __init__(self, ray: Any, settings: EngineSettings) -> None:
        self._ray, self._settings = ray, settings

    def map(self, function: OfBatch, batches: Batches) -> Answers:
        options = {"num_cpus": 1, "num_gpus": self._settings.gpus_per_worker}
        # By `max_calls`, a worker with a GPU would end after every call.
        task = self._ray.remote(max_retries=0, max_calls=0, **options)(run_batch)
        # Functions of a script go by value: workers cannot import it.
        code = self._ray.put(self._ray.cloudpickle.dumps(function))
        versions, window = installed(), BATCHES_A_SLOT * self._slots()
        queue, running = Attempts(batches), dict[Any, Attempt]()
        try:
            while True:
                while len(running) < window and (attempt := queue.take()) is not None:
                    running[task.remote(code, attempt.items, versions)] = attempt
                if not running:
                    return
                (done,), _ = self._ray.wait(list(running), num_returns=1)
                window = BATCHES_A_SLOT * self._slots()  # nodes come and go
                yield from self._answers(done, running.pop(done), queue)
        finally:
            for unfinished in running:
                self._ray.cancel(unfinished, force=True)

    def _slots(self) -> int:
        """How many tasks can run at a time."""
        total, share = self._ray.cluster_resources(), self._settings.gpus_per_worker
        cpus, gpus = total.get("CPU", 0), total.get("GPU", 0)
        slots = int(min(cpus, gpus / share + 1e-9) if share else cpus)
        if slots < 1:
            raise SemisureError(
                f"The Ray cluster can run nothing: a worker needs 1 CPU and {share:g} "
                f"GPU, and all nodes together have {cpus:g} CPU and {gpus:g} GPU. "
                "Start a node with `ray start --address=HOST:PORT`, or ask for less."
            )
        return min(slots, self._settings.workers or slots)

    def _answers(self, done: Any, attempt: Attempt, queue: Attempts) -> Answers:
        errors = self._ray.exceptions
        died = (
            errors.NodeDiedError,
            errors.WorkerCrashedError,
            errors.OutOfMemoryError,
            errors.LocalRayletDiedError,
            errors.ObjectLostError,
        )
        try:
            answers = self._ray.get(done)
        except died as error:
            yield from queue.died(attempt, f"its process died ({type(error).__name__})")
        except errors.RayTaskError as error:
            cause = getattr(error, "cause", None)
            raise (cause if isinstance(cause, Exception) else error) from error
        except errors.RayError as error:
            raise SemisureError(
                f"Ray gave up on a batch: {in_short(error)}."
            ) from error
        else:
            yield from enumerate(answers, start=attempt.start)


# ---- in the cluster ------------------------------------------------------------------


def run_batch(code: bytes, items: Any, driver: Installed) -> Any:
    """The answers of one batch, in a worker of the cluster."""
    check_same(driver, f"The node {platform.node()}")
    return _function(code)(items)


@lru_cache(maxsize=1)
def _function(code: bytes) -> Callable[[Any], Any]:
    one_thread()
    function: Callable[[Any], Any] = pickle.loads(code)  # noqa: S301, by our own driver
    return function


def check_same(driver: Installed, where: str) -> None:
    """Raise unless this process would give the same answers as the driver.

    >>> check_same({**installed(), "numpy": "1.0"}, "The node x")
    Traceback (most recent call last):
    semisure.errors.InputError: The node x has numpy ..., but the driver has 1.0. ...
    """
    mine = installed()
    for name in sorted({*driver, *mine}):
        if driver.get(name) != mine.get(name):
            raise InputError(
                f"{where} has {name} {mine.get(name, 'not installed')}, but the driver "
                f"has {driver.get(name, 'none')}. Install the same on all machines: "
                "otherwise answers would depend on who computed them."
            )
