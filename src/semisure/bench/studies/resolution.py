"""Figure 5: a calibration made at one image size, judged at others.

Fitted at 960 × 640 on the other sequences (cross-validation by sequence).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from semisure.bench.calibrations import law_fitted_to
from semisure.bench.cross_validation import fold_of, inside, outside, validated
from semisure.bench.exported import Exported, Size
from semisure.bench.law_scores import (
    LawScores,
    densities,
    joined,
    reliability_panel,
    score,
)
from semisure.bench.outcome import Cell, Outcome, Panel, Table
from semisure.bench.study import Study
from semisure.types import LawName, Vector

FITTED_AT = (960, 640)
SIZES = ((480, 320), (640, 480), (960, 640), (1280, 960))
LAWS: tuple[LawName, ...] = ("fine_only", "mixture")
REACH_PX = 40.0  # of the densities drawn
_GRID = np.linspace(-REACH_PX, REACH_PX, 81)


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A law to be fitted at one size and judged at all."""

    law: LawName
    fitted: Sequence[Exported]
    held_out: Mapping[str, Sequence[Exported]]  # by size


@dataclass(frozen=True, slots=True, eq=False)
class AtSize:
    """A law at one size: its scores, and sums of densities of r_x over the grid."""

    scores: LawScores
    predicted: Vector
    observed: Vector


def evaluate(task: Task) -> dict[str, AtSize]:
    """One law fitted on all but one fold, and judged on that one at each size."""
    calibration = law_fitted_to(task.fitted, law=task.law)
    by_size = {}
    for size, exported in task.held_out.items():
        sums = [densities(calibration, one, _GRID) for one in exported]
        by_size[size] = AtSize(
            score(calibration, exported),
            np.sum([predicted for predicted, _ in sums], axis=0),
            np.sum([observed for _, observed in sums], axis=0),
        )
    return by_size


def resolution(study: Study) -> Outcome:
    """NLL, ECE and rank correlation at each size, and reliability."""
    printed: list[list[Cell]] = []
    panels, notes = [], []
    data, part = _chosen(study)
    for matcher in study.options.matchers:
        fitted = part.exported(matcher, FITTED_AT)
        by_size = {_named(size): part.exported(matcher, size) for size in SIZES}
        by_law = _cross_validated(study, fitted, by_size)
        for size in by_size:
            for law in LAWS:
                printed.append([matcher, size, law, *_numbers(by_law[law][size])])
        panels += [_density(f"{matcher}, {size}", size, by_law) for size in by_size]
        panels += [
            reliability_panel(
                f"{matcher}, {size}: reliability",
                {law: by_law[law][size].scores for law in LAWS},
            )
            for size in by_size
        ]
        notes.append(
            f"{matcher}, {data}: fitted at {_named(FITTED_AT)} on the other sequences "
            f"({validated(fitted)}), {len(fitted)} pairs."
        )
    table = Table(
        name="resolution",
        title="Resolution transfer; the paper's: Fig. 5, without numbers",
        head=["", "size", "law", "NLL", "ECE", "rho", "mean E[e]", "mean e", "matches"],
        rows=printed,
        digits=3,
    )
    return Outcome(tables=[table], figures={"resolution": panels}, notes=notes)


def _chosen(study: Study) -> tuple[str, Study]:
    """One kind of data: with depth, as the paper's, if there is any."""
    parts = study.divisible()
    data = "depth" if "depth" in parts else next(iter(parts))
    for other in (name for name in parts if name != data):
        study.note(f"Left out: {other}; give its folder alone to see it.")
    return data, parts[data]


def _named(size: Size) -> str:
    return f"{size[0]}x{size[1]}"


def _cross_validated(
    study: Study,
    fitted: Sequence[Exported],
    by_size: Mapping[str, Sequence[Exported]],
) -> dict[LawName, dict[str, AtSize]]:
    """By law and size, each pair judged by the fit that has not seen its sequence."""
    fold = fold_of(fitted)
    tasks = [
        Task(
            law,
            outside(fitted, fold, k),
            {size: inside(pairs, fold, k) for size, pairs in by_size.items()},
        )
        for law in LAWS
        for k in sorted(set(fold.tolist()))
    ]
    done = study.map(evaluate, tasks, "Fitting laws")
    return {
        law: {
            size: _together(
                [
                    at[size]
                    for task, at in zip(tasks, done, strict=True)
                    if task.law == law
                ]
            )
            for size in by_size
        }
        for law in LAWS
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
    title: str, size: str, by_law: Mapping[LawName, Mapping[str, AtSize]]
) -> Panel:
    """The density of r_x that each law predicts, and the observed one."""
    lines: dict[str, tuple[Vector, Vector]] = {
        law: (_GRID, _unit(by_size[size].predicted)) for law, by_size in by_law.items()
    }
    lines["observed"] = (_GRID, _unit(by_law["mixture"][size].observed))
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
