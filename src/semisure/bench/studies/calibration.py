"""Algorithm 1: the law of each matcher fitted to 200 pairs whose truth is known.

Two files come of it for each matcher: the paper's nine parameters as
``MATCHER-faithful.json``, and ours with a location as ``MATCHER.json``, either of them
for ``--calibration`` of any command.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from semisure.bench.match_cache import Exported
from semisure.bench.outcome import Cell, Outcome, Table
from semisure.bench.study import CALIBRATION_PAIRS, Study, with_truth
from semisure.calibration import FitReport, fit
from semisure.errors import FitError
from semisure.io.atomic import as_json
from semisure.io.files import calibration_document
from semisure.types import Calibration

LEAST = 1000  # matches; fewer hardly tell eight parameters


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One fit."""

    matcher: str
    exported: Sequence[Exported]
    location: bool


def evaluate(task: Task) -> tuple[Calibration, FitReport]:
    """The fit, by Newton's method."""
    names = sorted({e.group for e in task.exported})
    return fit(
        [with_truth(e) for e in task.exported],
        location=task.location,
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
        tasks += [Task(matcher, exported, location=at) for at in (False, True)]
    found = study.map(evaluate, tasks, "Fitting laws")
    printed: list[list[Cell]] = []
    files = {}
    rows = []
    for task, (law, report) in zip(tasks, found, strict=True):
        symbols: dict[str, float | None] = dict(law.paper_symbols())
        symbols |= dict(
            zip(("mu_x", "mu_y"), law.location or (None, None), strict=True)
        )
        symbols.pop("t_m")  # 0: only eight of the nine can be told from data
        printed.append(
            [task.matcher, *symbols.values(), report.nll, report.pairs, report.matches]
        )
        rows.append({"matcher": task.matcher, **symbols, "nll": report.nll})
        name = task.matcher if task.location else f"{task.matcher}-faithful"
        files[f"{name}.json"] = as_json(calibration_document(law, report))
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


def _some(study: Study, matcher: str) -> list[Exported]:
    """The paper's 200 pairs, evenly from all folders."""
    options = study.options
    limit = options.limit or -(-CALIBRATION_PAIRS // len(options.data))
    return replace(study, options=replace(options, limit=limit)).exported(matcher)
