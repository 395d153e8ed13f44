"""Table 5: how well each error law describes the true errors of held-out matches.

Every law is fitted on the other sequences and judged on those it has not seen
(cross-validation by sequence), whatever calibration ships with the matcher.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from semisure.bench import paper
from semisure.bench.calibrations import law_fitted_to
from semisure.bench.cross_validation import fold_of, inside, outside, validated
from semisure.bench.exported import Exported
from semisure.bench.law_scores import LawScores, joined, reliability_panel, score
from semisure.bench.outcome import Cell, Outcome, Table
from semisure.bench.study import Study
from semisure.calibration.fit_law import STRATA_PX
from semisure.types import LAW_NAMES, as_choice

WITH_LOCATION = "mixture + location"  # ours
_DRAWN = ("fine_only", "mixture", WITH_LOCATION)
_NUMBERS = ("nll", *(f"nll {stratum}" for stratum in STRATA_PX), "ece", "rho")


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One law to be fitted on some pairs and judged on others."""

    law: str
    fitted: Sequence[Exported]
    held_out: Sequence[Exported]


def fit_and_score(task: Task) -> LawScores:
    """One law fitted on all but one fold, and judged on that one."""
    located = task.law == WITH_LOCATION
    law = as_choice("law", "mixture" if located else task.law, LAW_NAMES)
    calibration = law_fitted_to(task.fitted, law=law, location=located)
    return score(calibration, task.held_out)


def cross_validated(
    study: Study, exported: Sequence[Exported], names: Sequence[str]
) -> dict[str, LawScores]:
    """Each law judged on every pair by the fit that has not seen its sequence."""
    fold = fold_of(exported)
    tasks = [
        Task(name, outside(exported, fold, k), inside(exported, fold, k))
        for name in names
        for k in sorted(set(fold.tolist()))
    ]
    done = study.map(fit_and_score, tasks, "Fitting laws")
    return {
        name: joined(
            [
                scores
                for task, scores in zip(tasks, done, strict=True)
                if task.law == name
            ]
        )
        for name in names
    }


def laws(study: Study) -> Outcome:
    """By matcher and kind of data, a line for each law."""
    names = [*paper.LAWS, WITH_LOCATION]
    printed: list[list[Cell]] = [
        ["EfficientLoFTR, paper", paper.LAWS[name], *numbers, None]
        for name, numbers in paper.BY_LAW.items()
    ]
    rows: list[dict[str, Any]] = []
    panels, notes = [], []
    parts = study.divisible()
    for matcher in study.options.matchers:
        for data, part in parts.items():
            exported = part.exported(matcher)
            by_law = cross_validated(study, exported, names)
            for name, scores in by_law.items():
                numbers = scores.numbers()
                label = paper.LAWS.get(name, name)
                printed.append([f"{matcher}, {data}", label, *numbers, len(scores.nll)])
                row = dict(zip(_NUMBERS, numbers, strict=True))
                rows.append({"matcher": matcher, "data": data, "law": name, **row})
            shown = {name: by_law[name] for name in _DRAWN}
            panels.append(reliability_panel(f"{matcher}, {data}", shown))
            notes.append(
                f"{matcher}, {data}: {len(exported)} pairs, each law fitted on the "
                f"other sequences ({validated(exported)})."
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
