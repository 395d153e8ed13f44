"""Progress bars on standard error."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semisure.types import Tick
    from semisure.types.display import Begin

LINE_S = 60.0  # between two lines where there is no terminal


@contextmanager
def stages(quiet: bool = False, *, lines: bool = False) -> Iterator[Begin]:
    """A bar for each stage of a long command, with the time that is left.

    Calling the result with a stage's name begins it and returns its tick, to be called
    with (done, total). A stage that never ticks shows a clock until the next begins.
    With `lines`, a JSON line a minute takes the bar's place where there is no terminal.
    """
    from semisure.types.display import quietly

    terminal = sys.stderr.isatty()
    if quiet or not terminal:
        yield ProgressLines if lines and not terminal else quietly
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("left,"),
        TimeElapsedColumn(),
        TextColumn("so far"),
        console=Console(stderr=True),
        transient=True,
    ) as bar:

        def begin(name: str) -> Tick:
            for earlier in bar.tasks:
                earlier.visible = earlier.total is not None
            task = bar.add_task(name, total=None, rate="")
            started = time.monotonic()

            def tick(done: int, total: int) -> None:
                rate = done / max(time.monotonic() - started, 1e-9) if lines else 0.0
                words = f"{rate:,.1f} a second," if rate else ""
                bar.update(task, completed=done, total=total, rate=words)

            return tick

        yield begin


class ProgressLines:
    """Progress as a line of JSON a minute, for logs of jobs."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._started = self._told = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._told < LINE_S:
            return
        self._told = now
        rate = done / (now - self._started)
        line = {
            "stage": self._name,
            "done": done,
            "total": total,
            "per_second": round(rate, 3),
            "seconds_left": round((total - done) / rate) if rate else None,
        }
        print(json.dumps(line), file=sys.stderr, flush=True)  # noqa: T201


@contextmanager
def progress(name: str, quiet: bool = False) -> Iterator[Tick]:
    """The bar of a single stage."""
    with stages(quiet) as begin:
        yield begin(name)
