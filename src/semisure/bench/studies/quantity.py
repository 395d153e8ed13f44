"""Supplement B.3: how many calibration pairs it takes, and how long the fit lasts.

The paper draws N pairs of a held-out split and judges the fits on two sets: AUC at 3 px
after its refit on HPatches, NLL on MegaDepth-1500. So does ``--calibrate-on``, with the
homographies and the cameras of ``--data``; where there are no cameras, NLL too is by
homography. Without it sequences are split in two halves: subsets of one are judged on
the other, and vice versa; rows are labelled. Numbers are means over the
draws. Seconds are of one thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from semisure.bench.calibrations import CROSS_VALIDATED, halves, split
from semisure.bench.exported import Exported, stored_matches, with_truth
from semisure.bench.options import Options
from semisure.bench.outcome import Lines, Outcome, Panel, Table, where
from semisure.bench.studies.laws import joined, score
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
MIN_MATCHES = 16  # of a pair to fit to
TIMED_PAIRS = 200  # both optimisers are timed up to this number
_DRAWN = {
    "fit nll": "NLL of the fit",
    "newton seconds": "seconds, Newton",
    "powell seconds": "seconds, Powell",
    "held-out nll": "NLL held out",
    "auc": f"AUC at {AUC_PX} px, %",
}
_NUMBERS = ("matches", *_DRAWN)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Draw:
    """A subset to fit to, and the pairs to judge by."""

    matcher: str
    options: Options
    judged: str  # the scene of all judges, "" if they are of several
    judges: Sequence[Exported]
    chosen: Sequence[Exported]
    optimisers: Sequence[Optimiser]  # the first makes the law, others are only timed


def evaluate(task: Draw) -> Row:
    """One draw: the fit, its seconds, and how it does on the pairs held out."""
    pairs, fits, seconds = [with_truth(one) for one in task.chosen], [], {}
    for name in task.optimisers:
        begin = time.perf_counter()
        fits.append(fit(pairs, optimiser=name))
        seconds[f"{name} seconds"] = time.perf_counter() - begin
    calibration, report = fits[0]
    planar, by_nll = judged_by(task.judges)
    scores = joined([score(calibration, one) for one in by_nll])
    row: Row = {
        "matcher": task.matcher,
        "judged": task.judged,
        "pairs": len(task.chosen),
        "matches": report.matches,
        "fit nll": report.nll,
        **seconds,
        "held-out nll": float(scores.nll.mean()),
    }
    if planar:
        errors = [_error(task, calibration, one) for one in planar]
        row["auc"] = 100.0 * auc(errors, [AUC_PX])[0]
    return row


def judged_by(pairs: Sequence[Exported]) -> tuple[list[Exported], list[Exported]]:
    """Pairs with homographies, which have an AUC, and pairs whose NLL counts."""
    posed = [one for one in pairs if isinstance(one.truth, PosedPair)]
    planar = [one for one in pairs if not isinstance(one.truth, PosedPair)]
    return planar, posed or planar


@lru_cache(maxsize=4096)  # each draw starts from the same estimates
def _start(file: Path, estimator: str, settings: RansacSettings) -> Estimate:
    return estimate_homography(stored_matches(file), estimator, settings)


def _error(task: Draw, calibration: Calibration, exported: Exported) -> float:
    """The corner error of a pair after the paper's refit, px."""
    matches, options = exported.matches(), task.options
    start = _start(exported.file, options.estimator, options.ransac())
    H = refit_homography(matches, calibration, start, method="core").model
    return corner_error(H, exported.H_01, matches.source_size)


def quantity(study: Study) -> Outcome:
    """Means over draws for each size of the calibration set."""
    options = study.options
    tasks = [task for m in options.matchers for task in _tasks(study, m)]
    if not tasks:
        raise InputError(
            "Each half of the data must hold at least 2 pairs with matches; give pairs "
            "of more sequences, or other data by --calibrate-on."
        )
    rows = study.map(evaluate, tasks, "Fitting subsets")
    printed: Lines = []
    lines: dict[str, dict[str, tuple[Vector, Vector]]] = {name: {} for name in _NUMBERS}
    for matcher in options.matchers:
        label = matcher
        if options.calibrate_on is None:
            label += CROSS_VALIDATED
        mine = where(rows, matcher=matcher)
        for judged in dict.fromkeys(row["judged"] for row in mine):
            part = where(mine, judged=judged)
            name = f"{label}, judged on {judged}" if judged else label
            counts = sorted({row["pairs"] for row in part})
            means = []
            for count in counts:
                draws = [row for row in part if row["pairs"] == count]
                means.append([_mean(draws, number) for number in _NUMBERS])
                printed.append([name, count, *means[-1], len(draws)])
            for number, values in zip(_NUMBERS, np.array(means).T, strict=True):
                lines[number][name] = (np.array(counts, dtype=np.float64), values)
    head = ["", "N pairs", "matches", "NLL fitted", "Newton, s", "Powell, s"]
    table = Table(
        name="quantity",
        title="Calibration data quantity; the paper's: supplement B.3, Powell "
        f"{POWELL_SECONDS_200_PAIRS} s on 200 pairs",
        head=[*head, "NLL held out", f"AUC@{AUC_PX}px", "draws"],
        rows=printed,
    )
    panels = [
        Panel(
            title=title,
            xlabel="calibration pairs",
            ylabel=title,
            xscale="log",
            lines=lines[name],
        )
        for name, title in _DRAWN.items()
    ]
    study.note(_how(options, tasks[0].judges))
    return Outcome(tables=[table], rows=rows, figures={"quantity": panels})


def _how(options: Options, judges: Sequence[Exported]) -> str:
    """How the fits were made and judged, for a remark."""
    planar, by_nll = judged_by(judges)
    by = "homographies" if by_nll == planar else "cameras and depth"
    pool = "each half of the sequences (judged on the other)"
    if options.calibrate_on is not None:
        pool = options.calibrate_on.name
    return (
        f"Fitted on subsets of {pool} by {options.optimiser}, seed {options.seed}; AUC "
        f"on {len(planar)} pairs with homographies, NLL on {len(by_nll)} pairs by {by}."
    )


def _tasks(study: Study, matcher: str) -> Iterator[Draw]:
    """Fits to subsets of the paper's held-out pairs, or of each half of the data.

    The first are judged on all of the data, the second on the other half.
    """
    options, judges = study.options, _judged(study, matcher)
    if options.calibrate_on is not None:
        pool = study.held_out(matcher, count=max(QUANTITIES))
        splits = [(_with_matches(pool), judges)]
    else:
        judges = _with_matches(judges)
        half = halves([one.group for one in judges])
        splits = [split(judges, half, k) for k in (1, 0)]
    both = sorted(OPTIMISERS, key=lambda name: name != options.optimiser)
    least = min(len(pool) for pool, _ in splits)
    for k, (pool, held_out) in enumerate(splits):
        scenes = {one.group for one in held_out}
        for count in (n for n in QUANTITIES if n <= least):
            # All pairs can be drawn once only.
            for draw in range(DRAWS if count < len(pool) else 1):
                rng = np.random.default_rng([options.seed, k, count, draw])
                index = sorted(rng.choice(len(pool), count, replace=False))
                timed = draw == 0 and count <= TIMED_PAIRS
                yield Draw(
                    matcher=matcher,
                    options=options,
                    judged=min(scenes) if len(scenes) == 1 else "",
                    judges=held_out,
                    chosen=[pool[i] for i in index],
                    optimisers=both if timed else both[:1],
                )


def _judged(study: Study, matcher: str) -> list[Exported]:
    """The pairs of one protocol, and those with cameras."""
    parts = study.by_truth()
    others = [name for name in parts if name != "depth"][1:]
    for other in others:
        study.note(f"Left out: {other}; give its folder alone to see it.")
    judged = [part for name, part in parts.items() if name not in others]
    return [one for part in judged for one in part.exported(matcher)]


def _with_matches(exported: Sequence[Exported]) -> list[Exported]:
    return [e for e in exported if len(e.matches()) >= MIN_MATCHES]


def _mean(rows: Sequence[Row], name: str) -> float:
    values = [row[name] for row in rows if name in row]
    return float(np.mean(values)) if values else float("nan")
