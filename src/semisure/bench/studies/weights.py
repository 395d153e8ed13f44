"""Table 3: homography AUC by the weight of the refit.

Two rows of the paper leave room for readings, which stand below them by name. What it
does with the raw fine standard deviation it does not say: ``fine-std`` is the density
of the residual by that alone, ``fine-std-inliers`` and ``fine-std-blind`` are 1/σ² of
the inliers and of all matches. ``core-guarded`` is ``core`` with no coarse scale below
the fine one.
"""

from __future__ import annotations

from semisure.bench import paper
from semisure.bench.auc_tables import Lines, auc_outcome, our_row
from semisure.bench.options import THRESHOLDS
from semisure.bench.outcome import Outcome, where
from semisure.bench.pair_rows import rows_of
from semisure.bench.study import Study
from semisure.refit.weights import REFIT_METHODS, RefitMethod

READINGS: dict[str, tuple[RefitMethod, ...]] = {
    "fine-std": ("fine-std-inliers", "fine-std-blind"),
    "core": ("core-guarded", "core+"),
}
NOTE = (
    "fine-std: the paper does not say how the raw fine std becomes a weight. In its "
    "row stands the density of the residual, Laplace of that std; fine-std-inliers is "
    "1/σ² of inliers, fine-std-blind 1/σ² of all matches, which cannot give a row "
    "above the base. core-guarded holds coarse scales at or above the fine ones."
)


def arms() -> list[str]:
    """The paper's weights, each followed by its other readings and by what is ours."""
    return [arm for name in paper.BY_WEIGHT for arm in (name, *READINGS.get(name, ()))]


def weights(study: Study) -> Outcome:
    """A line for each weight and matcher, the paper's beside ours."""
    options = study.options
    rows, notes = rows_of(study, [options.estimator], REFIT_METHODS)
    largest = 30 if study.protocol == "hpatches" else 300
    at = (*THRESHOLDS[study.protocol], largest)
    printed: Lines = []
    for arm in arms():
        if arm in paper.BY_WEIGHT and study.protocol == "hpatches":
            numbers = paper.BY_WEIGHT[arm]
            pairs = paper.HPATCHES_PAIRS
            printed.append(["EfficientLoFTR, paper", arm, *numbers, pairs])
        for matcher in options.matchers:
            mine = where(rows, matcher=matcher)
            printed.append(our_row(study.label(matcher), arm, mine, at))
    title = f"Homography AUC (%) by refit weight, {options.estimator}; paper: Tab. 3"
    return auc_outcome("weights", title, at, printed, rows, [*notes, NOTE])
