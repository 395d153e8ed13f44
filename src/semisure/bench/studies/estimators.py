"""Table 4: homography AUC before and after the refit, by robust estimator."""

from __future__ import annotations

from semisure.bench import paper
from semisure.bench.auc_tables import (
    Lines,
    auc_outcome,
    gain_rows,
    our_rows,
    paper_rows,
)
from semisure.bench.options import THRESHOLDS
from semisure.bench.outcome import Outcome, where
from semisure.bench.pair_rows import rows_of
from semisure.bench.study import Study
from semisure.estimators import PAPER_ESTIMATORS


def estimators(study: Study) -> Outcome:
    """The paper's five estimators, each on the matches of every matcher."""
    rows, notes = rows_of(study, PAPER_ESTIMATORS)
    at = THRESHOLDS[study.protocol]
    printed: Lines = []
    gained: Lines = []
    for name in PAPER_ESTIMATORS:
        if study.protocol == "hpatches":
            label = f"{paper.ESTIMATORS[name]}, paper (EfficientLoFTR)"
            numbers = paper.BY_ESTIMATOR[name]
            printed += paper_rows(label, numbers, paper.HPATCHES_PAIRS)
        for matcher in study.options.matchers:
            mine = where(rows, estimator=name, matcher=matcher)
            label = f"{name}, {study.label(matcher)}"
            printed += our_rows(label, mine, at)
            gained += gain_rows(label, mine, at, study.options.seed)
    title = "Homography AUC (%) by robust estimator; the paper's: Tab. 4"
    return auc_outcome("estimators", title, at, printed, rows, notes, gained)
