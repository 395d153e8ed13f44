"""Table 5: how well each error law describes the true errors of held-out matches.

The paper fits on 200 held-out pairs of MegaDepth and judges on MegaDepth-1500:
``--calibrate-on``. Without it every law is fitted on the other sequences and judged on
those it has not seen, whatever calibration ships with the matcher, and the rows say so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from semisure.bench import paper
from semisure.bench.exported import Exported
from semisure.bench.law_scores import LawScores, joined, reliability_panel, score
from semisure.bench.outcome import Cell, Outcome, Table
from semisure.bench.splits import WITH_LOCATION, LawTask, Plan, law_tasks, plan
from semisure.bench.study import Study
from semisure.law.fit_law import STRATA_PX

_DRAWN = ("fine_only", "mixture", WITH_LOCATION)
_NUMBERS = ("nll", *(f"nll {stratum}" for stratum in STRATA_PX), "ece", "rho")
_OWN = "own"  # the only size there is


def evaluate(task: LawTask) -> LawScores:
    """One law on the pairs it has not seen."""
    return score(task.calibration, task.judged[_OWN])


def judged(study: Study, how: Plan, names: Sequence[str]) -> dict[str, LawScores]:
    """Each law judged on every pair."""
    tasks = law_tasks(study, names, how)
    answers = study.map(evaluate, tasks, "Judging laws")
    by_law: dict[str, list[LawScores]] = {}
    for task, scores in zip(tasks, answers, strict=True):
        by_law.setdefault(task.name, []).append(scores)
    return {name: joined(parts) for name, parts in by_law.items()}


def laws(study: Study) -> Outcome:
    """By matcher and kind of data, a line for each law."""
    names = [*paper.LAWS, WITH_LOCATION]
    printed: list[list[Cell]] = [
        ["EfficientLoFTR, paper", paper.LAWS[name], *numbers, None]
        for name, numbers in paper.BY_LAW.items()
    ]
    rows: list[dict[str, Any]] = []
    panels, notes = [], []
    for matcher in study.options.matchers:
        for data, part in study.kinds().items():
            exported: list[Exported] = part.exported(matcher)
            how = plan(part, matcher, {_OWN: exported})
            by_law = judged(study, how, names)
            for name, scores in by_law.items():
                numbers = scores.numbers()
                label = paper.LAWS.get(name, name)
                count = len(scores.nll)
                printed.append([f"{how.label}, {data}", label, *numbers, count])
                row = dict(zip(_NUMBERS, numbers, strict=True))
                rows.append({"matcher": matcher, "data": data, "law": name, **row})
            shown = {name: by_law[name] for name in _DRAWN if name in by_law}
            panels.append(reliability_panel(f"{how.label}, {data}", shown))
            notes.append(
                f"{matcher}, {data}: judged on {len(exported)} pairs; {how.remark}."
            )
    table = Table(
        name="laws",
        title="Error laws on held-out pairs: NLL per axis, ECE (px), Spearman; "
        "the paper's: Tab. 5, MegaDepth-1500",
        head=["", "law", "NLL", "<8", "8-64", ">64", "ECE", "rho", "matches"],
        rows=printed,
        digits=3,
    )
    return Outcome(tables=[table], rows=rows, figures={"laws": panels}, notes=notes)
