"""Supplement B.3: how many calibration pairs it takes, and how long the fit lasts.

Sequences are split in two halves. Subsets of one half are fitted and judged on the
other, by NLL and by the AUC at 3 px after the paper's refit, and the other way round;
numbers are means over both halves and the draws. Seconds are of one thread.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from semisure.bench import paper
from semisure.bench.match_cache import Exported, stored_matches
from semisure.bench.outcome import Cell, Outcome, Panel, Table
from semisure.bench.studies.laws import judge
from semisure.bench.study import Study, with_truth
from semisure.calibration import fit
from semisure.errors import InputError
from semisure.estimators import estimate_homography
from semisure.estimators.settings import RansacSettings
from semisure.metrics import auc, corner_error
from semisure.refit import refit_homography
from semisure.types import Estimate, IntArray

DRAWS = 5
AUC_PX = 3
POWELL_PAIRS = 50  # beyond, the paper's optimiser takes minutes for each fit
_NUMBERS = ("matches", "fit nll", "seconds", "held-out nll", "auc", "powell seconds")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Task:
    """A subset to fit on, and the pairs to judge by."""

    matcher: str
    chosen: Sequence[Exported]
    held_out: Sequence[Exported]
    estimator: str
    settings: RansacSettings
    powell: bool


@lru_cache(maxsize=4096)
def _start(file: Path, estimator: str, settings: RansacSettings) -> Estimate:
    return estimate_homography(stored_matches(file), estimator, settings)


def evaluate(task: Task) -> dict[str, Any]:
    """One draw."""
    pairs = [with_truth(e) for e in task.chosen]
    begin = time.perf_counter()
    calibration, report = fit(pairs)
    seconds = time.perf_counter() - begin
    row: dict[str, Any] = {
        "matcher": task.matcher,
        "pairs": len(task.chosen),
        "matches": report.matches,
        "fit nll": report.nll,
        "seconds": seconds,
        "held-out nll": float(judge(calibration, task.held_out).nll.mean()),
    }
    errors = []
    for e in task.held_out:
        start = _start(e.file, task.estimator, task.settings)
        matches = e.matches()
        H = refit_homography(matches, calibration, start, method="core").model
        errors.append(corner_error(H, e.H_01, matches.source_size))
    row["auc"] = 100.0 * auc(errors, [AUC_PX])[0]
    if task.powell:
        begin = time.perf_counter()
        fit(pairs, optimiser="powell")
        row["powell seconds"] = time.perf_counter() - begin
    return row


def halves(groups: Sequence[str]) -> IntArray:
    """0 or 1 for each pair, (n,): groups stay whole, each goes to the smaller half.

    >>> halves(["a", "b", "b", "b", "c"]).tolist()
    [1, 0, 0, 0, 1]
    """
    size = Counter(groups)
    total, place = [0, 0], {}
    for name in sorted(size, key=lambda name: (-size[name], name)):
        place[name] = int(total[1] < total[0])
        total[place[name]] += size[name]
    return np.array([place[name] for name in groups], dtype=np.int64)


def _tasks(study: Study, matcher: str) -> list[Task]:
    options = study.options
    # A pair without matches teaches nothing.
    exported = [e for e in study.exported(matcher) if len(e.matches()) >= 16]
    half = halves([e.group for e in exported])
    least = min((half == 0).sum(), (half == 1).sum())
    settings = options.ransac()
    tasks = []
    for k in (0, 1):
        fitted = [e for e, f in zip(exported, half, strict=True) if f == k]
        rest = [e for e, f in zip(exported, half, strict=True) if f != k]
        for count in (n for n in paper.QUANTITIES if n <= least):
            for draw in range(DRAWS):
                rng = np.random.default_rng([options.seed, k, count, draw])
                chosen = rng.choice(len(fitted), count, replace=False)
                tasks.append(
                    Task(
                        matcher=matcher,
                        chosen=[fitted[i] for i in sorted(chosen)],
                        held_out=rest,
                        estimator=options.estimator,
                        settings=settings,
                        powell=draw == 0 and count <= POWELL_PAIRS,
                    )
                )
    return tasks


def quantity(study: Study) -> Outcome:
    """Means over draws for each size of the calibration set."""
    tasks = [t for m in study.options.matchers for t in _tasks(study, m)]
    if not tasks:
        raise InputError(
            "Each half of the data must hold at least 2 pairs with matches; give pairs "
            "of more sequences."
        )
    rows = study.map(evaluate, tasks, "Fitting subsets")
    printed: list[list[Cell]] = []
    lines: dict[str, dict[str, Any]] = {name: {} for name in _NUMBERS}
    for matcher in study.options.matchers:
        mine = [row for row in rows if row["matcher"] == matcher]
        counts = sorted({row["pairs"] for row in mine})
        means = {
            name: [_mean([r for r in mine if r["pairs"] == n], name) for n in counts]
            for name in _NUMBERS
        }
        for k, count in enumerate(counts):
            draws = sum(row["pairs"] == count for row in mine)
            printed.append([matcher, count, *(means[m][k] for m in _NUMBERS), draws])
        for name in _NUMBERS:
            x = np.array(counts, dtype=np.float64)
            lines[name][matcher] = (x, np.array(means[name]))
    head = ["", "N pairs", "matches", "NLL fitted", "fit, s", "NLL held out"]
    table = Table(
        name="quantity",
        title="Calibration data quantity; the paper's: supplement B.3, Powell "
        f"{paper.POWELL_SECONDS_200_PAIRS} s on 200 pairs",
        head=[*head, f"AUC@{AUC_PX}px", "Powell, s", "draws"],
        rows=printed,
    )
    titles = {"fit nll": "NLL of the fit", "seconds": "seconds, Newton"}
    titles |= {"held-out nll": "NLL held out", "auc": f"AUC at {AUC_PX} px, %"}
    panels = [
        Panel(
            title=title,
            xlabel="calibration pairs",
            ylabel=title,
            xscale="log",
            lines=lines[name],
        )
        for name, title in titles.items()
    ]
    note = (
        "Fitted on subsets of one half of the sequences, judged on the other half, and "
        f"the other way round; seed {study.options.seed}, Powell once for each half."
    )
    figures = {"quantity": panels}
    return Outcome(tables=[table], rows=rows, figures=figures, notes=[note])


def _mean(rows: Sequence[dict[str, Any]], name: str) -> float:
    values = [row[name] for row in rows if name in row]
    return float(np.mean(values)) if values else float("nan")
