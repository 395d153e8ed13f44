"""Algorithm 1: the law of each matcher fitted to 200 pairs whose truth is known.

Two files come of it for each matcher: the paper's nine parameters as
``MATCHER-faithful.json``, and ours with a location as ``MATCHER.json``, either of them
for ``--calibration`` of any command.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from semisure.bench.exported import Exported, with_truth
from semisure.bench.outcome import Cell, Outcome, Table
from semisure.bench.study import Study
from semisure.errors import FitError
from semisure.io.atomic import as_json
from semisure.io.files import calibration_document
from semisure.law.fit_law import FitReport, Optimiser, fit
from semisure.types import Calibration

LEAST = 1000  # matches; fewer hardly tell eight parameters


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One matcher's law to be fitted, with or without a location."""

    matcher: str
    exported: Sequence[Exported]
    location: bool
    optimiser: Optimiser


def evaluate(task: Task) -> tuple[Calibration, FitReport]:
    """The fit, and how it went; a location is fitted by Newton's method."""
    names = sorted({e.group for e in task.exported})
    return fit(
        [with_truth(e) for e in task.exported],
        location=task.location,
        optimiser="newton" if task.location else task.optimiser,
        matcher=task.matcher,
        provenance={"pairs": len(task.exported), "sequences": len(names)},
    )


def calibration(study: Study) -> Outcome:
    """Parameters in the paper's symbols, and the files."""
    tasks = []
    for matcher in study.options.matchers:
        exported = _some(study, matcher)
        matches = sum(len(e.matches()) for e in exported)
        if matches < LEAST:
            raise FitError(
                f"A calibration needs at least {LEAST:,} matches, but {matcher} found "
                f"{matches:,} in {len(exported)} pairs; give more pairs."
            )
        by = study.options.optimiser
        tasks += [Task(matcher, exported, located, by) for located in (False, True)]
    fits = study.map(evaluate, tasks, "Fitting laws")
    printed: list[list[Cell]] = []
    files = {}
    rows = []
    for task, (fitted, report) in zip(tasks, fits, strict=True):
        symbols = _symbols(fitted)
        printed.append(
            [task.matcher, *symbols.values(), report.nll, report.pairs, report.matches]
        )
        rows.append({"matcher": task.matcher, **symbols, "nll": report.nll})
        name = task.matcher if task.location else f"{task.matcher}-faithful"
        files[f"{name}.json"] = as_json(calibration_document(fitted, report))
    table = Table(
        name="calibration",
        title="Fitted parameters, in the paper's symbols with t_m = 0, and our "
        "location in fine windows",
        head=["", *symbols, "NLL", "pairs", "matches"],
        rows=printed,
        digits=3,
    )
    note = f"Files: {', '.join(files)}."
    return Outcome(tables=[table], rows=rows, files=files, notes=[note])


def _symbols(fitted: Calibration) -> dict[str, float | None]:
    """The paper's symbols but for t_m, and the location in fine windows."""
    symbols: dict[str, float | None] = dict(fitted.paper_symbols())
    symbols.pop("t_m")  # 0: data tell only eight of the nine apart
    location = fitted.location or (None, None)
    return symbols | dict(zip(("mu_x", "mu_y"), location, strict=True))


def _some(study: Study, matcher: str) -> list[Exported]:
    """The paper's 200 pairs, evenly from all folders."""
    options = study.options
    limit = options.limit or -(-options.calibration_pairs // len(options.data))
    return study.changed(limit=limit).exported(matcher, held_out=True)
