"""A bounded queue of jobs, and the processes that run them.

A damaged or hostile image can harm a process, not the server: nothing that a process
sends is unpickled.
"""

from __future__ import annotations

import json
import logging
import secrets
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Literal

from semisure.engine.pool import child_process, stay_a_child
from semisure.errors import SemisureError
from semisure.types import Calibration
from semisure.web.orders import EMBEDDED, STAGES, Limits, Order

Files = dict[str, bytes]
State = Literal["waiting", "running", "done", "failed", "cancelled"]
OPEN = ("waiting", "running")
BUG = "An internal error occurred; see the server's log."
DIED = (
    "The job's process crashed, because of a damaged image or lack of memory. The "
    "server still runs: try other images, or smaller ones."
)
LATE = (
    "The job was stopped after {:g} s, the time limit of a job. Reduce the images, "
    "choose another matcher, or start semisure serve with a larger --time-limit."
)
NO_MEMORY = "There is not enough memory for this pair. Reduce the images."
logger = logging.getLogger(__name__)


class FullError(SemisureError):
    """The queue has no room."""


@dataclass(slots=True, eq=False)
class Job:
    """One order and how far it is, for the page to poll."""

    order: Order
    worker: Worker
    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    state: State = "waiting"
    stage: str = ""
    step: int = 0  # the stage's number
    message: str = ""  # why it has no result
    files: Files = field(default_factory=dict)  # the result
    began: float = 0.0

    def begin_stage(self, stage: str) -> None:
        """Note that a stage begins, or how far a calibration before it is."""
        self.stage = stage
        if stage in STAGES:
            self.step = STAGES.index(stage)

    def seconds(self) -> float:
        """How long it has been running."""
        return time.monotonic() - self.began if self.began else 0.0

    def end(self, state: State, message: str = "") -> None:
        """Its last state; the images are forgotten."""
        self.state, self.message = state, message
        self.order = replace(self.order, files={})


class Queue:
    """Jobs by their unguessable ids; the oldest finished ones are dropped."""

    def __init__(self, limits: Limits, calibrations: Mapping[str, Calibration]) -> None:
        self._limits = limits
        self._jobs: dict[str, Job] = {}
        self._lock = threading.RLock()  # on states of jobs
        self._workers = [Worker(calibrations, limits) for _ in range(limits.workers)]

    def open(self) -> None:
        """Start the workers."""
        for worker in self._workers:
            worker.thread.submit(worker.start)

    def close(self) -> None:
        """Kill the workers, finished or not."""
        for job in list(self._jobs.values()):
            self.cancel(job)
        for worker in self._workers:
            worker.thread.shutdown()
            worker.kill()

    def add(self, order: Order) -> Job:
        """Queue `order`, or raise one sentence if there is no room."""
        with self._lock:
            self.check_room()
            jobs = list(self._jobs.values())
            # Networks are large: only the first worker runs them.
            network = order.matcher != EMBEDDED and not order.again
            able = self._workers[:1] if network else self._workers[::-1]
            busy = [job.worker for job in jobs if job.state in OPEN]
            job = Job(order, min(able, key=busy.count))
            finished = [old.id for old in jobs if old.state not in OPEN]
            for job_id in finished[: max(0, len(finished) - self._limits.kept + 1)]:
                del self._jobs[job_id]
            self._jobs[job.id] = job
            job.worker.thread.submit(self._run, job)
        return job

    def check_room(self) -> None:
        """Raise one sentence if another job would be refused."""
        with self._lock:
            taken = sum(job.state in OPEN for job in self._jobs.values())
        if taken >= self._limits.workers + self._limits.waiting:
            raise FullError(
                f"{taken} jobs are running or waiting. Try again in a minute."
            )

    def cancel(self, job: Job) -> None:
        """Take it out of the queue, or kill the process that runs it."""
        with self._lock:
            if job.state == "running":
                job.worker.kill()
            if job.state in OPEN:
                job.end("cancelled", "Cancelled.")

    def get(self, job_id: str) -> Job | None:
        """The job, if it is still kept."""
        return self._jobs.get(job_id)

    def progress(self, job: Job) -> dict[str, Any]:
        """How far a job is."""
        with self._lock:
            waiting = [j for j in self._jobs.values() if j.state == "waiting"]
        return {
            **{k: getattr(job, k) for k in ("state", "stage", "step", "message")},
            "steps": len(STAGES),
            "ahead": waiting.index(job) if job in waiting else 0,
            "seconds": job.seconds(),
        }

    def _run(self, job: Job) -> None:
        with self._lock:
            if job.state != "waiting":
                return
            job.state, job.began = "running", time.monotonic()
        files, message = Files(), ""
        try:
            files = job.worker.run(job.order, job.begin_stage)
        except SemisureError as error:
            message = str(error)
        with self._lock:
            if job.state == "running":  # not cancelled
                job.files = files
                job.end("failed" if message else "done", message)


class Worker:
    """A process that runs one order after another; a killed one is started again."""

    def __init__(self, calibrations: Mapping[str, Calibration], limits: Limits) -> None:
        self.thread = ThreadPoolExecutor(1)  # its jobs, one after another
        self._calibrations, self._limits = dict(calibrations), limits
        self._process: BaseProcess | None = None
        self._lock = threading.Lock()  # two threads may want to kill it

    def start(self) -> None:
        """Start the process unless it is alive."""
        with self._lock:
            if self._process is None or not self._process.is_alive():
                self._process, self._pipe = child_process(
                    worker_main,
                    self._calibrations,
                    self._limits,
                    name="semisure page worker",
                )

    def kill(self) -> None:
        """End the process; an order that it is running fails."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.join()

    def run(self, order: Order, on_stage: Callable[[str], None]) -> Files:
        """The files of the result, or why there is none: one sentence for the page."""
        late = threading.Event()

        def stop() -> None:
            late.set()
            self.kill()  # ends all sending and receiving

        seconds = self._limits.seconds
        timer = threading.Timer(seconds, stop)
        timer.start()
        try:
            self.start()
            self._pipe.send(order)
            while True:
                message = json.loads(self._pipe.recv_bytes())
                if "stage" in message:
                    on_stage(str(message["stage"]))
                elif "files" in message:
                    return {name: self._pipe.recv_bytes() for name in message["files"]}
                else:
                    raise SemisureError(str(message["failed"]))
        except SemisureError:
            raise
        except Exception:  # noqa: BLE001, it is dead, or a hostile image made it lie
            self.kill()
            raise SemisureError(
                LATE.format(seconds) if late.is_set() else DIED
            ) from None
        finally:
            timer.cancel()


# ---- in the process ------------------------------------------------------------------


def worker_main(
    pipe: Connection, calibrations: dict[str, Calibration], limits: Limits
) -> None:
    """Run orders until the server is gone."""
    stay_a_child()
    if sys.platform != "win32":  # a crash must not write users' images to the disk
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    from semisure.web import results

    def send(message: dict[str, Any]) -> None:
        pipe.send_bytes(json.dumps(message).encode())

    def on_stage(stage: str) -> None:
        send({"stage": stage})

    with suppress(EOFError, BrokenPipeError):
        while True:
            order = pipe.recv()
            try:
                files = results.result_files(order, calibrations, limits, on_stage)
            except SemisureError as error:
                send({"failed": str(error)})
            except MemoryError:
                send({"failed": NO_MEMORY})
            except (EOFError, BrokenPipeError):  # the server is gone
                raise
            except Exception:
                logger.exception("A job failed")
                send({"failed": BUG})
            else:
                send({"files": list(files)})
                for data in files.values():
                    pipe.send_bytes(data)
