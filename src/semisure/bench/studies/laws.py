"""Table 5: how well each error law describes the true errors of held-out matches.

The paper fits on 200 held-out pairs of MegaDepth and judges on MegaDepth-1500:
``--calibrate-on``. Without it every law is fitted on the other sequences and judged on
those it has not seen, whatever calibration ships with the matcher, and the rows say so.
A law that is given as a file, and the uncalibrated one, need no fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from semisure.bench.calibrations import (
    Fit,
    fold_of,
    given,
    inside,
    labelled,
    outside,
    validated,
)
from semisure.bench.exported import Exported, Size, with_truth
from semisure.bench.options import Options
from semisure.bench.outcome import Cell, Outcome, Panel, Table
from semisure.bench.study import Study
from semisure.io.cache import Row
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.law.fit_law import STRATA_PX
from semisure.law.likelihood import SIZE, unpack
from semisure.metrics import expected_calibration_error, reliability, spearman
from semisure.types import LAW_NAMES, Calibration, LawName, PerMatch, as_choice

# The laws, as the paper calls them.
LAWS = {
    "fine_only": "Fine only",
    "gaussian": "Gaussian mixture",
    "uncalibrated": "LMM, w/o calibration",
    "no_confidence_gate": "LMM, w/o conf. gate",
    "hard_gate": "LMM, hard gate",
    "mixture": "Ours",
}
# Tab. 5 (tab:ablation_calibration): EfficientLoFTR on held-out MegaDepth; NLL per axis
# of all matches, of those that err by < 8, 8-64, > 64 px, then ECE and Spearman's rho.
BY_LAW: dict[str, tuple[float, ...]] = {
    "fine_only": (2.897, 2.808, 4.373, 11.749, 7.756, 0.240),
    "gaussian": (1.665, 1.516, 6.092, 12.158, 4.191, 0.348),
    "uncalibrated": (1.962, 1.874, 4.762, 7.748, 2.530, 0.368),
    "no_confidence_gate": (1.554, 1.440, 5.724, 7.914, 1.575, 0.355),
    "hard_gate": (1.724, 1.552, 7.300, 13.100, 1.579, 0.347),
    "mixture": (1.546, 1.437, 5.532, 7.694, 1.612, 0.360),
}
WITH_LOCATION = "mixture + location"  # ours
_DRAWN = ("fine_only", "mixture", WITH_LOCATION)
_NUMBERS = ("nll", *(f"nll {stratum}" for stratum in STRATA_PX), "ece", "rho")
_RAW: LawName = "uncalibrated"
_OWN = "own"  # the only size there is
Judged = Mapping[str, Sequence[Exported]]  # pairs by the size they were matched at


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
    parts = []
    for one in exported:
        matches, residual = with_truth(one)
        law = error_law(matches, calibration)
        part = LawScores(
            nll=-mixture.log_density(law, residual).mean(axis=1),
            expected=mixture.expected_abs_error(law),
            observed=0.5 * np.abs(residual).sum(axis=1),
        )
        parts.append(part)
    return joined(parts)


def reliability_panel(title: str, by_law: Mapping[str, LawScores]) -> Panel:
    """Observed over expected errors, a line for each law."""
    lines = {
        name: reliability(scores.expected, scores.observed)[:2]
        for name, scores in by_law.items()
    }
    return Panel(
        title=title,
        xlabel="expected error, px",
        ylabel="observed error, px",
        lines=lines,
        xscale="log",
        yscale="log",
        diagonal=True,
    )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Plan:
    """How the laws of a matcher are come by, under a name for the table's rows.

    Each split is pairs to fit to and pairs to judge by, which never overlap.
    """

    label: str
    remark: str
    judged: Judged
    splits: Sequence[tuple[Sequence[Exported], Judged]] = ()
    unfitted: Mapping[str, Calibration] = field(default_factory=dict)


def plan(
    study: Study, matcher: str, judged: Judged, fitted_at: Size | None = None
) -> Plan:
    """The paper's split, the file given, or else cross-validation, which the rows say.

    Pairs to fit to are matched at `fitted_at`; without it, at their own size.
    """
    options, unfitted = study.options, _unfitted_laws(study.options)
    if options.calibrate_on is not None:
        held_out = study.held_out(matcher, fitted_at)
        return Plan(
            label=matcher,
            remark=study.calibrated_on(held_out),
            judged=judged,
            splits=[(held_out, judged)],
            unfitted=unfitted,
        )
    if options.calibration is not None:
        remark = (
            f"{given(options)[1]}; the other laws need pairs to be fitted to, "
            "--calibrate-on"
        )
        return Plan(label=matcher, remark=remark, judged=judged, unfitted=unfitted)
    own = next(iter(judged.values()))
    pairs = study.exported(matcher, fitted_at) if fitted_at else own
    fold = fold_of(pairs)
    splits = []
    for k in sorted(set(fold.tolist())):
        in_fold = {size: inside(some, fold, k) for size, some in judged.items()}
        splits.append((outside(pairs, fold, k), in_fold))
    return Plan(
        label=labelled(matcher, "cross-validated"),
        remark=f"each law fitted on the other sequences ({validated(pairs)})",
        judged=judged,
        splits=splits,
        unfitted=unfitted,
    )


def _unfitted_laws(options: Options) -> dict[str, Calibration]:
    """The laws that need no fit, by name: those given, and the uncalibrated one."""
    laws: dict[str, Calibration] = {_RAW: replace(unpack(np.zeros(SIZE)), law=_RAW)}
    if options.calibration is not None:
        both, _ = given(options)
        laws[both.paper.law] = both.paper
        if both.ours.location is not None:
            laws[WITH_LOCATION] = both.ours
    return laws


@dataclass(frozen=True, slots=True, eq=False)
class LawTask:
    """A law to be judged by some pairs."""

    name: str
    calibration: Calibration
    judged: Judged


def law_tasks(study: Study, names: Sequence[str], how: Plan) -> list[LawTask]:
    """The laws of these names that the plan has, fitted where needed."""
    tasks = [
        LawTask(name, how.unfitted[name], how.judged)
        for name in names
        if name in how.unfitted
    ]
    wanted = [(n, s) for n in names if n not in how.unfitted for s in how.splits]
    fits = study.laws([_fit(study.options, n, pairs) for n, (pairs, _) in wanted])
    tasks += [
        LawTask(name, law, judged)
        for (name, (_, judged)), law in zip(wanted, fits, strict=True)
    ]
    return sorted(tasks, key=lambda task: names.index(task.name))


def _fit(options: Options, name: str, pairs: Sequence[Exported]) -> Fit:
    located = name == WITH_LOCATION
    law = as_choice("law", "mixture" if located else name, LAW_NAMES)
    return Fit(exported=pairs, law=law, location=located, optimiser=options.optimiser)


def evaluate(task: LawTask) -> LawScores:
    """One law on the pairs it has not seen."""
    return score(task.calibration, task.judged[_OWN])


def laws(study: Study) -> Outcome:
    """By matcher and kind of data, a line for each law."""
    printed: list[list[Cell]] = [
        ["EfficientLoFTR, paper", LAWS[name], *numbers, None]
        for name, numbers in BY_LAW.items()
    ]
    rows: list[Row] = []
    panels, notes = [], []
    for matcher in study.options.matchers:
        for data, part in study.kinds().items():
            exported = part.exported(matcher)
            how = plan(part, matcher, {_OWN: exported})
            tasks = law_tasks(part, [*LAWS, WITH_LOCATION], how)
            answers = part.map(evaluate, tasks, "Judging laws")
            by_law = {
                name: joined(
                    [a for t, a in zip(tasks, answers, strict=True) if t.name == name]
                )
                for name in dict.fromkeys(task.name for task in tasks)
            }
            for name, scores in by_law.items():
                numbers = scores.numbers()
                about = f"{how.label}, {data}", LAWS.get(name, name)
                printed.append([*about, *numbers, len(scores.nll)])
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
