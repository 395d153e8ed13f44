"""Children of processes that a test started, so that it ends only its own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path


def command_line(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def _parents() -> dict[int, int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            # The name, in parentheses, may hold anything; state and parent follow it.
            state, parent = stat.rpartition(")")[2].split()[:2]
            if state != "Z":
                parents[int(entry.name)] = int(parent)
    return parents


def descendants(process: int) -> list[int]:
    """All processes that stem from one, which is not among them."""
    parents = _parents()

    def below(one: int) -> Iterator[int]:
        for child, parent in parents.items():
            if parent == one:
                yield child
                yield from below(child)

    return list(below(process))


def kill_tree(process: int) -> None:
    for one in [*descendants(process), process]:
        kill(one)


def kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def wait_until(true: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
