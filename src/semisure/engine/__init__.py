"""The same function over many items: in this process, in several, or on a cluster.

An engine gets a function of a batch, and the batches, and yields ``(index, answer)``
for each item when it is ready; ``index`` counts the items of all batches in order. A
worker process may die of a damaged image or lack of memory: its batch is tried again,
then split, until one item that ends every process remains; its answer is :class:`Lost`.

Worker processes have one thread each, so that the last bits of a sum do not depend on
their number.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

from semisure.engine.attempts import Lost
from semisure.engine.pool import HERE, Each, Engine, ProcessPool, in_batches, in_order
from semisure.errors import InputError
from semisure.types import as_choice

__all__ = [
    "HERE",
    "Each",
    "Engine",
    "EngineSettings",
    "Lost",
    "in_batches",
    "in_order",
    "open_engine",
]

Kind = Literal["local", "ray"]
MOST_BY_DEFAULT = 8  # a network takes a gigabyte in each process


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """The kind and number of workers.

    Without `workers` there are as many as processors, at most eight here, all of a Ray
    cluster; 0 is this process alone. Without an `address`, Ray is started on this
    machine.

    >>> EngineSettings(workers=-1)
    Traceback (most recent call last):
    semisure.errors.InputError: workers must be at least 0, but is -1.
    """

    kind: Kind = "local"
    workers: int | None = None
    address: str | None = None  # of a Ray cluster
    gpus_per_worker: float = 0.0  # a share of one, such as 0.25

    def __post_init__(self) -> None:
        as_choice("engine", self.kind, get_args(Kind))
        if self.workers is not None and self.workers < 0:
            raise InputError(f"workers must be at least 0, but is {self.workers}.")
        if self.address is not None and self.kind != "ray":
            raise InputError("An address is for the engine of kind ray.")

    def count(self) -> int:
        """The number of processes on this machine."""
        if self.workers is not None:
            return self.workers
        has_affinity = hasattr(os, "sched_getaffinity")
        own = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count()
        return min(own or 1, MOST_BY_DEFAULT)


@contextmanager
def open_engine(settings: EngineSettings | Engine | None = None) -> Iterator[Engine]:
    """The engine; its processes end with the context. One that is open stays open.

    >>> with open_engine(EngineSettings(workers=0)) as engine:
    ...     list(engine.map(Each(abs), [[-1]]))
    [(0, 1)]
    """
    settings = settings or EngineSettings()
    if not isinstance(settings, EngineSettings):
        yield settings
    elif settings.kind == "ray":
        from semisure.engine.ray import ray_engine

        with ray_engine(settings) as cluster:
            yield cluster
    elif settings.workers == 0:
        yield HERE
    else:
        processes = ProcessPool(settings.count(), settings.gpus_per_worker)
        try:
            yield processes
        finally:
            processes.close()
