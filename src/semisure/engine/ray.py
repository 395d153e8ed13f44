"""A Ray cluster as an engine: plain tasks in a window, and nothing else of Ray.

A task is one batch: its items go in, a small answer for each comes out, and what is
large is written by the task itself. Workers are kept for the next task, so that weights
are loaded once a process. Ray itself retries nothing: a lost batch is tried again here,
by the same rules as on one machine, and by whoever is left.
"""

from __future__ import annotations

import os
import pickle
import platform
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from semisure.engine.attempts import Attempt, Attempts, Lost
from semisure.engine.fingerprint import Fingerprint, check_same, fingerprint
from semisure.engine.protocol import Answer, Item, checked_answers
from semisure.engine.settings import EngineSettings
from semisure.engine.threads import ONE_THREAD, one_thread
from semisure.errors import InputError, MissingExtraError, SemisureError, in_short

BATCHES_A_SLOT = 2  # one running, one waiting
PATIENCE_S = 30.0  # for a cluster that can run nothing at all
POLL_S = 2.0
CONNECT_S = 10.0  # for the first answer of a cluster's head
AT_ONCE = 64  # finished batches that are fetched together
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nobody is told over the network
    # Its notes on dead workers would go to standard output, among our JSON.
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",
}


@contextmanager
def ray_engine(settings: EngineSettings) -> Iterator[RayEngine]:
    """A cluster that is left, or ended if it was begun here, at the end."""
    ray = _ray()
    _connect(ray, settings)
    try:
        yield RayEngine(ray, settings)
    finally:
        ray.shutdown()


class RayEngine:
    """Tasks of one processor and a share of a GPU on all nodes of a cluster."""

    def __init__(self, ray: Any, settings: EngineSettings) -> None:
        self._ray, self._settings = ray, settings
        self._here = fingerprint()
        self._idle_since: float | None = None
        self._counted, self._count = -POLL_S, 0

    def map(
        self,
        function: Callable[[Sequence[Item]], Sequence[Answer]],
        batches: Iterable[Sequence[Item]],
    ) -> Iterator[tuple[int, Answer | Lost]]:
        """(index, answer) of each item as they come.

        Where the caller stops asking, unfinished tasks are cancelled.
        """
        task = self._task()
        # Functions of a script go by value: workers cannot import it.
        code = self._ray.put(self._ray.cloudpickle.dumps(function))
        left: Attempts[Item] = Attempts(batches)
        running: dict[Any, Attempt[Item]] = {}
        try:
            while True:
                self._submit(task, code, left, running)
                if not running:
                    return
                for done in self._finished(running):
                    yield from self._answers(done, running.pop(done), left)
        finally:
            for unfinished in running:
                self._ray.cancel(unfinished, force=True)

    def _task(self) -> Any:
        """The remote function; a worker with a GPU would end after every call."""
        return self._ray.remote(
            num_cpus=1,
            num_gpus=self._settings.gpus_per_worker,
            max_retries=0,
            max_calls=0,
        )(run_batch)

    def _submit(
        self,
        task: Any,
        code: Any,
        left: Attempts[Item],
        running: dict[Any, Attempt[Item]],
    ) -> None:
        window = BATCHES_A_SLOT * max(1, self._slots())
        while len(running) < window:
            attempt = left.take()
            if attempt is None:
                return
            running[task.remote(code, attempt.items, self._here)] = attempt

    def _slots(self) -> int:
        """How many tasks can run at a time; 0 where none ever could.

        Nodes come and go, and asking takes a while.
        """
        now = time.monotonic()
        if now - self._counted >= POLL_S:
            self._counted, self._count = now, self._slots_now()
        return self._count

    def _slots_now(self) -> int:
        total = self._ray.cluster_resources()
        slots = int(total.get("CPU", 0))
        share = self._settings.gpus_per_worker
        if share:
            slots = min(slots, int(total.get("GPU", 0) / share + 1e-9))
        return min(slots, self._settings.workers or slots)

    def _finished(self, running: dict[Any, Attempt[Item]]) -> list[Any]:
        """Some batches that are done, once there are any."""
        while True:
            most = min(len(running), AT_ONCE)
            done, _ = self._ray.wait(list(running), num_returns=1, timeout=POLL_S)
            if done:
                self._idle_since = None
                done, _ = self._ray.wait(list(running), num_returns=most, timeout=0)
                return list(done)
            self._check_resources()

    def _check_resources(self) -> None:
        """Raise where nothing can run, and nothing has for a while."""
        if self._slots() > 0:
            self._idle_since = None
            return
        now = time.monotonic()
        if self._idle_since is None:
            self._idle_since = now
        if now - self._idle_since > PATIENCE_S:
            raise SemisureError(
                f"The Ray cluster can run nothing: {self._missing()} Start a node "
                "with `ray start --address=HOST:PORT`, or ask for less."
            )

    def _missing(self) -> str:
        total = self._ray.cluster_resources()
        share = self._settings.gpus_per_worker
        wanted = "1 CPU" + (f" and {share:g} GPU" if share else "")
        there = f"{total.get('CPU', 0):g} CPU and {total.get('GPU', 0):g} GPU"
        return f"a worker needs {wanted}, and all nodes together have {there}."

    def _answers(
        self, done: Any, attempt: Attempt[Item], left: Attempts[Item]
    ) -> Iterator[tuple[int, Any]]:
        errors = self._ray.exceptions
        try:
            answers = self._ray.get(done)
        except errors.NodeDiedError:  # no fault of the batch
            left.again(attempt)
        except (
            errors.WorkerCrashedError,
            errors.OutOfMemoryError,
            errors.LocalRayletDiedError,
            errors.ObjectLostError,
        ) as error:
            yield from left.died(attempt, f"its process died ({type(error).__name__})")
        except errors.RayTaskError as error:
            raise _cause(error) from error
        except errors.RayError as error:
            raise SemisureError(
                f"Ray gave up on a batch: {in_short(error)}."
            ) from error
        else:
            yield from enumerate(answers, start=attempt.start)


def _cause(error: Any) -> Exception:
    """What the function raised; an error of ours is one sentence."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, ImportError) and "semisure" in str(cause):
        return SemisureError(
            f"A node of the Ray cluster lacks semisure: {in_short(cause)}. Install the "
            "same version on all nodes."
        )
    return cause if isinstance(cause, Exception) else error


# ---- in the cluster ------------------------------------------------------------------

_functions: dict[int, Callable[[Any], Any]] = {}  # the last one of this process


def run_batch(code: bytes, items: Any, driver: Fingerprint) -> Any:
    """The answers of one batch, in a worker of the cluster."""
    check_same(driver, f"The node {platform.node()}")
    key = hash(code)
    if key not in _functions:
        one_thread()
        _functions.clear()
        _functions[key] = pickle.loads(code)  # noqa: S301, by our own driver
    return checked_answers(_functions[key](items), len(items))


# ---- the connection ------------------------------------------------------------------


def _connect(ray: Any, settings: EngineSettings) -> None:
    """Join the cluster at the address, or begin one on this machine."""
    if settings.address is not None:
        _check_answers(settings.address)
    own = {"num_cpus": settings.count(), "include_dashboard": False}
    try:
        ray.init(
            address=settings.address or "local",
            **({} if settings.address else own),
            runtime_env={"env_vars": dict(ONE_THREAD)},
            logging_level="ERROR",
            log_to_driver=False,
        )
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise _no_ray(settings.address or "this machine", error) from None


def _check_answers(address: str) -> None:
    """Raise if nobody listens there; Ray itself takes a minute to notice."""
    if address in ("auto", "local"):  # Ray's own words
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        number = int(port)
        socket.create_connection((host.strip("[]"), number), CONNECT_S).close()
    except (OSError, ValueError, OverflowError) as error:
        raise _no_ray(address, error) from None


def _no_ray(where: str, error: Exception) -> InputError:
    return InputError(
        f"There is no Ray at {where}: {in_short(error)}. Start one with `ray start "
        "--head`, and give its address as HOST:PORT; see docs/clusters.md."
    )


def _ray() -> Any:
    for name, value in _QUIET.items():  # read when Ray is imported
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise MissingExtraError("ray", "cluster", "The engine ray") from None
    return ray
