"""Supplement B.3: how many calibration pairs it takes, and how long the fit lasts.

The paper draws N pairs of a held-out split and judges the fits on two sets: AUC at 3 px
after its refit on HPatches, NLL on MegaDepth-1500. So does ``--calibrate-on``, with the
homographies and the cameras of ``--data``; where there are no cameras, NLL too is by
homography. Without it sequences are split in two halves: subsets of one are judged on
the other, and the other way round, and the rows say so. Numbers are means over the
draws. Seconds are of one thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from semisure.bench.calibrations import given, halves, inside, labelled, outside
from semisure.bench.exported import Exported, stored_matches, with_truth
from semisure.bench.outcome import Cell, Outcome, Panel, Table, where
from semisure.bench.studies.laws import score
from semisure.bench.study import Study
from semisure.datasets.posed import PosedPair
from semisure.errors import InputError
from semisure.estimators import estimate_homography
from semisure.estimators.settings import RansacSettings
from semisure.io.cache import Row
from semisure.law.fit_law import OPTIMISERS, Optimiser, fit
from semisure.metrics import auc, corner_error
from semisure.refit.planes import refit_homography
from semisure.types import Calibration, Estimate, Vector

# Supplement, calibration data quantity: sizes tried, and Powell's time on 200 pairs.
QUANTITIES = (2, 5, 10, 20, 50, 200, 500, 1000)
POWELL_SECONDS_200_PAIRS = 67.2
AUC_PX = 3
DRAWS = 5
MIN_MATCHES = 16  # of a pair; one without matches teaches nothing
TIMED_PAIRS = 200  # up to so many, both optimisers are timed
_NUMBERS = (
    "matches",
    "fit nll",
    "newton seconds",
    "powell seconds",
    "held-out nll",
    "auc",
)
_DRAWN = {
    "fit nll": "NLL of the fit",
    "newton seconds": "seconds, Newton",
    "powell seconds": "seconds, Powell",
    "held-out nll": "NLL held out",
    "auc": f"AUC at {AUC_PX} px, %",
}
Lines = dict[str, tuple[Vector, Vector]]  # by matcher


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Judges:
    """Pairs with homographies, which have an AUC, and pairs whose NLL counts."""

    planar: Sequence[Exported]
    by_nll: Sequence[Exported]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Task:
    """A subset to fit on, and the pairs to judge by."""

    matcher: str
    chosen: Sequence[Exported]
    judges: Judges
    estimator: str
    settings: RansacSettings
    optimiser: Optimiser
    timed: Sequence[Optimiser] = ()  # others, whose time is taken too
    given: Calibration | None = None  # judged instead of a fit


def evaluate(task: Task) -> Row:
    """One draw: the fit, its seconds, and how it does on the pairs held out."""
    row: Row = {"matcher": task.matcher, "pairs": len(task.chosen)}
    calibration = task.given
    if calibration is None:
        calibration, numbers = _fitted(task)
        row |= numbers
    row["held-out nll"] = float(score(calibration, task.judges.by_nll).nll.mean())
    if task.judges.planar:
        errors = [_error(task, calibration, e) for e in task.judges.planar]
        row["auc"] = 100.0 * auc(errors, [AUC_PX])[0]
    return row


def _fitted(task: Task) -> tuple[Calibration, Row]:
    """The law, and the numbers of its fit and of those that are only timed."""
    pairs = [with_truth(e) for e in task.chosen]
    begin = time.perf_counter()
    calibration, report = fit(pairs, optimiser=task.optimiser)
    numbers: Row = {
        "matches": report.matches,
        "fit nll": report.nll,
        f"{task.optimiser} seconds": time.perf_counter() - begin,
    }
    for other in task.timed:
        begin = time.perf_counter()
        fit(pairs, optimiser=other)
        numbers[f"{other} seconds"] = time.perf_counter() - begin
    return calibration, numbers


@lru_cache(maxsize=4096)
def _start(file: Path, estimator: str, settings: RansacSettings) -> Estimate:
    return estimate_homography(stored_matches(file), estimator, settings)


def _error(task: Task, calibration: Calibration, exported: Exported) -> float:
    """The corner error of a pair after the paper's refit, px."""
    matches = exported.matches()
    start = _start(exported.file, task.estimator, task.settings)
    H = refit_homography(matches, calibration, start, method="core").model
    return corner_error(H, exported.H_01, matches.source_size)


def quantity(study: Study) -> Outcome:
    """Means over draws for each size of the calibration set."""
    held_out = study.options.calibrate_on is not None
    source = _held_out_tasks if held_out else _halved_tasks
    tasks = [task for m in study.options.matchers for task in source(study, m)]
    if not any(task.chosen for task in tasks):
        raise InputError(
            "Each half of the data must hold at least 2 pairs with matches; give pairs "
            "of more sequences, or other data by --calibrate-on."
        )
    rows = study.map(evaluate, tasks, "Fitting subsets")
    printed: list[list[Cell]] = []
    lines: dict[str, Lines] = {name: {} for name in _NUMBERS}
    for matcher in study.options.matchers:
        label = matcher if held_out else labelled(matcher, "cross-validated")
        mine = where(rows, matcher=matcher)
        counts = sorted({row["pairs"] for row in mine})
        draws = [[row for row in mine if row["pairs"] == count] for count in counts]
        means = {name: [_mean(some, name) for some in draws] for name in _NUMBERS}
        for k, count in enumerate(counts):
            numbers = (means[name][k] for name in _NUMBERS)
            printed.append([label, count or "file", *numbers, len(draws[k])])
        some = [k for k, count in enumerate(counts) if count]
        x = np.array(counts, dtype=np.float64)[some]
        for name in _NUMBERS:
            lines[name][label] = (x, np.array(means[name])[some])
    head = ["", "N pairs", "matches", "NLL fitted", "Newton, s", "Powell, s"]
    table = Table(
        name="quantity",
        title="Calibration data quantity; the paper's: supplement B.3, Powell "
        f"{POWELL_SECONDS_200_PAIRS} s on 200 pairs",
        head=[*head, "NLL held out", f"AUC@{AUC_PX}px", "draws"],
        rows=printed,
    )
    panels = [_panel(title, lines[name]) for name, title in _DRAWN.items()]
    return Outcome(
        tables=[table],
        rows=rows,
        figures={"quantity": panels},
        notes=[_how(study, tasks)],
    )


def _how(study: Study, tasks: Sequence[Task]) -> str:
    """How the fits were made and judged, in a sentence or two."""
    options, judges = study.options, tasks[0].judges
    posed = isinstance(judges.by_nll[0].truth, PosedPair)
    by = "cameras and depth" if posed else "homographies"
    if options.calibrate_on is None:
        return (
            "Fitted on subsets of one half of the sequences, judged on the other half, "
            f"and the other way round, NLL by {by}; {options.optimiser}, seed "
            f"{options.seed}."
        )
    return (
        f"Fitted on subsets of {options.calibrate_on.name} by {options.optimiser}, "
        f"seed {options.seed}; AUC on {len(judges.planar)} pairs with homographies, "
        f"NLL on {len(judges.by_nll)} pairs by {by}."
    )


def _held_out_tasks(study: Study, matcher: str) -> Iterator[Task]:
    """The paper's: subsets of held-out pairs, judged on all of the data."""
    pool = _with_matches(study.held_out(matcher, count=max(QUANTITIES)))
    exported = _judged(study, matcher)
    judges = _judges(exported)
    if study.options.calibration is not None:
        yield _task(study, matcher, judges)
    for count in (n for n in QUANTITIES if n <= len(pool)):
        yield from _draws(study, matcher, pool, judges, count, 0)


def _halved_tasks(study: Study, matcher: str) -> Iterator[Task]:
    """Subsets of each half of the data, judged on the other."""
    exported = _with_matches(_judged(study, matcher))
    if study.options.calibration is not None:
        yield _task(study, matcher, _judges(exported))
    half = halves([e.group for e in exported])
    least = min((half == 0).sum(), (half == 1).sum())
    for k in (0, 1):
        pool = inside(exported, half, k)
        for count in (n for n in QUANTITIES if n <= least):
            judges = _judges(outside(exported, half, k))
            yield from _draws(study, matcher, pool, judges, count, k)


def _judged(study: Study, matcher: str) -> list[Exported]:
    """The pairs of one protocol, and those with cameras."""
    parts = study.by_truth()
    first = next((name for name in parts if name != "depth"), "")
    for other in (name for name in parts if name not in (first, "depth")):
        study.note(f"Left out: {other}; give its folder alone to see it.")
    kept = [part for name, part in parts.items() if name in (first, "depth")]
    return [one for part in kept for one in part.exported(matcher)]


def _with_matches(exported: Sequence[Exported]) -> list[Exported]:
    return [e for e in exported if len(e.matches()) >= MIN_MATCHES]


def _judges(exported: Sequence[Exported]) -> Judges:
    posed = [one for one in exported if isinstance(one.truth, PosedPair)]
    planar = [one for one in exported if not isinstance(one.truth, PosedPair)]
    return Judges(planar=planar, by_nll=posed or planar)


def _draws(
    study: Study,
    matcher: str,
    pool: Sequence[Exported],
    judges: Judges,
    count: int,
    half: int,
) -> Iterator[Task]:
    """Fits to subsets of `count` pairs; all pairs can be drawn once only."""
    for draw in range(DRAWS if count < len(pool) else 1):
        rng = np.random.default_rng([study.options.seed, half, count, draw])
        chosen = [pool[i] for i in sorted(rng.choice(len(pool), count, replace=False))]
        timed = draw == 0 and count <= TIMED_PAIRS
        yield _task(study, matcher, judges, chosen, timed=timed)


def _task(
    study: Study,
    matcher: str,
    judges: Judges,
    chosen: Sequence[Exported] = (),
    *,
    timed: bool = False,
) -> Task:
    """A fit to be judged; without pairs to fit to, the law that is given."""
    options = study.options
    others = [name for name in OPTIMISERS if name != options.optimiser]
    law = None
    if not chosen:
        law = given(options)[0].paper
    return Task(
        matcher=matcher,
        chosen=chosen,
        judges=judges,
        estimator=options.estimator,
        settings=options.ransac(),
        optimiser=options.optimiser,
        timed=others if timed else (),
        given=law,
    )


def _mean(rows: Sequence[Row], name: str) -> float:
    values = [row[name] for row in rows if name in row]
    return float(np.mean(values)) if values else float("nan")


def _panel(title: str, lines: Lines) -> Panel:
    return Panel(
        title=title,
        xlabel="calibration pairs",
        ylabel=title,
        xscale="log",
        lines=lines,
    )
