"""A bounded queue: a few jobs run, a few wait, more are refused."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from semisure.errors import SemisureError
from semisure.web.limits import Limits

T = TypeVar("T")
State = Literal["waiting", "running", "done", "failed"]
logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Job(Generic[T]):
    """One piece of work, as it is polled."""

    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    state: State = "waiting"
    stage: str = ""  # what is being done
    step: int = 0  # how many stages are behind
    message: str = ""  # why it failed
    result: T | None = None

    def at(self, stage: str) -> None:
        """Say what begins now."""
        self.step += bool(self.stage)
        self.stage = stage


class FullError(SemisureError):
    """The queue has no room."""


class Queue(Generic[T]):
    """Jobs by their unguessable names; the oldest finished ones are forgotten."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._jobs: dict[str, Job[T]] = {}
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(limits.workers, thread_name_prefix="semisure")

    def add(self, work: Callable[[Job[T]], T]) -> Job[T]:
        """Queue `work`, which is given its job to report to."""
        job: Job[T] = Job()
        with self._lock:
            self.check_room()
            self._forget()
            self._jobs[job.id] = job
        self._pool.submit(self._run, job, work)
        return job

    def check_room(self) -> None:
        """Raise one sentence if another job would be refused."""
        taken = sum(job.state in OPEN for job in list(self._jobs.values()))
        if taken >= self._limits.workers + self._limits.waiting:
            raise FullError(
                f"{taken} jobs are under way or waiting. Try again in a minute."
            )

    def get(self, name: str) -> Job[T] | None:
        """The job of that name, if it is still known."""
        return self._jobs.get(name)

    def ahead(self, job: Job[T]) -> int:
        """How many jobs wait before this one."""
        with self._lock:
            waiting = [j for j in self._jobs.values() if j.state == "waiting"]
        return waiting.index(job) if job in waiting else 0

    def close(self) -> None:
        """Start nothing more."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _forget(self) -> None:
        finished = [j.id for j in self._jobs.values() if j.state not in OPEN]
        for name in finished[: max(0, len(finished) - self._limits.kept + 1)]:
            del self._jobs[name]

    def _run(self, job: Job[T], work: Callable[[Job[T]], T]) -> None:
        job.state = "running"
        try:
            job.result = work(job)
        except SemisureError as error:
            job.message, job.state = str(error), "failed"
        except Exception:
            logger.exception("A job failed")
            job.message = "Something went wrong inside; the server's log says what."
            job.state = "failed"
        else:
            job.state = "done"


OPEN = ("waiting", "running")
