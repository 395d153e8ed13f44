"""Benches from their names to their outcomes."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from semisure.bench import BENCHES
from semisure.bench.calibrations import both_laws
from semisure.bench.data import usable
from semisure.bench.options import Options
from semisure.bench.outcome import Outcome
from semisure.bench.study import Study
from semisure.engine import EngineSettings, open_engine
from semisure.errors import SemisureError
from semisure.types import as_choice
from semisure.types.display import Begin, quietly

# Never this process: its threads would change the last bits of a sum.
ONE_PROCESS = EngineSettings(workers=1)


def run_bench(
    name: str,
    options: Options,
    *,
    engine: EngineSettings = ONE_PROCESS,
    tick: Begin = quietly,
) -> Outcome:
    """The bench called `name`."""
    with open_study(options, engine, tick) as study:
        return of_study(name, study)


def of_study(name: str, study: Study) -> Outcome:
    """The same by the worker processes of a study."""
    entry = BENCHES[as_choice("The bench", name, tuple(BENCHES))]
    roots, remarks = usable(study.options, entry)
    study = replace(study.on(roots), log=[])
    study.note(*remarks)
    module = importlib.import_module(f"semisure.bench.studies.{entry.module or name}")
    return replace(getattr(module, name)(study), notes=study.log)


def run_all(
    options: Options,
    *,
    engine: EngineSettings = ONE_PROCESS,
    tick: Begin = quietly,
) -> tuple[dict[str, Outcome], dict[str, str]]:
    """All benches by the same worker processes; one that fails does not stop others.

    Outcomes by bench, and a sentence for each bench that could not be run.
    """
    outcomes, skipped = {}, {}
    with open_study(options, engine, tick) as study:
        for name in BENCHES:
            try:
                outcomes[name] = of_study(name, study)
            except SemisureError as error:
                skipped[name] = str(error)
    return outcomes, skipped


@contextmanager
def open_study(
    options: Options, settings: EngineSettings = ONE_PROCESS, tick: Begin = quietly
) -> Iterator[Study]:
    """A study with its worker processes, which end with it."""
    if options.calibration is not None:
        both_laws(options.calibration)  # raises now, not after matching
    with open_engine(settings) as engine:
        yield Study(options, engine, tick)
