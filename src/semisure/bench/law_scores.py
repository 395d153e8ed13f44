"""How well an error law describes the true errors of matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from semisure.bench.exported import Exported
from semisure.bench.outcome import Panel
from semisure.bench.true_errors import with_truth
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.law.fit_law import STRATA_PX
from semisure.metrics import expected_calibration_error, reliability, spearman
from semisure.types import Calibration, PerMatch, Vector

_SAMPLE = 500  # matches of a pair whose densities are averaged


@dataclass(frozen=True, slots=True, eq=False)
class LawScores:
    """What a law predicts of matches, and what is true."""

    nll: PerMatch  # mean over axes, nats
    expected: PerMatch  # px
    observed: PerMatch  # px, e = ½‖r‖₁

    def numbers(self) -> list[float]:
        """NLL of all and by stratum, ECE, Spearman; NaN where there is nothing."""
        by_stratum = [
            _mean(self.nll[(self.observed >= low) & (self.observed < high)])
            for low, high in STRATA_PX.values()
        ]
        ece = expected_calibration_error(self.expected, self.observed)
        rho = spearman(self.expected, self.observed)
        return [float(self.nll.mean()), *by_stratum, ece, rho]


def _mean(values: PerMatch) -> float:
    return float(values.mean()) if len(values) else float("nan")


def joined(parts: Sequence[LawScores]) -> LawScores:
    """The scores of all matches together."""
    return LawScores(
        np.concatenate([part.nll for part in parts]),
        np.concatenate([part.expected for part in parts]),
        np.concatenate([part.observed for part in parts]),
    )


def score(calibration: Calibration, exported: Sequence[Exported]) -> LawScores:
    """The law of `calibration` compared with the true errors of all matches."""
    return joined([_score(calibration, one) for one in exported])


def _score(calibration: Calibration, exported: Exported) -> LawScores:
    matches, residual = with_truth(exported)
    law = error_law(matches, calibration)
    return LawScores(
        nll=-mixture.log_density(law, residual).mean(axis=1),
        expected=mixture.expected_abs_error(law),
        observed=0.5 * np.abs(residual).sum(axis=1),
    )


def reliability_panel(title: str, by_law: Mapping[str, LawScores]) -> Panel:
    """Observed over expected errors, a line for each law."""
    lines = {}
    for name, scores in by_law.items():
        x, y, _ = reliability(scores.expected, scores.observed)
        lines[name] = (x, y)
    return Panel(
        title=title,
        xlabel="expected error, px",
        ylabel="observed error, px",
        lines=lines,
        xscale="log",
        yscale="log",
        diagonal=True,
    )


def densities(
    calibration: Calibration, exported: Exported, grid: Vector
) -> tuple[Vector, Vector]:
    """Σ over matches of the density of r_x at the grid, predicted and counted."""
    matches, residual = with_truth(exported)
    some = np.linspace(0, len(matches) - 1, min(_SAMPLE, len(matches)))
    index = some.astype(np.int64)
    law, r = error_law(matches.take(index), calibration), residual[index, 0]
    predicted = [
        float(np.exp(mixture.log_density(law, np.full((len(index), 2), x))[:, 0]).sum())
        for x in grid
    ]
    step = grid[1] - grid[0]
    edges = np.append(grid, grid[-1] + step) - step / 2
    counted = np.histogram(r, edges)[0] / step
    return np.array(predicted), counted
