"""A queue of jobs, and the process that runs them.

A damaged or hostile image can harm a process, not the server: nothing that a process
sends is unpickled.
"""

from __future__ import annotations

import json
import logging
import secrets
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
from semisure.web.orders import Limits, Order

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


@dataclass(slots=True, eq=False)
class Job:
    """One order and its progress, which the page polls."""

    order: Order
    id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    state: State = "waiting"
    stage: str = ""
    message: str = ""  # why it has no result
    files: Files = field(default_factory=dict)  # the result
    began: float = 0.0

    def progress(self) -> dict[str, Any]:
        """Its state, and for how long it has been running."""
        seconds = time.monotonic() - self.began if self.began else 0.0
        shown = {name: getattr(self, name) for name in ("state", "stage", "message")}
        return {**shown, "seconds": seconds}

    def end(self, state: State, message: str = "") -> None:
        """Set the final state and drop the images."""
        self.state, self.message = state, message
        self.order = replace(self.order, files={})


class Queue:
    """Jobs by unguessable ids, run one after another; the oldest are dropped."""

    def __init__(self, limits: Limits, calibrations: Mapping[str, Calibration]) -> None:
        self._limits = limits
        self._jobs: dict[str, Job] = {}
        self._lock = threading.RLock()  # on states of jobs
        self._thread = ThreadPoolExecutor(1)
        self._worker = Worker(calibrations, limits)

    def open(self) -> None:
        """Start the worker."""
        self._thread.submit(self._worker.start)

    def close(self) -> None:
        """Cancel all jobs and kill the worker."""
        for job in list(self._jobs.values()):
            self.cancel(job)
        self._thread.shutdown()
        self._worker.kill()

    def add(self, order: Order) -> Job:
        """Queue `order`."""
        job = Job(order)
        with self._lock:
            finished = [k for k, old in self._jobs.items() if old.state not in OPEN]
            for job_id in finished[: max(0, len(finished) - self._limits.results + 1)]:
                del self._jobs[job_id]
            self._jobs[job.id] = job
            self._thread.submit(self._run, job)
        return job

    def is_full(self) -> bool:
        """Whether the number of waiting jobs is at its limit."""
        with self._lock:
            waiting = [job for job in self._jobs.values() if job.state == "waiting"]
        return len(waiting) >= self._limits.waiting

    def cancel(self, job: Job) -> None:
        """Take it out of the queue, or kill the process that runs it."""
        with self._lock:
            if job.state == "running":
                self._worker.kill()
            if job.state in OPEN:
                job.end("cancelled", "Cancelled.")

    def get(self, job_id: str) -> Job | None:
        """The job, if it is still kept."""
        return self._jobs.get(job_id)

    def _run(self, job: Job) -> None:
        with self._lock:
            if job.state != "waiting":
                return
            job.state, job.began = "running", time.monotonic()
        files, message = Files(), ""

        def on_stage(stage: str) -> None:
            job.stage = stage

        try:
            files = self._worker.run(job.order, on_stage)
        except SemisureError as error:
            message = str(error)
        with self._lock:
            if job.state == "running":  # not cancelled
                job.files = files
                job.end("failed" if message else "done", message)


class Worker:
    """A process that runs one order after another; a killed one is started again."""

    def __init__(self, calibrations: Mapping[str, Calibration], limits: Limits) -> None:
        self._calibrations, self._limits = dict(calibrations), limits
        self._process: BaseProcess | None = None
        self._lock = threading.Lock()  # two threads may want to kill it

    def start(self) -> None:
        """Start the process unless it is alive."""
        with self._lock:
            if self._process is None or not self._process.is_alive():
                self._process, self._pipe = child_process(
                    worker_main, self._calibrations, name="semisure page worker"
                )

    def kill(self) -> None:
        """End the process; an order that it is running fails."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.join()

    def run(self, order: Order, on_stage: Callable[[str], None]) -> Files:
        """The files of the result; raises a sentence for the page if there is none."""
        late = threading.Event()

        def stop() -> None:
            late.set()
            self.kill()  # interrupts sending and receiving

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
        except Exception:  # noqa: BLE001, the process is dead or sends nonsense
            self.kill()
            raise SemisureError(
                LATE.format(seconds) if late.is_set() else DIED
            ) from None
        finally:
            timer.cancel()


# ---- in the process ------------------------------------------------------------------


def worker_main(pipe: Connection, calibrations: dict[str, Calibration]) -> None:
    """Run orders until the server is gone."""
    stay_a_child()
    from semisure.web import results

    def send(message: dict[str, Any]) -> None:
        pipe.send_bytes(json.dumps(message).encode())

    def on_stage(stage: str) -> None:
        send({"stage": stage})

    with suppress(EOFError, BrokenPipeError):
        while True:
            order = pipe.recv()
            try:
                files = results.result_files(order, calibrations, on_stage)
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
