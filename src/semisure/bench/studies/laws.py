"""Table 5: how well each error law describes the true errors of held-out matches.

The paper fits on 200 held-out pairs of MegaDepth and judges on MegaDepth-1500:
``--calibrate-on``. Without it every law is fitted on the other sequences and judged on
those it has not seen, whatever calibration ships with the matcher, and the rows say so.
A law that is given as a file, and the uncalibrated one, need no fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from semisure.bench.calibrations import (
    CROSS_VALIDATED,
    Fit,
    folds,
    given,
    inside,
    outside,
    validated,
)
from semisure.bench.exported import Exported, Size, with_truth
from semisure.bench.options import Options
from semisure.bench.outcome import Lines, Outcome, Table
from semisure.bench.study import Study
from semisure.io.cache import Row
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.law.fit_law import STRATA_PX
from semisure.law.likelihood import SIZE, unpack
from semisure.metrics import expected_calibration_error, spearman
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
_NUMBERS = ("nll", *(f"nll {stratum}" for stratum in STRATA_PX), "ece", "rho")
_RAW: LawName = "uncalibrated"
_OWN = "own"  # the only size there is
Judged = Mapping[str, Sequence[Exported]]  # pairs by the size they were matched at
Verdict = TypeVar("Verdict")


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


@dataclass(frozen=True, slots=True, eq=False)
class LawTask:
    """A law to be judged by some pairs, which it has not seen."""

    name: str
    calibration: Calibration
    judged: Judged


def judged_laws(
    study: Study,
    matcher: str,
    judged: Judged,
    names: Sequence[str],
    evaluate: Callable[[LawTask], Verdict],
    fitted_at: Size | None = None,
) -> tuple[str, str, dict[str, list[Verdict]]]:
    """The label of a matcher's rows, a remark on the split, and verdicts by law.

    The paper's split, the file given, or else cross-validation, which the label says.
    Of the laws of these `names` those that need no fit are judged on all pairs at once.
    Pairs to fit to are matched at `fitted_at`; without it, at their own size.
    """
    options, unfitted = study.options, unfitted_laws(study.options)
    label = matcher
    splits: list[tuple[list[Exported], Judged]] = []
    if options.calibrate_on is not None:
        held_out = study.held_out(matcher, fitted_at)
        remark = study.calibrated_on(held_out)
        splits = [(held_out, judged)]
    elif options.calibration is not None:
        remark = (
            f"{given(options)[1]}; the other laws need pairs to be fitted to, "
            "--calibrate-on"
        )
    else:
        own = next(iter(judged.values()))
        pairs = study.exported(matcher, fitted_at) if fitted_at else own
        label += CROSS_VALIDATED
        remark = f"each law fitted on the other sequences ({validated(pairs)})"
        fold = folds([one.group for one in pairs])
        for k in range(int(fold.max()) + 1):
            in_fold = {size: inside(some, fold, k) for size, some in judged.items()}
            splits.append((outside(pairs, fold, k), in_fold))
    tasks = [LawTask(n, unfitted[n], judged) for n in names if n in unfitted]
    wanted = [(n, split) for n in names if n not in unfitted for split in splits]
    fits = study.laws([_fit(options, name, pairs) for name, (pairs, _) in wanted])
    tasks += [
        LawTask(name, law, in_fold)
        for (name, (_, in_fold)), law in zip(wanted, fits, strict=True)
    ]
    tasks.sort(key=lambda task: names.index(task.name))
    verdicts: dict[str, list[Verdict]] = {}
    for task, verdict in zip(
        tasks, study.map(evaluate, tasks, "Judging laws"), strict=True
    ):
        verdicts.setdefault(task.name, []).append(verdict)
    return label, remark, verdicts


def unfitted_laws(options: Options) -> dict[str, Calibration]:
    """The laws that need no fit, by name: those given, and the uncalibrated one."""
    laws: dict[str, Calibration] = {_RAW: replace(unpack(np.zeros(SIZE)), law=_RAW)}
    if options.calibration is not None:
        both, _ = given(options)
        laws[both.paper.law] = both.paper
        if both.ours.location is not None:
            laws[WITH_LOCATION] = both.ours
    return laws


def _fit(options: Options, name: str, pairs: Sequence[Exported]) -> Fit:
    located = name == WITH_LOCATION
    law = as_choice("law", "mixture" if located else name, LAW_NAMES)
    return Fit(exported=pairs, law=law, location=located, optimiser=options.optimiser)


def evaluate(task: LawTask) -> LawScores:
    """One law on the pairs it has not seen."""
    return score(task.calibration, task.judged[_OWN])


def laws(study: Study) -> Outcome:
    """By matcher and kind of data, a line for each law."""
    printed: Lines = [
        ["EfficientLoFTR, paper", LAWS[name], *numbers, None]
        for name, numbers in BY_LAW.items()
    ]
    rows: list[Row] = []
    names = [*LAWS, WITH_LOCATION]
    for matcher in study.options.matchers:
        for data, part in study.kinds().items():
            pairs = part.exported(matcher)
            label, remark, verdicts = judged_laws(
                part, matcher, {_OWN: pairs}, names, evaluate
            )
            for name, parts in verdicts.items():
                scores = joined(parts)
                numbers = scores.numbers()
                about = f"{label}, {data}", LAWS.get(name, name)
                printed.append([*about, *numbers, len(scores.nll)])
                row = dict(zip(_NUMBERS, numbers, strict=True))
                rows.append({"matcher": matcher, "data": data, "law": name, **row})
            study.note(f"{matcher}, {data}: judged on {len(pairs)} pairs; {remark}.")
    table = Table(
        name="laws",
        title="Error laws on held-out pairs: NLL per axis, ECE (px), Spearman; "
        "the paper's: Tab. 5, MegaDepth-1500",
        head=["", "law", "NLL", "<8", "8-64", ">64", "ECE", "rho", "matches"],
        rows=printed,
        digits=3,
    )
    return Outcome(tables=[table], rows=rows)
