"""What laws are fitted to and what they are judged on, in pairs that never overlap.

The paper's split is one: held-out pairs of another folder (``--calibrate-on``), judged
on all of the data. Cross-validation is several: each fold is judged by the fit to the
others. A law that is given as a file, and the uncalibrated one, need no fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from semisure.bench.calibrations import given, labelled
from semisure.bench.cross_validation import fold_of, inside, outside, validated
from semisure.bench.exported import Exported, Size
from semisure.bench.law_fits import FitTask
from semisure.bench.options import Options
from semisure.bench.study import Study
from semisure.law.likelihood import SIZE, unpack
from semisure.types import LAW_NAMES, Calibration, LawName, as_choice

WITH_LOCATION = "mixture + location"  # ours
_RAW: LawName = "uncalibrated"
Judged = Mapping[str, Sequence[Exported]]  # pairs by the size they were matched at


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Pairs to fit to, and pairs to judge by."""

    fitted: Sequence[Exported]
    judged: Judged


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Plan:
    """How the laws of a matcher are come by, under a name for the table's rows."""

    label: str
    remark: str
    judged: Judged
    splits: Sequence[Split] = ()
    known: Mapping[str, Calibration] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class LawTask:
    """A law to be judged by some pairs."""

    name: str
    calibration: Calibration
    judged: Judged


def plan(
    study: Study, matcher: str, judged: Judged, fitted_at: Size | None = None
) -> Plan:
    """The paper's split, the file given, or else cross-validation, which the rows say.

    Pairs to fit to are matched at `fitted_at`; without it, at their own size.
    """
    options, known = study.options, known_laws(study.options)
    if options.calibrate_on is not None:
        held_out = study.held_out(matcher, fitted_at)
        return Plan(
            label=matcher,
            remark=study.calibrated_on(held_out),
            judged=judged,
            splits=[Split(held_out, judged)],
            known=known,
        )
    if options.calibration is not None:
        remark = (
            f"{given(options, options.calibration)[1]}; the other laws need pairs to "
            "be fitted to, --calibrate-on"
        )
        return Plan(label=matcher, remark=remark, judged=judged, known=known)
    own = next(iter(judged.values()))
    fitted = study.exported(matcher, fitted_at) if fitted_at else own
    return Plan(
        label=labelled(matcher, "cross-validated"),
        remark=f"each law fitted on the other sequences ({validated(fitted)})",
        judged=judged,
        splits=_folds(fitted, judged),
        known=known,
    )


def _folds(fitted: Sequence[Exported], judged: Judged) -> list[Split]:
    """A split for each fold; the same pairs are judged, at whatever sizes."""
    fold = fold_of(fitted)
    return [
        Split(
            outside(fitted, fold, k),
            {size: inside(pairs, fold, k) for size, pairs in judged.items()},
        )
        for k in sorted(set(fold.tolist()))
    ]


def known_laws(options: Options) -> dict[str, Calibration]:
    """The laws that need no fit, by name: those given, and the uncalibrated one."""
    laws: dict[str, Calibration] = {_RAW: replace(unpack(np.zeros(SIZE)), law=_RAW)}
    if options.calibration is not None:
        both, _ = given(options, options.calibration)
        laws[both.paper.law] = both.paper
        if both.ours.location is not None:
            laws[WITH_LOCATION] = both.ours
    return laws


def law_tasks(study: Study, names: Sequence[str], how: Plan) -> list[LawTask]:
    """The laws of these names that the plan has, fitted where needed."""
    known = [LawTask(n, how.known[n], how.judged) for n in names if n in how.known]
    wanted = [(n, split) for n in names if n not in how.known for split in how.splits]
    fits = study.laws([_fit(study.options, n, split.fitted) for n, split in wanted])
    fitted = [
        LawTask(name, law, split.judged)
        for (name, split), law in zip(wanted, fits, strict=True)
    ]
    return sorted([*known, *fitted], key=lambda task: names.index(task.name))


def _fit(options: Options, name: str, pairs: Sequence[Exported]) -> FitTask:
    located = name == WITH_LOCATION
    law = as_choice("law", "mixture" if located else name, LAW_NAMES)
    return FitTask(
        exported=pairs, law=law, location=located, optimiser=options.optimiser
    )
