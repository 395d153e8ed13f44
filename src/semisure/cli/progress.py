"""Progress bars on standard error, or a line of JSON per minute if that is a file."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semisure.types import Tick
    from semisure.types.display import Begin

LINE_S = 60.0  # between two lines


@contextmanager
def stages(quiet: bool = False) -> Iterator[Begin]:
    """A bar for each stage of a long command, with the time left and the time taken.

    Calling the result with a stage's name begins it and returns its tick, to be called
    with (done, total). A stage that never ticks shows a clock until the next begins.
    """
    from semisure.types.display import quietly

    if quiet:
        logger = logging.getLogger("semisure")
        before = logger.level
        logger.setLevel(logging.ERROR)
        try:
            yield quietly
        finally:
            logger.setLevel(before)
        return
    if not sys.stderr.isatty():
        yield progress_lines
        return
    from rich.console import Console
    from rich.progress import Progress, TimeElapsedColumn

    columns = *Progress.get_default_columns(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:

        def begin(name: str) -> Tick:
            for earlier in bar.tasks:
                earlier.visible = earlier.total is not None
            task = bar.add_task(name, total=None)
            return lambda done, total: bar.update(task, completed=done, total=total)

        yield begin


def progress_lines(name: str) -> Tick:
    """Progress for the logs of jobs."""
    started = last = time.monotonic()

    def tick(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < LINE_S:
            return
        last = now
        rate = done / (now - started)
        line = {
            "stage": name,
            "done": done,
            "total": total,
            "per_second": round(rate, 3),
            "seconds_left": round((total - done) / rate) if rate else None,
        }
        print(json.dumps(line), file=sys.stderr, flush=True)  # noqa: T201

    return tick
