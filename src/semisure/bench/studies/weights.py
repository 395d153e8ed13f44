"""Table 3: homography AUC by the weight of the refit."""

from __future__ import annotations

from semisure.bench import paper
from semisure.bench.auc_tables import Lines, auc_outcome, our_row
from semisure.bench.options import THRESHOLDS
from semisure.bench.outcome import Outcome, where
from semisure.bench.pair_rows import rows_of
from semisure.bench.study import Study
from semisure.refit import REFIT_METHODS


def weights(study: Study) -> Outcome:
    """The paper's weights; core+, the last, is ours."""
    options = study.options
    methods = tuple(m for m in REFIT_METHODS if m != "core+")
    rows, notes = rows_of(study, [options.estimator], (*methods, "core+"))
    largest = 30 if study.protocol == "hpatches" else 300
    at = (*THRESHOLDS[study.protocol], largest)
    printed: Lines = []
    for arm in ("base", *(m for m in paper.BY_WEIGHT if m != "base"), "core+"):
        if arm in paper.BY_WEIGHT and study.protocol == "hpatches":
            numbers = paper.BY_WEIGHT[arm]
            pairs = paper.HPATCHES_PAIRS
            printed.append(["EfficientLoFTR, paper", arm, *numbers, pairs])
        for matcher in options.matchers:
            mine = where(rows, matcher=matcher)
            printed.append(our_row(matcher, arm, mine, at))
    title = f"Homography AUC (%) by refit weight, {options.estimator}; paper: Tab. 3"
    return auc_outcome("weights", title, at, printed, rows, notes)
