"""Benches from their names to their outcomes."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from semisure.bench import BENCHES, check_name
from semisure.bench.calibrations import given
from semisure.bench.data import usable
from semisure.bench.options import Options
from semisure.bench.outcome import Outcome
from semisure.bench.study import Stages, Study
from semisure.engine import EngineSettings, open_engine
from semisure.errors import SemisureError

# Never this process: its threads would change the last bits of a sum.
ONE_PROCESS = EngineSettings(workers=1)


def run_bench(
    name: str,
    options: Options,
    *,
    engine: EngineSettings = ONE_PROCESS,
    tick: Stages | None = None,
) -> Outcome:
    """The bench called `name`."""
    check_name(name)
    with open_study(options, engine, tick) as study:
        return of_study(name, study)


def of_study(name: str, study: Study) -> Outcome:
    """The same by the worker processes of a study."""
    check_name(name)
    roots, remarks = usable(study.options, BENCHES[name])
    study = replace(study.on(roots), log=[])
    study.note(*remarks)
    module = importlib.import_module(f"semisure.bench.studies.{name}")
    bench: Callable[[Study], Outcome] = getattr(module, name)
    outcome = bench(study)
    return replace(outcome, notes=[*outcome.notes, *study.log])


@dataclass(frozen=True, slots=True)
class Everything:
    """Outcomes by bench, and a sentence for each bench that could not be run."""

    outcomes: dict[str, Outcome]
    skipped: dict[str, str]


def run_all(
    options: Options,
    *,
    engine: EngineSettings = ONE_PROCESS,
    tick: Stages | None = None,
) -> Everything:
    """All benches by the same worker processes; one that fails does not stop others."""
    everything = Everything({}, {})
    with open_study(options, engine, tick) as study:
        for name in BENCHES:
            try:
                everything.outcomes[name] = of_study(name, study)
            except SemisureError as error:
                everything.skipped[name] = str(error)
    return everything


@contextmanager
def open_study(
    options: Options,
    settings: EngineSettings = ONE_PROCESS,
    tick: Stages | None = None,
) -> Iterator[Study]:
    """A study with its worker processes, which end with it."""
    if options.calibration is not None:
        given(options)  # raises now if the files cannot serve, not after matching
    with open_engine(settings) as engine:
        yield Study(options, engine) if tick is None else Study(options, engine, tick)
