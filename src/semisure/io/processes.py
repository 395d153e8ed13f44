"""Child processes that do not outlive their parent, and leave Ctrl-C to it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process
from multiprocessing.connection import wait


def exit_with_parent() -> None:
    """End this process once its parent is gone: one that was killed cannot do it."""
    threading.Thread(target=_watch, daemon=True).start()


def _watch() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def ctrl_c_blocked() -> Iterator[None]:
    """Processes started here ignore Ctrl-C, which a terminal sends to all of them.

    They also ignore it by themselves, but only once Python has loaded.
    """
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
