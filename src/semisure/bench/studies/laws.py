"""Table 5 and figure 5: how well error laws describe the true errors of other matches.

The paper fits on 200 held-out pairs of MegaDepth and judges on MegaDepth-1500:
``--calibrate-on``. Without it every law is fitted on the other sequences and judged on
those it has not seen, whatever calibration ships with the matcher; rows are labelled.
A law from a file and the uncalibrated one need no fit. For figure 5
(``resolution``) laws are fitted at 960 × 640 and judged at other sizes too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from semisure.bench.calibrations import (
    CROSS_VALIDATED,
    OTHERS,
    Fit,
    both_laws,
    folds,
    given,
    split,
)
from semisure.bench.data import parts_of
from semisure.bench.exported import Exported, Size, with_truth
from semisure.bench.options import Options
from semisure.bench.outcome import Cell, Lines, Outcome, Panel, Table
from semisure.bench.study import Study
from semisure.io.cache import Row
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.law.fit_law import STRATA_PX
from semisure.law.likelihood import SIZE, unpack
from semisure.law.mixture import ErrorLaw
from semisure.metrics import expected_calibration_error, reliability, spearman
from semisure.types import (
    LAW_NAMES,
    Calibration,
    FloatArray,
    LawName,
    PerAxis,
    PerMatch,
    Vector,
    as_choice,
)

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
FITTED_AT = (960, 640)
SIZES = ((480, 320), (640, 480), (960, 640), (1280, 960))
_JUDGED = ("fine_only", "mixture")  # and the laws that are given
REACH_PX = 40.0  # of the densities drawn
_SAMPLE = 500  # matches of a pair whose densities are averaged
_GRID = np.linspace(-REACH_PX, REACH_PX, 81)
WITH_LOCATION = "mixture + location"  # ours
_NUMBERS = ("nll", *(f"nll {stratum}" for stratum in STRATA_PX), "ece", "rho")
_RAW: LawName = "uncalibrated"
# Pairs to judge by, by the part of a table that they belong to: size, kind of data.
Parts = Mapping[str, Sequence[Exported]]


@dataclass(frozen=True, slots=True, eq=False)
class LawScores:
    """The predictions of a law for matches, and their true errors."""

    nll: PerMatch  # mean over axes, nats
    expected: PerMatch  # px
    observed: PerMatch  # px, e = ½‖r‖₁
    densities: (
        FloatArray  # of r_x, predicted and observed, sums over matches: (2, grid)
    )

    def numbers(self) -> list[float]:
        """NLL of all and by stratum, ECE, Spearman; NaN without matches."""
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
        np.sum([part.densities for part in parts], axis=0),
    )


def score(calibration: Calibration, one: Exported) -> LawScores:
    """The law of `calibration` compared with the true errors of the matches."""
    matches, residual = with_truth(one)
    law = error_law(matches, calibration)
    return LawScores(
        nll=-mixture.log_density(law, residual).mean(axis=1),
        expected=mixture.expected_abs_error(law),
        observed=0.5 * np.abs(residual).sum(axis=1),
        densities=densities(law, residual),
    )


def densities(law: ErrorLaw, residual: PerAxis) -> FloatArray:
    """Σ over some matches of the density of r_x at the grid, predicted and counted."""
    places = np.linspace(0, len(residual) - 1, min(_SAMPLE, len(residual)))
    index = places.astype(np.int64)
    law = law.take(index)
    predicted = [
        float(np.exp(mixture.log_density(law, np.full((len(index), 2), x))[:, 0]).sum())
        for x in _GRID
    ]
    step = _GRID[1] - _GRID[0]
    edges = np.append(_GRID, _GRID[-1] + step) - step / 2
    counted = np.histogram(residual[index, 0], edges)[0] / step
    return np.array([predicted, counted])


@dataclass(frozen=True, slots=True, eq=False)
class LawTask:
    """A law to be judged by some pairs, which it has not seen."""

    name: str
    calibration: Calibration
    judged: Parts


def evaluate(task: LawTask) -> dict[str, LawScores]:
    """The scores of a law on each part that has pairs."""
    return {
        name: joined([score(task.calibration, one) for one in exported])
        for name, exported in task.judged.items()
        if exported
    }


def judged_laws(
    study: Study,
    matcher: str,
    judged: Parts,
    names: Sequence[str],
    fitted_at: Size | None = None,
) -> tuple[str, str, dict[str, dict[str, LawScores]]]:
    """The label of a matcher's rows, a remark on the split, and laws by part and name.

    The paper's split, the file given, or else cross-validation, which the label says.
    Of the laws of these `names` those that need no fit are judged on all pairs at once.
    Pairs to fit to are matched at `fitted_at`; without it, at their own size.
    """
    options, unfitted = study.options, unfitted_laws(study.options)
    label = matcher
    splits: list[tuple[list[Exported], Parts]] = []
    if options.calibrate_on is not None:
        held_out = study.held_out(matcher, fitted_at)
        remark = study.calibrated_on(held_out)
        splits = [(held_out, judged)]
    elif options.calibration is not None:
        remark = (
            f"{given(options.calibration)[1]}; the other laws need pairs to be fitted "
            "to, --calibrate-on"
        )
    else:
        pairs = [one for part in judged.values() for one in part]
        if fitted_at:
            pairs = study.exported(matcher, fitted_at)
        label += CROSS_VALIDATED
        remark = f"each law {OTHERS}"
        fold = folds([one.group for one in pairs])
        for k in range(int(fold.max()) + 1):
            others, mine = split(pairs, fold, k)
            groups = {one.group for one in mine}
            in_fold = {
                name: [one for one in part if one.group in groups]
                for name, part in judged.items()
            }
            splits.append((others, in_fold))
    searched = [(n, parts) for n in names if n not in unfitted for parts in splits]
    fits = study.laws([_fit(options, name, pairs) for name, (pairs, _) in searched])
    tasks = [LawTask(n, unfitted[n], judged) for n in names if n in unfitted]
    tasks += [
        LawTask(name, law, in_fold)
        for (name, (_, in_fold)), law in zip(searched, fits, strict=True)
    ]
    scores = study.map(evaluate, tasks, "Judging laws")
    verdicts: dict[str, dict[str, LawScores]] = {place: {} for place in judged}
    for name in names:
        own = [s for task, s in zip(tasks, scores, strict=True) if task.name == name]
        for place in judged if own else ():
            verdicts[place][name] = joined([s[place] for s in own if place in s])
    return label, remark, verdicts


def unfitted_laws(options: Options) -> dict[str, Calibration]:
    """The laws that need no fit, by name: those given, and the uncalibrated one."""
    laws: dict[str, Calibration] = {_RAW: replace(unpack(np.zeros(SIZE)), law=_RAW)}
    if options.calibration is not None:
        both = both_laws(options.calibration)
        laws[both.paper.law] = both.paper
        if both.ours.location is not None:
            laws[WITH_LOCATION] = both.ours
    return laws


def _fit(options: Options, name: str, pairs: Sequence[Exported]) -> Fit:
    located = name == WITH_LOCATION
    law = as_choice("law", "mixture" if located else name, LAW_NAMES)
    return Fit(exported=pairs, law=law, location=located, optimiser=options.optimiser)


def laws(study: Study) -> Outcome:
    """By matcher and kind of data, a line for each law."""
    printed: Lines = [
        ["EfficientLoFTR, paper", LAWS[name], *numbers, None]
        for name, numbers in BY_LAW.items()
    ]
    rows: list[Row] = []
    names = [*LAWS, WITH_LOCATION]
    for matcher in study.options.matchers:
        for data, part in study.by_truth().items():
            pairs = part.exported(matcher)
            parts = by_scene(part, data, pairs)
            label, remark, verdicts = judged_laws(part, matcher, parts, names)
            for scene, by_law in {**verdicts, data: pooled(verdicts.values())}.items():
                for name, scores in by_law.items():
                    numbers = scores.numbers()
                    about = f"{label}, {scene}", LAWS.get(name, name)
                    printed.append([*about, *numbers, len(scores.nll)])
                    row = dict(zip(_NUMBERS, numbers, strict=True))
                    rows.append({"matcher": matcher, "data": scene, "law": name, **row})
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


def by_scene(study: Study, name: str, pairs: Sequence[Exported]) -> Parts:
    """The pairs of one folder by scene, those of several folders together."""
    if len(study.options.data) > 1:
        return {name: pairs}
    parts: dict[str, list[Exported]] = {}
    for part, one in zip(parts_of([name] * len(pairs), pairs), pairs, strict=True):
        parts.setdefault(part, []).append(one)
    return parts


def pooled(parts: Iterable[Mapping[str, LawScores]]) -> dict[str, LawScores]:
    """The scores of each law on all parts together."""
    every = list(parts)
    return {name: joined([part[name] for part in every]) for name in every[0]}


def resolution(study: Study) -> Outcome:
    """NLL, ECE and rank correlation at each size, and reliability."""
    printed: Lines = []
    panels = []
    data, part = _chosen(study)
    extra = [name for name in unfitted_laws(study.options) if name != "uncalibrated"]
    names = list(dict.fromkeys([*_JUDGED, *extra]))
    for matcher in study.options.matchers:
        by_size = {_named(size): part.exported(matcher, size) for size in SIZES}
        scenes = {s: by_scene(part, s, pairs) for s, pairs in by_size.items()}
        every = {
            name: pairs for parts in scenes.values() for name, pairs in parts.items()
        }
        label, remark, verdicts = judged_laws(part, matcher, every, names, FITTED_AT)
        at_sizes = {
            size: pooled(verdicts[name] for name in parts)
            for size, parts in scenes.items()
        }
        for name, by_law in {**verdicts, **at_sizes}.items():
            printed += [[label, name, law, *_numbers(s)] for law, s in by_law.items()]
        for draw in (_density, _reliability):
            panels += [draw(f"{matcher}, {size}", at) for size, at in at_sizes.items()]
        count = len(next(iter(by_size.values())))
        study.note(f"{matcher}, {data}: judged on {count} pairs; {remark}.")
    table = Table(
        name="resolution",
        title="Resolution transfer of a law fitted at "
        f"{_named(study.options.calibration_size or FITTED_AT)}; the paper's: Fig. 5, "
        "without numbers",
        head=[
            "",
            "size, scene",
            "law",
            "NLL",
            "ECE",
            "rho",
            "mean E[e]",
            "mean e",
            "matches",
        ],
        rows=printed,
        digits=3,
    )
    return Outcome(tables=[table], figures={"resolution": panels})


def _chosen(study: Study) -> tuple[str, Study]:
    """One kind of data: with depth, as the paper's, if there is any."""
    parts = study.by_truth()
    data = "depth" if "depth" in parts else next(iter(parts))
    for other in (name for name in parts if name != data):
        study.note(f"Left out: {other}; give its folder alone to see it.")
    return data, parts[data]


def _named(size: Size) -> str:
    return f"{size[0]}x{size[1]}"


def _numbers(scores: LawScores) -> list[Cell]:
    """NLL, ECE, Spearman, mean expected and observed error, matches."""
    nll, *_, ece, rho = scores.numbers()
    means = float(scores.expected.mean()), float(scores.observed.mean())
    return [nll, ece, rho, *means, len(scores.nll)]


def _density(title: str, by_law: Mapping[str, LawScores]) -> Panel:
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


def _reliability(title: str, by_law: Mapping[str, LawScores]) -> Panel:
    """Observed over expected errors, a line for each law."""
    return Panel(
        title=f"{title}: reliability",
        xlabel="expected error, px",
        ylabel="observed error, px",
        lines={k: reliability(s.expected, s.observed)[:2] for k, s in by_law.items()},
        xscale="log",
        yscale="log",
        diagonal=True,
    )
