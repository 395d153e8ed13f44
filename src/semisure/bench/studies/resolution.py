"""Figure 5: a calibration made at one image size, judged at others.

Fitted at 960 × 640 on the other sequences (cross-validation by sequence).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from semisure import mixture
from semisure.bench.match_cache import Exported
from semisure.bench.outcome import Cell, Outcome, Panel, Table
from semisure.bench.studies.laws import Judged, divisible, judge
from semisure.bench.study import FOLDS, Study, cross_fit, folds, validated, with_truth
from semisure.error_laws import error_law
from semisure.metrics import reliability
from semisure.types import Calibration, FloatArray, IntArray, LawName

FITTED_AT = (960, 640)
SIZES = ((480, 320), (640, 480), (960, 640), (1280, 960))
LAWS: tuple[LawName, ...] = ("fine_only", "mixture")
REACH_PX = 40.0  # of the densities drawn
_GRID = np.linspace(-REACH_PX, REACH_PX, 81)
_SAMPLE = 500  # matches of a pair whose densities are averaged


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """A law to be fitted at one size and judged at all."""

    law: LawName
    fitted: Sequence[Exported]
    held_out: Mapping[str, Sequence[Exported]]


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """By size: the judgement, and the densities of r_x over the grid, both sums."""

    judged: dict[str, Judged]
    predicted: dict[str, FloatArray]
    observed: dict[str, FloatArray]


def evaluate(task: Task) -> Found:
    """A fold."""
    calibration = cross_fit([with_truth(e) for e in task.fitted], law=task.law)
    found = Found({}, {}, {})
    for size, exported in task.held_out.items():
        found.judged[size] = judge(calibration, exported)
        sums = [_densities(calibration, e) for e in exported]
        found.predicted[size] = np.sum([s[0] for s in sums], axis=0)
        found.observed[size] = np.sum([s[1] for s in sums], axis=0)
    return found


def _densities(
    calibration: Calibration, exported: Exported
) -> tuple[FloatArray, FloatArray]:
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
        at = part.exported(matcher, FITTED_AT)
        fold = folds([e.group for e in at], FOLDS)
        by_size = {_named(size): part.exported(matcher, size) for size in SIZES}
        found = _cross_validated(study, at, fold, by_size)
        above, below = [], []
        for size in by_size:
            for law in LAWS:
                judged = _joined([one.judged[size] for one in found[law]])
                numbers = judged.numbers()
                printed.append(
                    [
                        matcher,
                        size,
                        law,
                        numbers[0],
                        *numbers[4:],
                        float(judged.expected.mean()),
                        float(judged.observed.mean()),
                        len(judged.nll),
                    ]
                )
            upper, lower = _panels(f"{matcher}, {size}", found, size)
            above.append(upper)
            below.append(lower)
        panels += [*above, *below]
        notes.append(
            f"{matcher}, {data}: fitted at {_named(FITTED_AT)} on the other sequences "
            f"({validated(at)}), {len(at)} pairs."
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
    """One kind of data: the paper's, which has depth, where there is such."""
    parts = divisible(study)
    data = "depth" if "depth" in parts else next(iter(parts))
    for other in parts.keys() - {data}:
        study.note(f"Left out: {other}; give its folder alone to see it.")
    return data, parts[data]


def _named(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


def _cross_validated(
    study: Study,
    at: Sequence[Exported],
    fold: IntArray,
    by_size: dict[str, list[Exported]],
) -> dict[LawName, list[Found]]:
    tasks = []
    for law in LAWS:
        for k in sorted(set(fold.tolist())):
            fitted = [e for e, f in zip(at, fold, strict=True) if f != k]
            rest = {
                size: [e for e, f in zip(all_, fold, strict=True) if f == k]
                for size, all_ in by_size.items()
            }
            tasks.append(Task(law, fitted, rest))
    done = study.map(evaluate, tasks, "Fitting laws")
    return {
        law: [one for task, one in zip(tasks, done, strict=True) if task.law == law]
        for law in LAWS
    }


def _joined(parts: Sequence[Judged]) -> Judged:
    return Judged(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("nll", "expected", "observed")
        )
    )


def _panels(
    title: str, found: dict[LawName, list[Found]], size: str
) -> tuple[Panel, Panel]:
    trusted: dict[str, tuple[FloatArray, FloatArray]] = {}
    density: dict[str, tuple[FloatArray, FloatArray]] = {}
    for law, parts in found.items():
        judged = _joined([one.judged[size] for one in parts])
        x, y, _ = reliability(judged.expected, judged.observed)
        trusted[law] = (x, y)
        density[law] = (_GRID, _unit(sum(one.predicted[size] for one in parts)))
    counted = sum(one.observed[size] for one in found["mixture"])
    density["observed"] = (_GRID, _unit(counted))
    return (
        Panel(
            title=f"{title}: residual",
            xlabel="r_x, px",
            ylabel="density",
            lines=density,
            yscale="log",
        ),
        Panel(
            title=f"{title}: reliability",
            xlabel="expected error, px",
            ylabel="observed error, px",
            lines=trusted,
            xscale="log",
            yscale="log",
            diagonal=True,
        ),
    )


def _unit(density: FloatArray | int) -> FloatArray:
    """Scaled to one over the grid; zeros, which a logarithm cannot show, left out."""
    values = np.asarray(density, dtype=np.float64)
    area = values.sum() * (_GRID[1] - _GRID[0])
    scaled = values / area if area > 0 else values
    return np.where(scaled > 0, scaled, np.nan)
