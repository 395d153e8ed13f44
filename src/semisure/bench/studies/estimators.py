"""Table 4: homography AUC before and after the refit, by robust estimator."""

from __future__ import annotations

from semisure.bench.options import THRESHOLDS
from semisure.bench.outcome import Outcome, where
from semisure.bench.studies.homography import (
    HPATCHES_PAIRS,
    Lines,
    Numbers,
    auc_lines,
    auc_outcome,
    gain_lines,
    paper_lines,
    rows_of,
)
from semisure.bench.study import Study
from semisure.estimators import PAPER_ESTIMATORS

# Tab. 4 (tab:homography_estimators): EfficientLoFTR on HPatches, 1, 3, 5, 10 px.
BY_ESTIMATOR: dict[str, tuple[Numbers, Numbers]] = {
    "ransac": ((29.14, 52.59, 64.17, 77.30), (32.68, 60.43, 71.24, 82.45)),
    "lo-ransac": ((33.89, 58.82, 69.85, 81.30), (32.73, 60.69, 71.56, 82.77)),
    "prosac": ((33.76, 57.82, 67.98, 79.41), (32.78, 60.46, 71.11, 82.09)),
    "gc-ransac": ((33.99, 59.08, 69.97, 81.45), (32.85, 60.86, 71.80, 82.89)),
    "magsac++": ((32.39, 60.24, 71.34, 82.46), (32.69, 61.03, 71.97, 82.86)),
}


def estimators(study: Study) -> Outcome:
    """The paper's five estimators, each on the matches of every matcher."""
    rows, notes = rows_of(study, PAPER_ESTIMATORS)
    at = THRESHOLDS[study.protocol]
    printed: Lines = []
    gained: Lines = []
    for name in PAPER_ESTIMATORS:
        if study.protocol == "hpatches":
            label = f"{name.upper()}, paper (EfficientLoFTR)"
            printed += paper_lines(label, BY_ESTIMATOR[name], HPATCHES_PAIRS)
        for matcher in study.options.matchers:
            mine = where(rows, estimator=name, matcher=matcher)
            label = f"{name}, {study.label(matcher)}"
            printed += auc_lines(label, mine, at)
            gained += gain_lines(label, mine, at, study.options.seed)
    title = "Homography AUC (%) by robust estimator; the paper's: Tab. 4"
    return auc_outcome("estimators", title, at, printed, rows, notes, gained)
