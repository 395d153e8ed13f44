"""A bounded queue: a few jobs run, a few wait, more are refused; all can be ended."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from semisure.errors import SemisureError
from semisure.web.limits import Limits
from semisure.web.orders import EMBEDDED, Order
from semisure.web.workers import BUG, Worker

State = Literal["waiting", "running", "done", "failed", "cancelled"]
OPEN = ("waiting", "running")
CANCELLED = "Cancelled."
NO_WORKER = "This machine cannot start a process now; the server's log says why."
logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Job:
    """One order, as it is polled."""

    order: Order | None  # forgotten once it is done: it holds the images
    matcher: str
    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    state: State = "waiting"
    stage: str = ""  # what is being done
    step: int = 0  # how many stages are behind
    message: str = ""  # why it has no result
    files: dict[str, bytes] = field(default_factory=dict)  # the result
    began: float | None = None
    cancelled: bool = False

    def at(self, stage: str) -> None:
        """Note what begins now."""
        self.step += bool(self.stage)
        self.stage = stage

    def seconds(self) -> float:
        """How long it has been running."""
        return 0.0 if self.began is None else time.monotonic() - self.began


class FullError(SemisureError):
    """The queue has no room."""


class Queue:
    """Jobs by their unguessable names; the oldest finished ones are forgotten.

    Each worker process has a thread here that gives it jobs, and replaces it when a job
    was its end. Networks are large, so that the first worker alone runs them.
    """

    def __init__(self, limits: Limits, hire: Callable[[], Worker]) -> None:
        self._limits = limits
        self._hire = hire
        self._jobs: dict[str, Job] = {}
        self._at_work: dict[str, Worker] = {}  # by the name of the job
        self._lasted: dict[str, float] = {}  # s, the last job of each matcher
        self._closing = False
        self._change = threading.Condition()
        self._threads = [
            threading.Thread(target=self._employ, args=(k,), daemon=True)
            for k in range(limits.workers)
        ]

    def open(self) -> None:
        """Start the workers."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Kill the workers, finished or not."""
        with self._change:
            self._closing = True
            for worker in self._at_work.values():
                worker.kill()
            self._change.notify_all()
        for thread in self._threads:
            thread.join()

    def add(self, order: Order) -> Job:
        """Queue `order`."""
        job = Job(order, order.matcher)
        with self._change:
            self._check_room()
            self._forget()
            self._jobs[job.id] = job
            self._change.notify_all()
        return job

    def cancel(self, job: Job) -> None:
        """Take it out of the queue, or kill the worker that has it."""
        with self._change:
            if job.state == "waiting":
                self._end(job, "cancelled", CANCELLED)
            elif job.state == "running":
                job.cancelled = True
                if job.id in self._at_work:
                    self._at_work[job.id].kill()

    def check_room(self) -> None:
        """Raise one sentence if another job would be refused."""
        with self._change:
            self._check_room()

    def get(self, name: str) -> Job | None:
        """The job of that name, if it is still known."""
        return self._jobs.get(name)

    def ahead(self, job: Job) -> int:
        """How many jobs wait before this one."""
        with self._change:
            waiting = [j for j in self._jobs.values() if j.state == "waiting"]
        return waiting.index(job) if job in waiting else 0

    def usual_seconds(self, job: Job) -> float | None:
        """How long the last job of the same matcher ran."""
        return self._lasted.get(job.matcher)

    def _check_room(self) -> None:
        taken = sum(job.state in OPEN for job in self._jobs.values())
        if taken >= self._limits.workers + self._limits.waiting:
            raise FullError(
                f"{taken} jobs are under way or waiting. Try again in a minute."
            )

    def _forget(self) -> None:
        finished = [j.id for j in self._jobs.values() if j.state not in OPEN]
        for name in finished[: max(0, len(finished) - self._limits.kept + 1)]:
            del self._jobs[name]

    def _employ(self, number: int) -> None:
        """Hand jobs to one worker for as long as the server runs."""
        worker = self._hired()
        while (job := self._next(number)) is not None:
            if worker is None or not worker.is_alive():  # killed between two jobs
                worker = self._hired()
            self._run(job, worker)
            if worker is not None and not worker.is_alive():
                worker = self._hired()  # now, so that the next job need not wait for it
        if worker is not None:
            worker.kill()

    def _hired(self) -> Worker | None:
        try:
            return self._hire()
        except OSError:  # the machine has no room for a process
            logger.exception("A worker could not be started")
            return None

    def _next(self, number: int) -> Job | None:
        """The first job that this worker may do, once there is one."""
        with self._change:
            while not self._closing:
                for job in self._jobs.values():
                    mine = number == 0 or job.matcher == EMBEDDED
                    if job.state == "waiting" and mine:
                        job.state, job.began = "running", time.monotonic()
                        return job
                self._change.wait()
        return None

    def _run(self, job: Job, worker: Worker | None) -> None:
        with self._change:
            order = job.order
            if order is None or job.cancelled or self._closing:
                self._end(job, "cancelled", CANCELLED)
                return
            if worker is None:
                self._end(job, "failed", NO_WORKER)
                return
            self._at_work[job.id] = worker
        files, message = {}, ""
        try:
            files = worker.do(order, job.at)
        except SemisureError as error:
            message = str(error)
        except Exception:
            logger.exception("A job failed")
            message = BUG
            worker.kill()
        with self._change:
            del self._at_work[job.id]
            if job.cancelled:
                self._end(job, "cancelled", CANCELLED)
            elif message:
                self._end(job, "failed", message)
            else:
                job.files = files
                self._lasted[job.matcher] = job.seconds()
                self._end(job, "done", "")

    @staticmethod
    def _end(job: Job, state: State, message: str) -> None:
        job.order = None
        job.state, job.message = state, message
