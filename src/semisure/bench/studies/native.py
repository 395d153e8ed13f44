"""Supplement B.5: how well an uncertainty singles out a matcher's large errors.

Each matcher is judged on its own matches: AUROC of the event that the true error ‖r‖₂
exceeds 8, 32, 64 or 128 px, and how often it does, at 1184 × 896 px. Beside the
expected error stands what a matcher says itself: its confidence, its fine and coarse
spread. Other matchers take part by files (``--native "RoMa v2=FOLDER"``), whose layout
:mod:`semisure.bench.native_files` describes; of more than 8,500 matches of a pair,
8,500 are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from semisure.bench import paper
from semisure.bench.exported import Exported
from semisure.bench.outcome import Cell, Outcome, Panel, Table
from semisure.bench.study import Study
from semisure.bench.uncertainties import (
    Judged,
    NativeTask,
    OwnTask,
    evaluate,
    evaluate_native,
)
from semisure.metrics import auroc
from semisure.types import PerMatch, Vector


@dataclass(frozen=True, slots=True)
class _Tally:
    """Lines of the table, rows of pairs and panels, matcher by matcher."""

    printed: list[list[Cell]] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    panels: list[Panel] = field(default_factory=list)

    def add(
        self, name: str, exported: Sequence[Exported], judged: Sequence[Judged]
    ) -> None:
        """A line and a curve for each uncertainty of a matcher, a row for each pair."""
        errors = np.concatenate([one.errors for one in judged])
        lines = {}
        for score in judged[0].scores:
            values = np.concatenate([one.scores[score] for one in judged])
            areas = [100.0 * auroc(values, errors > t) for t in paper.NATIVE_PX]
            self.printed.append([name, score, *areas, len(errors)])
            lines[score] = np.array(areas)
        rates = [100.0 * float(np.mean(errors > t)) for t in paper.NATIVE_PX]
        self.printed.append([name, "errors", *rates, len(errors)])
        self.panels.append(_panel(name, lines))
        self.rows.extend(
            _row(name, pair, one.errors)
            for pair, one in zip(exported, judged, strict=True)
        )


def native(study: Study) -> Outcome:
    """The table by matcher and uncertainty, and AUROC over the thresholds."""
    options = study.options
    size = options.size or paper.NATIVE_SIZE
    tally, notes = _Tally(), []
    for name, numbers in paper.NATIVE.items():
        tally.printed.append([f"{name}, paper", "AUROC", *numbers[0], None])
        tally.printed.append([f"{name}, paper", "errors", *numbers[1], None])
    exported: Sequence[Exported] = ()
    for matcher in options.matchers:
        exported = study.exported(matcher, size)
        calibrations, remark = study.calibrations(matcher, exported)
        own = [OwnTask(*pair) for pair in zip(exported, calibrations, strict=True)]
        judged = study.map(evaluate, own, f"Errors, {matcher}")
        tally.add(study.label(matcher), exported, judged)
        notes.append(remark)
    for name, folder in options.native.items():
        tasks = [
            NativeTask(pair, folder / f"{pair.name}.npz", options.seed + k)
            for k, pair in enumerate(exported)
        ]
        others = study.map(evaluate_native, tasks, f"Errors, {name}")
        tally.add(name, exported, others)
    if not options.native:
        notes.append(
            "No other matcher's uncertainties were given: --native NAME=FOLDER."
        )
    table = Table(
        name="native",
        title=f"Large errors at {size[0]} × {size[1]}: AUROC (%) of an uncertainty, "
        "and their share (%); the paper's: supplement B.5, HPatches",
        head=["", "", *(f">{t}px" for t in paper.NATIVE_PX), "matches"],
        rows=tally.printed,
    )
    figures = {"native": tally.panels}
    return Outcome(tables=[table], rows=tally.rows, figures=figures, notes=notes)


def _row(name: str, pair: Exported, errors: PerMatch) -> dict[str, Any]:
    shares = {f"share >{t}px": _share(errors, t) for t in paper.NATIVE_PX}
    return {"matcher": name, "pair": pair.name, "matches": len(errors), **shares}


def _share(errors: PerMatch, threshold: float) -> float | None:
    return float(np.mean(errors > threshold)) if len(errors) else None


def _panel(name: str, lines: Mapping[str, Vector]) -> Panel:
    x = np.array(paper.NATIVE_PX, dtype=np.float64)
    return Panel(
        title=name,
        xlabel="true error above, px",
        ylabel="AUROC, %",
        xscale="log",
        lines={label: (x, y) for label, y in lines.items()},
    )
