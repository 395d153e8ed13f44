"""The options of commands that work on many items: who works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from semisure.cli import choices

if TYPE_CHECKING:
    from semisure.engine import EngineSettings


EngineName = Annotated[
    str,
    choices.one_of(
        choices.ENGINES, "Who works, processes of this machine or a cluster", "--engine"
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        help="Ray's head node; default: a Ray of its own on this machine.",
        metavar="HOST:PORT|auto",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        help="Number of processes; default: one a processor, at most 8 (ray: all).",
        metavar="N",
    ),
]
WorkersOrNone = Annotated[
    int,
    typer.Option(
        "--workers",
        help="Number of processes of one thread each; 0: this process, all threads.",
        metavar="N",
    ),
]
GpusPerWorker = Annotated[
    float,
    typer.Option(
        help="Share of a GPU for each process, such as 0.25.", metavar="SHARE"
    ),
]
MaxFailures = Annotated[
    int | None,
    typer.Option(
        help="End once more items than these have failed; default: none ends the run.",
        metavar="N",
    ),
]


def engine_settings(
    engine: str,
    address: str | None,
    workers: int | None,
    gpus_per_worker: float,
) -> EngineSettings:
    """The engine that the flags mean."""
    from semisure.engine import ENGINES, EngineSettings
    from semisure.types import as_choice

    kind = as_choice("engine", engine, ENGINES)
    return EngineSettings(
        kind=kind,
        address=address,
        workers=None if kind == "ray" and workers == 0 else workers,
        gpus_per_worker=gpus_per_worker,
    )
