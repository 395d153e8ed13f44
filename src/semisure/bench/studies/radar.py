"""Figure 1: AUC at 3 px before and after the refit, by matcher and by estimator.

The matchers after one estimator, and the five estimators on the first matcher's
matches; the paper's two below ours. Fewer than three spokes make no radar but bars.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from semisure.bench.calibrations import CORE_ARMS
from semisure.bench.options import THRESHOLDS
from semisure.bench.outcome import Cell, Outcome, Panel, Table, where
from semisure.bench.studies.estimators import BY_ESTIMATOR
from semisure.bench.studies.homography import (
    HPATCHES,
    MATCHERS,
    MTV,
    Numbers,
    rows_of,
)
from semisure.bench.study import Study
from semisure.estimators import PAPER_ESTIMATORS
from semisure.io.cache import Row
from semisure.metrics import auc

ARMS = ("base", *CORE_ARMS)
MIN_SPOKES = 3


def radar(study: Study) -> Outcome:
    """Both panels of the figure, and the paper's two beside them."""
    options = study.options
    at = THRESHOLDS[study.protocol][1]
    names = dict.fromkeys([options.estimator, *PAPER_ESTIMATORS])
    rows, notes = rows_of(study, names)
    first = options.matchers[0]
    by_matcher = {
        study.label(matcher): _areas(rows, matcher, options.estimator, at)
        for matcher in options.matchers
    }
    by_estimator = {name: _areas(rows, first, name, at) for name in PAPER_ESTIMATORS}
    table_1 = HPATCHES if study.protocol == "hpatches" else MTV
    published = {MATCHERS[m]: _published(row) for m, row in table_1.items()}
    panels = [
        _panel(f"ours, {options.estimator}", by_matcher),
        _panel(f"ours, {study.label(first)}", by_estimator),
        _panel("paper, RANSAC", published),
    ]
    printed = [
        *_printed(f"ours, {options.estimator}", by_matcher),
        *_printed("paper, RANSAC", published),
        *_printed(f"ours, {study.label(first)}", by_estimator),
    ]
    if study.protocol == "hpatches":
        theirs = {name.upper(): _published(row) for name, row in BY_ESTIMATOR.items()}
        panels.append(_panel("paper, EfficientLoFTR", theirs))
        printed += _printed("paper, EfficientLoFTR", theirs)
    table = Table(
        name="radar",
        title=f"AUC (%) at {at} px before and after; the paper's: Fig. 1",
        head=["", "spoke", *ARMS],
        rows=printed,
    )
    return Outcome(
        tables=[table],
        rows=rows,
        figures={"radar": panels},
        columns={"radar": 2},
        notes=notes,
    )


def _areas(
    rows: Sequence[Row], matcher: str, estimator: str, at: int
) -> dict[str, float]:
    mine = where(rows, matcher=matcher, estimator=estimator)
    return {arm: 100.0 * auc([row[arm] for row in mine], [at])[0] for arm in ARMS}


def _published(numbers: tuple[Numbers, Numbers]) -> dict[str, float]:
    """The paper's AUC at its second threshold, 3 px on HPatches, 30 px on MTV."""
    return {"base": numbers[0][1], "core": numbers[1][1]}


def _panel(title: str, spokes: dict[str, dict[str, float]]) -> Panel:
    names, arms = list(spokes), next(iter(spokes.values()))
    lines = {
        arm: (names, np.array([values[arm] for values in spokes.values()]))
        for arm in arms
    }
    radar = len(names) >= MIN_SPOKES
    return Panel(title=title, ylabel="AUC, %", lines=lines, radar=radar)


def _printed(name: str, spokes: dict[str, dict[str, float]]) -> list[list[Cell]]:
    return [
        [name, spoke, *(values.get(arm) for arm in ARMS)]
        for spoke, values in spokes.items()
    ]
