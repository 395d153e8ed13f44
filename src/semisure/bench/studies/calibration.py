"""Algorithm 1: the law of each matcher fitted to 200 pairs whose truth is known.

It writes two files for each matcher: the paper's nine parameters as
``MATCHER-faithful.json``, and ours with a location as ``MATCHER.json``, either of them
for ``--calibration`` of any command.
"""

from __future__ import annotations

from dataclasses import replace

from semisure.bench.calibrations import FAITHFUL, Fit, fit_law
from semisure.bench.outcome import Lines, Outcome, Table
from semisure.bench.study import Study
from semisure.io.atomic import as_json
from semisure.io.files import calibration_document
from semisure.types import Calibration


def calibration(study: Study) -> Outcome:
    """Parameters in the paper's symbols, and the files."""
    options = study.options
    matchers, tasks = [], []
    # The paper's 200 pairs, evenly from all folders.
    limit = options.limit or -(-options.calibration_pairs // len(options.data))
    for matcher in options.matchers:
        exported = study.changed(limit=limit).exported(matcher, held_out=True)
        for located in (False, True):
            matchers.append(matcher)
            by = options.optimiser
            tasks.append(Fit(exported=exported, location=located, optimiser=by))
    fits = study.map(fit_law, tasks, "Fitting laws")
    printed: Lines = []
    rows, files = [], {}
    for matcher, task, (law, report) in zip(matchers, tasks, fits, strict=True):
        sequences = {one.group for one in task.exported}
        origin = {"pairs": len(task.exported), "sequences": len(sequences)}
        law = replace(law, matcher=matcher, provenance=origin)
        symbols = _symbols(law)
        printed.append(
            [matcher, *symbols.values(), report.nll, report.pairs, report.matches]
        )
        rows.append({"matcher": matcher, **symbols, "nll": report.nll})
        name = matcher if task.location else f"{matcher}{FAITHFUL}"
        files[f"{name}.json"] = as_json(calibration_document(law, report))
    table = Table(
        name="calibration",
        title="Fitted parameters, in the paper's symbols with t_m = 0, and our "
        "location in fine windows",
        head=["", *symbols, "NLL", "pairs", "matches"],
        rows=printed,
        digits=3,
    )
    study.note(f"Files: {', '.join(files)}.")
    return Outcome(tables=[table], rows=rows, files=files)


def _symbols(fitted: Calibration) -> dict[str, float | None]:
    """The paper's symbols but for t_m, and the location in fine windows."""
    symbols: dict[str, float | None] = dict(fitted.paper_symbols())
    symbols.pop("t_m")  # 0: data determine only eight of the nine
    location = fitted.location or (None, None)
    return symbols | dict(zip(("mu_x", "mu_y"), location, strict=True))
