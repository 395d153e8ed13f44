"""A row for each matcher, estimator and pair with a homography."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from semisure.bench.arms import CORE_ARMS
from semisure.bench.corner_errors import PairTask, evaluate
from semisure.bench.study import Study
from semisure.refit.weights import RefitMethod


def rows_of(
    study: Study,
    estimators: Iterable[str],
    methods: tuple[RefitMethod, ...] = CORE_ARMS,
    function: Callable[[PairTask], dict[str, Any]] = evaluate,
    *,
    kept: bool = True,
) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows, and for each matcher where its calibrations are from.

    Rows that hold arrays or times are not `kept` for another run.
    """
    names, remarks = tuple(estimators), []
    tasks: list[PairTask] = []
    for matcher in study.options.matchers:
        exported = study.exported(matcher)
        calibrations, remark = study.calibrations(matcher, exported)
        remarks.append(remark)
        tasks += [
            PairTask(
                exported=pair,
                calibrations=both,
                matcher=matcher,
                estimator=name,
                settings=study.options.ransac(),
                methods=methods,
            )
            for name in names
            for pair, both in zip(exported, calibrations, strict=True)
        ]
    over = study.rows if kept else study.map
    return over(function, tasks, "Estimating"), remarks
