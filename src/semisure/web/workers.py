"""Worker processes: whatever a stranger's image does, it does to one of these.

The server sends an order and gets stages and files back, as JSON and plain bytes over a
pipe: a worker reads what strangers sent, so nothing that it says is unpickled.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import Any

from semisure.errors import SemisureError
from semisure.types import Calibration
from semisure.web.limits import Limits
from semisure.web.orders import Order

logger = logging.getLogger(__name__)

BUG = "Something went wrong inside; the server's log says what."
DIED = (
    "The job's process died, of a damaged image or for want of memory. The server goes "
    "on: try other images, or smaller ones."
)
NOT_STARTED = "The job's process died before it began; the server's log says why."
NO_MEMORY = "There is not enough memory for this pair. Reduce the images."


class JobError(SemisureError):
    """Why a job has no result: one sentence for the page."""


class Worker:
    """A process that does one order after another until it is killed."""

    def __init__(self, calibrations: Mapping[str, Calibration], limits: Limits) -> None:
        context = get_context("spawn")
        self._limits = limits
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=labour,
            args=(theirs, dict(calibrations), limits),
            name="semisure worker",
            daemon=True,
        )
        with _out_of_earshot():
            self._process.start()
        theirs.close()
        self._ready = self._late = False
        self._lock = threading.Lock()  # two threads may want to kill it

    def is_alive(self) -> bool:
        """False once it was killed, or has died of a job."""
        with self._lock:
            return self._process.is_alive()

    def kill(self) -> None:
        """End it, whatever it is doing; a job of it ends with a :class:`JobError`."""
        with self._lock:
            self._process.kill()
            self._process.join()

    def do(self, order: Order, tell: Callable[[str], None]) -> dict[str, bytes]:
        """The files of the result; the worker is dead after some of the errors."""
        try:
            if not self._ready:  # starting up is not counted against the job
                with self._limited():
                    self._hear()
                self._ready = True
            with self._limited():
                return self._done(order, tell)
        except (EOFError, OSError):
            self.kill()
            raise JobError(self._end()) from None

    def _done(self, order: Order, tell: Callable[[str], None]) -> dict[str, bytes]:
        asked = {**order.chosen(), "report": order.report}
        _send(self._pipe, asked, order.files or ())
        while True:
            said = self._hear()
            if "stage" in said:
                tell(said["stage"])
            elif "files" in said:
                return {name: self._pipe.recv_bytes() for name in said["files"]}
            else:
                raise JobError(said["failed"])

    def _hear(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self._pipe.recv_bytes())
        return said

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Whatever is waited for in here, be it said, heard or sent, has an end."""
        timer = threading.Timer(self._limits.seconds, self._stop)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _stop(self) -> None:
        self._late = True
        self.kill()

    def _end(self) -> str:
        if not self._late:
            return DIED if self._ready else NOT_STARTED
        return (
            f"The job was stopped after {self._limits.seconds:g} s, the most that one "
            "may take. Reduce the images, choose another matcher, or start semisure "
            "serve with a larger --time-limit."
        )


@contextmanager
def _out_of_earshot() -> Iterator[None]:
    """A process started here never hears Ctrl-C, which a terminal sends to all.

    It could ignore the signal by itself, but not while it still loads Python.
    """
    if sys.platform == "win32":
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # first: it changes the mask in its own way
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _send(pipe: Connection, said: dict[str, Any], files: Any = ()) -> None:
    pipe.send_bytes(json.dumps({**said, "parts": len(files)}).encode())
    for data in files:
        pipe.send_bytes(data)


# ---- in the process ------------------------------------------------------------------


def labour(pipe: Connection, known: dict[str, Calibration], limits: Limits) -> None:
    """Do orders until the server is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's to answer
    _leave_no_core()
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    from semisure.web import work

    work.warm_up()
    _send(pipe, {"ready": True})
    with suppress(EOFError, BrokenPipeError):
        while True:
            order = _receive(pipe)
            try:
                files = work.run(
                    order, known, limits, lambda stage: _send(pipe, {"stage": stage})
                )
            except SemisureError as error:
                _send(pipe, {"failed": str(error)})
            except MemoryError:
                _send(pipe, {"failed": NO_MEMORY})
            except (EOFError, BrokenPipeError):
                raise
            except Exception:
                logger.exception("A job failed")
                _send(pipe, {"failed": BUG})
            else:
                _send(pipe, {"files": list(files)}, files.values())


def _receive(pipe: Connection) -> Order:
    said = json.loads(pipe.recv_bytes())
    parts = [pipe.recv_bytes() for _ in range(said.pop("parts"))]
    return Order(files=(parts[0], parts[1]) if parts else None, **said)


def _end_with_the_server() -> None:
    """A server that was killed cannot kill its workers; they see to it themselves."""
    server = parent_process()
    if server is not None:
        wait([server.sentinel])
        os._exit(1)


def _leave_no_core() -> None:
    """A crash must not write the memory it had to the disk."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
