"""Figure 6: what the law and the refit add to matching, in milliseconds.

Means over 100 pairs, evenly taken, as the paper has them; one thread, one process at a
time, the GPU synchronised. Matching and cues were timed when the pair was
exported. The time of cues is what only they need: the spread of the coarse rows and of
the fine heat maps; the embedded matcher's search computes both along the way.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from semisure.bench.outcome import Lines, Outcome, Panel, Table
from semisure.bench.studies.homography import rows_of, start_of
from semisure.bench.study import Study, Task
from semisure.io.cache import Row
from semisure.law.error_laws import error_law
from semisure.refit.planes import refit_homography

# Sec. runtime: cues and refit together add this, ms, on an RTX A5000.
OVERHEAD_MS = (11.4, 34.6)
REPEATS = 3  # the fastest counts
PAIRS = 100  # the paper's
STAGES = (
    "matching",
    "coarse cues",
    "fine cues",
    "estimator",
    "law",
    "core",
    "core+",
)
_ADDED = ("coarse cues", "fine cues", "core")  # by the paper's method


def _milliseconds(function: Callable[[], object]) -> float:
    best = np.inf
    for _ in range(REPEATS):
        begin = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - begin)
    return 1e3 * best


def evaluate(task: Task) -> Row:
    """Milliseconds of each stage for one pair."""
    matches, both = task.exported.matches(), task.calibrations
    start = start_of(task, matches)
    coarse, fine = task.exported.cue_seconds
    return {
        "pair": task.exported.name,
        "matcher": task.matcher,
        "matches": len(matches),
        "matching": 1e3 * (task.exported.seconds - coarse - fine),
        "coarse cues": 1e3 * coarse,
        "fine cues": 1e3 * fine,
        "estimator": _milliseconds(lambda: start_of(task, matches)),
        "law": _milliseconds(lambda: error_law(matches, both.paper)),
        "core": _milliseconds(
            lambda: refit_homography(matches, both.paper, start, method="core")
        ),
        "core+": _milliseconds(
            lambda: refit_homography(matches, both.ours, start, method="core+")
        ),
    }


def runtime(study: Study) -> Outcome:
    """Means over pairs."""
    each = -(-PAIRS // len(study.options.data))
    study = study.changed(limit=study.options.limit or each)
    rows = rows_of(study, [study.options.estimator], evaluate)
    printed: Lines = []
    lines = {}
    for _, label, mine in study.by_matcher(rows):
        mean = {s: float(np.mean([row[s] for row in mine])) for s in STAGES}
        matches = int(np.mean([row["matches"] for row in mine]))
        added = sum(mean[stage] for stage in _ADDED)
        share = 100.0 * added / mean["matching"]
        printed.append([label, matches, *mean.values(), added, share, len(mine)])
        lines[label] = (list(STAGES), np.array(list(mean.values())))
    low, high = OVERHEAD_MS
    table = Table(
        name="runtime",
        title="Mean ms per pair; law is a part of either refit, added are cues and "
        f"core. The paper's: {low}-{high} ms, network on an RTX A5000 (Fig. 6)",
        head=["", "matches", *STAGES, "added", "of matching, %", "pairs"],
        rows=printed,
    )
    panel = Panel(
        title="Runtime", xlabel="stage", ylabel="ms", lines=lines, yscale="log"
    )
    study.note("The times hold with --workers 1 and no other load on the machine.")
    return Outcome(tables=[table], rows=rows, figures={"runtime": [panel]})
