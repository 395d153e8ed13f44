"""Worker processes: a damaged or hostile image can harm one of these, not the server.

The server sends an order and gets stages and files back, as JSON and plain bytes over a
pipe: a worker reads untrusted images, so nothing that it sends is unpickled.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields
from multiprocessing.connection import Connection
from typing import Any

from semisure.engine.pool import child_process, stay_a_child
from semisure.errors import SemisureError
from semisure.types import Calibration
from semisure.web.limits import Limits
from semisure.web.orders import Kept, Order

logger = logging.getLogger(__name__)

BUG = "An internal error occurred; see the server's log."
DIED = (
    "The job's process crashed, because of a damaged image or lack of memory. The "
    "server still runs: try other images, or smaller ones."
)
NOT_STARTED = "The job's process crashed at its start; see the server's log."
NO_MEMORY = "There is not enough memory for this pair. Reduce the images."


class JobError(SemisureError):
    """Why a job has no result: one sentence for the page."""


class Worker:
    """A process that runs one order after another until it is killed."""

    def __init__(self, calibrations: Mapping[str, Calibration], limits: Limits) -> None:
        self._limits = limits
        self._process, self._pipe = child_process(
            worker_main, dict(calibrations), limits, name="semisure page worker"
        )
        self._ready = self._late = False
        self._lock = threading.Lock()  # two threads may want to kill it

    def is_alive(self) -> bool:
        """False once it was killed, or has crashed."""
        with self._lock:
            return self._process.is_alive()

    def kill(self) -> None:
        """End it; a job that it is running fails with a :class:`JobError`."""
        with self._lock:
            self._process.kill()
            self._process.join()

    def run(self, order: Order, on_stage: Callable[[str], None]) -> dict[str, bytes]:
        """The files of the result; after some errors the worker is dead."""
        try:
            if not self._ready:  # its start is not counted against the job's time
                with self._time_limit():
                    self._message()
                self._ready = True
            with self._time_limit():
                return self._run(order, on_stage)
        except (EOFError, OSError):
            self.kill()
            raise JobError(self._why_dead()) from None

    def _run(self, order: Order, on_stage: Callable[[str], None]) -> dict[str, bytes]:
        settings = {**order.chosen(), "report": order.report}
        parts = order.files or () if order.kept is None else order.kept.parts()
        _send(self._pipe, settings, parts)
        while True:
            message = self._message()
            if "stage" in message:
                on_stage(message["stage"])
            elif "files" in message:
                return {name: self._pipe.recv_bytes() for name in message["files"]}
            else:
                raise JobError(message["failed"])

    def _message(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._pipe.recv_bytes())
        return message

    @contextmanager
    def _time_limit(self) -> Iterator[None]:
        """Kill the worker, which ends all sending and receiving, after the limit."""
        timer = threading.Timer(self._limits.seconds, self._kill_late)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _kill_late(self) -> None:
        self._late = True
        self.kill()

    def _why_dead(self) -> str:
        if not self._late:
            return DIED if self._ready else NOT_STARTED
        return (
            f"The job was stopped after {self._limits.seconds:g} s, the time limit of "
            "a job. Reduce the images, choose another matcher, or start semisure serve "
            "with a larger --time-limit."
        )


def _send(pipe: Connection, message: dict[str, Any], files: Any = ()) -> None:
    pipe.send_bytes(json.dumps({**message, "parts": len(files)}).encode())
    for data in files:
        pipe.send_bytes(data)


# ---- in the process ------------------------------------------------------------------


def worker_main(
    pipe: Connection, calibrations: dict[str, Calibration], limits: Limits
) -> None:
    """Run orders until the server is gone."""
    _disable_core_dumps()
    stay_a_child()
    from semisure.web import results

    results.warm_up()
    _send(pipe, {"ready": True})
    with suppress(EOFError, BrokenPipeError):
        while True:
            _answer(pipe, _receive(pipe), calibrations, limits)


def _answer(
    pipe: Connection,
    order: Order,
    calibrations: dict[str, Calibration],
    limits: Limits,
) -> None:
    """Run one order; send its stages, then its files or why it has none."""
    from semisure.web import results

    try:
        files = results.result_files(
            order, calibrations, limits, lambda stage: _send(pipe, {"stage": stage})
        )
    except SemisureError as error:
        _send(pipe, {"failed": str(error)})
    except MemoryError:
        _send(pipe, {"failed": NO_MEMORY})
    except (EOFError, BrokenPipeError):  # the server is gone
        raise
    except Exception:
        logger.exception("A job failed")
        _send(pipe, {"failed": BUG})
    else:
        _send(pipe, {"files": list(files)}, files.values())


def _receive(pipe: Connection) -> Order:
    message = json.loads(pipe.recv_bytes())
    parts = [pipe.recv_bytes() for _ in range(message.pop("parts"))]
    if len(parts) > 2:
        names = (f.name for f in fields(Kept))
        return Order(kept=Kept(**dict(zip(names, parts, strict=True))), **message)
    return Order(files=(parts[0], parts[1]) if parts else None, **message)


def _disable_core_dumps() -> None:
    """A crash must not write users' images to the disk."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
