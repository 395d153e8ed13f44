"""Progress bars on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import TypeAlias

    from semisure.types import Tick

    Begin: TypeAlias = Callable[[str], Tick]


@contextmanager
def stages(quiet: bool = False) -> Iterator[Begin]:
    """A bar for each stage of a long command, with the time that is left.

    Calling the result with a stage's name begins it and returns its tick, to be called
    with (done, total). A stage that never ticks shows a clock until the next begins.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("left,"),
        TimeElapsedColumn(),
        TextColumn("so far"),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    ) as bar:

        def begin(name: str) -> Tick:
            for earlier in bar.tasks:
                earlier.visible = earlier.total is not None
            task = bar.add_task(name, total=None)
            return lambda done, total: bar.update(task, completed=done, total=total)

        yield begin


@contextmanager
def progress(name: str, quiet: bool = False) -> Iterator[Tick]:
    """The bar of a single stage."""
    with stages(quiet) as begin:
        yield begin(name)
