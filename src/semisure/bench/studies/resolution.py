"""Figure 5: a calibration made at one image size, judged at others.

The paper fits on 200 held-out pairs of MegaDepth at 960 × 640 and judges on
MegaDepth-1500: ``--calibrate-on``. Without it, pairs are judged by the fit to the other
sequences, and the rows say so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from semisure.bench.exported import Exported, Size, with_truth
from semisure.bench.outcome import Cell, Outcome, Panel, Table
from semisure.bench.studies.laws import (
    LawScores,
    LawTask,
    Plan,
    joined,
    law_tasks,
    plan,
    reliability_panel,
    score,
)
from semisure.bench.study import Study
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.types import Calibration, LawName, Vector

FITTED_AT = (960, 640)
SIZES = ((480, 320), (640, 480), (960, 640), (1280, 960))
LAWS: tuple[LawName, ...] = ("fine_only", "mixture")
REACH_PX = 40.0  # of the densities drawn
_SAMPLE = 500  # matches of a pair whose densities are averaged
_GRID = np.linspace(-REACH_PX, REACH_PX, 81)


@dataclass(frozen=True, slots=True, eq=False)
class AtSize:
    """A law at one size: its scores, and sums of densities of r_x over the grid."""

    scores: LawScores
    predicted: Vector
    observed: Vector


def evaluate(task: LawTask) -> dict[str, AtSize]:
    """One law on the pairs it has not seen, at each size."""
    by_size = {}
    for size, exported in task.judged.items():
        sums = [densities(task.calibration, one) for one in exported]
        by_size[size] = AtSize(
            score(task.calibration, exported),
            np.sum([predicted for predicted, _ in sums], axis=0),
            np.sum([observed for _, observed in sums], axis=0),
        )
    return by_size


def densities(calibration: Calibration, exported: Exported) -> tuple[Vector, Vector]:
    """Σ over matches of the density of r_x at the grid, predicted and counted."""
    matches, residual = with_truth(exported)
    some = np.linspace(0, len(matches) - 1, min(_SAMPLE, len(matches)))
    index = some.astype(np.int64)
    law, r = error_law(matches.take(index), calibration), residual[index, 0]
    predicted = [
        float(np.exp(mixture.log_density(law, np.full((len(index), 2), x))[:, 0]).sum())
        for x in _GRID
    ]
    step = _GRID[1] - _GRID[0]
    edges = np.append(_GRID, _GRID[-1] + step) - step / 2
    counted = np.histogram(r, edges)[0] / step
    return np.array(predicted), counted


def resolution(study: Study) -> Outcome:
    """NLL, ECE and rank correlation at each size, and reliability."""
    printed: list[list[Cell]] = []
    panels, notes = [], []
    data, part = _chosen(study)
    for matcher in study.options.matchers:
        by_size = {_named(size): part.exported(matcher, size) for size in SIZES}
        how = plan(part, matcher, by_size, FITTED_AT)
        by_law = _judged(study, how)
        for size in by_size:
            for law, at in by_law.items():
                printed.append([how.label, size, law, *_numbers(at[size])])
        panels += [_density(f"{how.label}, {size}", size, by_law) for size in by_size]
        panels += [
            reliability_panel(
                f"{how.label}, {size}: reliability",
                {law: at[size].scores for law, at in by_law.items()},
            )
            for size in by_size
        ]
        count = len(next(iter(by_size.values())))
        notes.append(f"{matcher}, {data}: judged on {count} pairs; {how.remark}.")
    table = Table(
        name="resolution",
        title="Resolution transfer of a law fitted at "
        f"{_named(study.options.calibration_size or FITTED_AT)}; the paper's: Fig. 5, "
        "without numbers",
        head=["", "size", "law", "NLL", "ECE", "rho", "mean E[e]", "mean e", "matches"],
        rows=printed,
        digits=3,
    )
    return Outcome(tables=[table], figures={"resolution": panels}, notes=notes)


def _chosen(study: Study) -> tuple[str, Study]:
    """One kind of data: with depth, as the paper's, if there is any."""
    parts = study.kinds()
    data = "depth" if "depth" in parts else next(iter(parts))
    for other in (name for name in parts if name != data):
        study.note(f"Left out: {other}; give its folder alone to see it.")
    return data, parts[data]


def _named(size: Size) -> str:
    return f"{size[0]}x{size[1]}"


def _judged(study: Study, how: Plan) -> dict[str, dict[str, AtSize]]:
    """By law and size, each pair judged by a law that has not seen its sequence."""
    others = [name for name in how.unfitted if name != "uncalibrated"]
    tasks = law_tasks(study, list(dict.fromkeys([*LAWS, *others])), how)
    answers = study.map(evaluate, tasks, "Judging laws")
    by_law: dict[str, list[dict[str, AtSize]]] = {}
    for task, at in zip(tasks, answers, strict=True):
        by_law.setdefault(task.name, []).append(at)
    return {
        law: {size: _together([at[size] for at in parts]) for size in how.judged}
        for law, parts in by_law.items()
    }


def _together(folds: Sequence[AtSize]) -> AtSize:
    return AtSize(
        joined([fold.scores for fold in folds]),
        np.sum([fold.predicted for fold in folds], axis=0),
        np.sum([fold.observed for fold in folds], axis=0),
    )


def _numbers(at: AtSize) -> list[Cell]:
    """NLL, ECE, Spearman, mean expected and observed error, matches."""
    nll, *_, ece, rho = at.scores.numbers()
    means = float(at.scores.expected.mean()), float(at.scores.observed.mean())
    return [nll, ece, rho, *means, len(at.scores.nll)]


def _density(
    title: str, size: str, by_law: Mapping[str, Mapping[str, AtSize]]
) -> Panel:
    """The density of r_x that each law predicts, and the observed one."""
    lines: dict[str, tuple[Vector, Vector]] = {
        law: (_GRID, _unit(by_size[size].predicted)) for law, by_size in by_law.items()
    }
    first = next(iter(by_law.values()))
    lines["observed"] = (_GRID, _unit(first[size].observed))
    return Panel(
        title=f"{title}: residual",
        xlabel="r_x, px",
        ylabel="density",
        lines=lines,
        yscale="log",
    )


def _unit(density: Vector) -> Vector:
    """Scaled to one over the grid; zeros, which a logarithm cannot show, left out."""
    area = density.sum() * (_GRID[1] - _GRID[0])
    scaled = density / area if area > 0 else density
    return np.where(scaled > 0, scaled, np.nan)
