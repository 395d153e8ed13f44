"""Table 5: how well each error law describes the true errors of held-out matches.

Every law is fitted on the other sequences and judged on those it has not seen
(cross-validation by sequence), whatever calibration ships with the matcher.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from semisure import mixture
from semisure.bench import paper
from semisure.bench.match_cache import Exported, group_of
from semisure.bench.outcome import Cell, Outcome, Panel, Table
from semisure.bench.study import FOLDS, Study, cross_fit, folds, validated, with_truth
from semisure.calibration.fit_law import STRATA_PX
from semisure.error_laws import error_law
from semisure.metrics import expected_calibration_error, reliability, spearman
from semisure.types import Calibration, FloatArray, LawName

WITH_LOCATION = "mixture + location"  # ours


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """What a law said of matches, and what was true."""

    nll: FloatArray  # (n,) mean over axes, nats
    expected: FloatArray  # (n,) px
    observed: FloatArray  # (n,) px, e = ½‖r‖₁

    def numbers(self) -> list[float]:
        """NLL of all and by stratum, ECE, Spearman; NaN where there is nothing."""
        by_stratum = [
            _mean(self.nll[(self.observed >= low) & (self.observed < high)])
            for low, high in STRATA_PX.values()
        ]
        ece = expected_calibration_error(self.expected, self.observed)
        rho = spearman(self.expected, self.observed)
        return [float(self.nll.mean()), *by_stratum, ece, rho]


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if len(values) else float("nan")


def judge(calibration: Calibration, exported: Sequence[Exported]) -> Judged:
    """The law of `calibration` held against the truth of all matches of the pairs."""
    parts = []
    for one in exported:
        matches, residual = with_truth(one)
        law = error_law(matches, calibration)
        nll = -mixture.log_density(law, residual).mean(axis=1)
        observed = 0.5 * np.abs(residual).sum(axis=1)
        parts.append((nll, mixture.expected_abs_error(law), observed))
    return Judged(*(np.concatenate(column) for column in zip(*parts, strict=True)))


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One law to be fitted on some pairs and judged on others."""

    law: str
    fitted: Sequence[Exported]
    held_out: Sequence[Exported]


def fit_and_judge(task: Task) -> Judged:
    """A fold."""
    shifted = task.law == WITH_LOCATION
    law: LawName = "mixture" if shifted else task.law  # type: ignore[assignment]
    pairs = [with_truth(one) for one in task.fitted]
    return judge(cross_fit(pairs, law=law, location=shifted), task.held_out)


def cross_validated(
    study: Study, exported: Sequence[Exported], names: Sequence[str]
) -> dict[str, Judged]:
    """Each law judged on every pair by the fit that has not seen its sequence."""
    fold = folds([e.group for e in exported], FOLDS)
    tasks = [
        Task(
            name,
            [e for e, f in zip(exported, fold, strict=True) if f != k],
            [e for e, f in zip(exported, fold, strict=True) if f == k],
        )
        for name in names
        for k in sorted(set(fold.tolist()))
    ]
    done = study.map(fit_and_judge, tasks, "Fitting laws")
    found: dict[str, Judged] = {}
    for name in names:
        mine = [j for task, j in zip(tasks, done, strict=True) if task.law == name]
        found[name] = Judged(
            *(
                np.concatenate([getattr(j, part) for j in mine])
                for part in ("nll", "expected", "observed")
            )
        )
    return found


def parts_of(study: Study) -> Iterator[tuple[str, str, Study]]:
    """Matcher by matcher, the data of each kind that can be split for validation."""
    parts = divisible(study)
    for matcher in study.options.matchers:
        for data, part in parts.items():
            yield matcher, data, part


def divisible(study: Study) -> dict[str, Study]:
    """The kinds of data that hold two sequences or scenes; all, if none does."""
    kinds = study.by_truth()
    good = {data: part for data, part in kinds.items() if _sequences(part) > 1}
    for data in kinds.keys() - good.keys():
        if good:
            study.note(f"Left out: {data}, of a single sequence or scene.")
    return good or kinds


def _sequences(study: Study) -> int:
    roots = study.options.data
    return len({group_of(pair) for root in roots for pair in study.pairs(root)})


def laws(study: Study) -> Outcome:
    """Table 5, by error law."""
    names = [*paper.LAWS, WITH_LOCATION]
    head = ("nll", *(f"nll {s}" for s in STRATA_PX), "ece", "rho")
    printed: list[list[Cell]] = []
    rows: list[dict[str, Any]] = []
    panels, notes = [], []
    for name, numbers in paper.BY_LAW.items():
        printed.append(["EfficientLoFTR, paper", paper.LAWS[name], *numbers, None])
    for matcher, data, part in parts_of(study):
        exported = part.exported(matcher)
        found = cross_validated(study, exported, names)
        for name, judged in found.items():
            numbers = tuple(judged.numbers())
            label = paper.LAWS.get(name, name)
            printed.append([f"{matcher}, {data}", label, *numbers, len(judged.nll)])
            row = dict(zip(head, numbers, strict=True))
            rows.append({"matcher": matcher, "data": data, "law": name, **row})
        panels.append(_reliability(f"{matcher}, {data}", found))
        notes.append(
            f"{matcher}, {data}: {len(exported)} pairs, each law fitted on the other "
            f"sequences ({validated(exported)})."
        )
    table = Table(
        name="laws",
        title="Error laws on held-out pairs: NLL per axis, ECE (px), Spearman; "
        "the paper's: Tab. 5, MegaDepth",
        head=["", "law", "NLL", "<8", "8-64", ">64", "ECE", "rho", "matches"],
        rows=printed,
        digits=3,
    )
    return Outcome(tables=[table], rows=rows, figures={"laws": panels}, notes=notes)


def _reliability(title: str, found: dict[str, Judged]) -> Panel:
    lines = {}
    for name in ("fine_only", "mixture", WITH_LOCATION):
        x, y, _ = reliability(found[name].expected, found[name].observed)
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
