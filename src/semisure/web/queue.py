"""A bounded queue of jobs: a few run, a few wait, more are refused."""

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

Files = dict[str, bytes]
State = Literal["waiting", "running", "done", "failed", "cancelled"]
OPEN = ("waiting", "running")
CANCELLED = "Cancelled."
NO_WORKER = "This machine cannot start a process now; see the server's log."
logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Job:
    """One order and how far it is, for the page to poll."""

    order: Order | None  # dropped once it has run: it holds the images
    matcher: str
    sample: str = ""
    again: bool = False  # the matches are those of an earlier job
    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    state: State = "waiting"
    stage: str = ""  # its name
    step: int = 0  # number of finished stages
    message: str = ""  # why it has no result
    files: Files = field(default_factory=dict)  # the result
    began: float | None = None
    cancelled: bool = False

    def begin_stage(self, stage: str) -> None:
        """Note that a stage begins, or how far it is."""
        same = stage.partition(",")[0] == self.stage.partition(",")[0]
        self.step += bool(self.stage) and not same
        self.stage = stage

    def seconds(self) -> float:
        """How long it has been running."""
        return 0.0 if self.began is None else time.monotonic() - self.began


def _kind(job: Job) -> str:
    return "again" if job.again else job.matcher


class FullError(SemisureError):
    """The queue has no room."""


class Queue:
    """Jobs by their unguessable ids; the oldest finished ones are dropped.

    Each worker process has a thread here that gives it jobs, and replaces it if a job
    crashed it. Networks are large, so only the first worker runs them.
    """

    def __init__(self, limits: Limits, start_worker: Callable[[], Worker]) -> None:
        self._limits = limits
        self._start_worker = start_worker
        self._jobs: dict[str, Job] = {}
        self._busy: dict[str, Worker] = {}  # by the id of the job
        self._seconds: dict[str, float] = {}  # of each kind's last job
        self._closing = False
        self._change = threading.Condition()
        self._threads = [
            threading.Thread(target=self._serve, args=(k,), daemon=True)
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
            for worker in self._busy.values():
                worker.kill()
            self._change.notify_all()
        for thread in self._threads:
            thread.join()

    def add(self, order: Order) -> Job:
        """Queue `order`."""
        job = Job(order, order.matcher, order.sample, order.kept is not None)
        with self._change:
            self._check_room()
            self._drop_oldest()
            self._jobs[job.id] = job
            self._change.notify_all()
        return job

    def cancel(self, job: Job) -> None:
        """Take it out of the queue, or kill the worker that runs it."""
        with self._change:
            if job.state == "waiting":
                self._end(job, "cancelled", CANCELLED)
            elif job.state == "running":
                job.cancelled = True
                if job.id in self._busy:
                    self._busy[job.id].kill()

    def check_room(self) -> None:
        """Raise one sentence if another job would be refused."""
        with self._change:
            self._check_room()

    def get(self, job_id: str) -> Job | None:
        """The job, if it is still kept."""
        return self._jobs.get(job_id)

    def ahead(self, job: Job) -> int:
        """How many jobs wait before this one."""
        with self._change:
            waiting = [j for j in self._jobs.values() if j.state == "waiting"]
        return waiting.index(job) if job in waiting else 0

    def usual_seconds(self, job: Job) -> float | None:
        """How long the last job of the same kind ran."""
        return self._seconds.get(_kind(job))

    def _check_room(self) -> None:
        taken = sum(job.state in OPEN for job in self._jobs.values())
        if taken >= self._limits.workers + self._limits.waiting:
            raise FullError(
                f"{taken} jobs are running or waiting. Try again in a minute."
            )

    def _drop_oldest(self) -> None:
        finished = [j.id for j in self._jobs.values() if j.state not in OPEN]
        for job_id in finished[: max(0, len(finished) - self._limits.kept + 1)]:
            del self._jobs[job_id]

    def _serve(self, number: int) -> None:
        """Give jobs to one worker for as long as the server runs."""
        worker = self._new_worker()
        while (job := self._next(number)) is not None:
            if worker is None or not worker.is_alive():  # killed between two jobs
                worker = self._new_worker()
            self._run(job, worker)
            if worker is not None and not worker.is_alive():
                worker = self._new_worker()  # now: the next job need not wait for it
        if worker is not None:
            worker.kill()

    def _new_worker(self) -> Worker | None:
        try:
            return self._start_worker()
        except OSError:  # the machine has no room for a process
            logger.exception("A worker could not be started")
            return None

    def _next(self, number: int) -> Job | None:
        """Wait for a job that this worker may run; None when the server closes."""
        with self._change:
            while not self._closing:
                for job in self._jobs.values():
                    mine = number == 0 or job.matcher == EMBEDDED or job.again
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
            self._busy[job.id] = worker
        files, message = self._attempt(job, order, worker)
        with self._change:
            del self._busy[job.id]
            if job.cancelled:
                self._end(job, "cancelled", CANCELLED)
            elif message:
                self._end(job, "failed", message)
            else:
                job.files = files
                self._seconds[_kind(job)] = job.seconds()
                self._end(job, "done", "")

    @staticmethod
    def _attempt(job: Job, order: Order, worker: Worker) -> tuple[Files, str]:
        """The result's files, or why there are none."""
        try:
            return worker.run(order, job.begin_stage), ""
        except SemisureError as error:
            return {}, str(error)
        except Exception:
            logger.exception("A job failed")
            worker.kill()
            return {}, BUG

    @staticmethod
    def _end(job: Job, state: State, message: str) -> None:
        job.order = None
        job.state, job.message = state, message
