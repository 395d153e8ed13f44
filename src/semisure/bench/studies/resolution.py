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
from semisure.bench.outcome import Cell, Lines, Outcome, Panel, Table
from semisure.bench.studies.laws import (
    LawScores,
    LawTask,
    joined,
    judged_laws,
    score,
    unfitted_laws,
)
from semisure.bench.study import Study
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.metrics import reliability
from semisure.types import Calibration, FloatArray, LawName, Vector

FITTED_AT = (960, 640)
SIZES = ((480, 320), (640, 480), (960, 640), (1280, 960))
LAWS: tuple[LawName, ...] = ("fine_only", "mixture")
REACH_PX = 40.0  # of the densities drawn
_SAMPLE = 500  # matches of a pair whose densities are averaged
_GRID = np.linspace(-REACH_PX, REACH_PX, 81)


@dataclass(frozen=True, slots=True, eq=False)
class AtSize:
    """A law at one size: its scores, and densities of r_x, predicted and observed."""

    scores: LawScores
    densities: FloatArray  # (2, grid), sums over matches


def evaluate(task: LawTask) -> dict[str, AtSize]:
    """One law on the pairs it has not seen, at each size."""
    return {
        size: AtSize(
            score(task.calibration, exported),
            np.sum([densities(task.calibration, one) for one in exported], axis=0),
        )
        for size, exported in task.judged.items()
    }


def densities(calibration: Calibration, exported: Exported) -> FloatArray:
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
    return np.array([predicted, counted])


def resolution(study: Study) -> Outcome:
    """NLL, ECE and rank correlation at each size, and reliability."""
    printed: Lines = []
    panels = []
    data, part = _chosen(study)
    extra = [name for name in unfitted_laws(study.options) if name != "uncalibrated"]
    names = list(dict.fromkeys([*LAWS, *extra]))
    for matcher in study.options.matchers:
        by_size = {_named(size): part.exported(matcher, size) for size in SIZES}
        label, remark, verdicts = judged_laws(
            part, matcher, by_size, names, evaluate, FITTED_AT
        )
        at_sizes = {
            size: {law: _together(size, parts) for law, parts in verdicts.items()}
            for size in by_size
        }
        for size, by_law in at_sizes.items():
            printed += [[label, size, law, *_numbers(at)] for law, at in by_law.items()]
        panels += [_density(f"{label}, {size}", at) for size, at in at_sizes.items()]
        panels += [
            _reliability(f"{label}, {size}", at) for size, at in at_sizes.items()
        ]
        count = len(next(iter(by_size.values())))
        study.note(f"{matcher}, {data}: judged on {count} pairs; {remark}.")
    table = Table(
        name="resolution",
        title="Resolution transfer of a law fitted at "
        f"{_named(study.options.calibration_size or FITTED_AT)}; the paper's: Fig. 5, "
        "without numbers",
        head=["", "size", "law", "NLL", "ECE", "rho", "mean E[e]", "mean e", "matches"],
        rows=printed,
        digits=3,
    )
    return Outcome(tables=[table], figures={"resolution": panels})


def _chosen(study: Study) -> tuple[str, Study]:
    """One kind of data: with depth, as the paper's, if there is any."""
    parts = study.kinds()
    data = "depth" if "depth" in parts else next(iter(parts))
    for other in (name for name in parts if name != data):
        study.note(f"Left out: {other}; give its folder alone to see it.")
    return data, parts[data]


def _named(size: Size) -> str:
    return f"{size[0]}x{size[1]}"


def _together(size: str, folds: Sequence[dict[str, AtSize]]) -> AtSize:
    return AtSize(
        joined([fold[size].scores for fold in folds]),
        np.sum([fold[size].densities for fold in folds], axis=0),
    )


def _numbers(at: AtSize) -> list[Cell]:
    """NLL, ECE, Spearman, mean expected and observed error, matches."""
    nll, *_, ece, rho = at.scores.numbers()
    means = float(at.scores.expected.mean()), float(at.scores.observed.mean())
    return [nll, ece, rho, *means, len(at.scores.nll)]


def _density(title: str, by_law: Mapping[str, AtSize]) -> Panel:
    """The density of r_x that each law predicts, and the observed one."""
    lines = {law: (_GRID, _unit(at.densities[0])) for law, at in by_law.items()}
    lines["observed"] = (_GRID, _unit(next(iter(by_law.values())).densities[1]))
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


def _reliability(title: str, by_law: Mapping[str, AtSize]) -> Panel:
    """Observed over expected errors, a line for each law."""
    scores = {law: at.scores for law, at in by_law.items()}
    return Panel(
        title=f"{title}: reliability",
        xlabel="expected error, px",
        ylabel="observed error, px",
        lines={k: reliability(s.expected, s.observed)[:2] for k, s in scores.items()},
        xscale="log",
        yscale="log",
        diagonal=True,
    )
