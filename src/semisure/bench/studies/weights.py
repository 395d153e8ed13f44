"""Table 3: homography AUC by the weight of the refit.

Two rows of the paper leave room for readings, which stand below them by name. What it
does with the raw fine standard deviation it does not say: ``fine-std`` is the density
of the residual by that alone, ``fine-std-inliers`` and ``fine-std-blind`` are 1/σ² of
the inliers and of all matches. ``core-guarded`` is ``core`` with no coarse scale below
the fine one.
"""

from __future__ import annotations

from semisure.bench.options import THRESHOLDS
from semisure.bench.outcome import Outcome, where
from semisure.bench.studies.homography import (
    HPATCHES_PAIRS,
    Lines,
    Numbers,
    auc_lines,
    auc_outcome,
    rows_of,
)
from semisure.bench.study import Study
from semisure.refit.weights import REFIT_METHODS, RefitMethod

# Tab. 3 (tab:ablation_refit): EfficientLoFTR, RANSAC, HPatches, 1, 3, 5, 10, 30 px.
BY_WEIGHT: dict[str, Numbers] = {
    "base": (29.14, 52.59, 64.17, 77.30, 89.27),
    "uniform": (19.36, 43.85, 54.46, 66.19, 78.86),
    "binary": (33.11, 56.87, 67.50, 79.55, 90.20),
    "huber": (32.80, 59.41, 69.93, 81.33, 90.72),
    "laplace-laplace": (34.66, 59.20, 69.56, 81.06, 90.89),
    "confidence": (25.07, 49.04, 59.22, 70.17, 81.35),
    "fine-std": (33.65, 59.47, 70.06, 81.60, 91.08),
    "core": (32.85, 60.50, 71.25, 82.44, 91.32),
}
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
    return [arm for name in BY_WEIGHT for arm in (name, *READINGS.get(name, ()))]


def weights(study: Study) -> Outcome:
    """A line for each weight and matcher, the paper's beside ours."""
    options = study.options
    rows, notes = rows_of(study, [options.estimator], REFIT_METHODS)
    largest = 30 if study.protocol == "hpatches" else 300
    at = (*THRESHOLDS[study.protocol], largest)
    printed: Lines = []
    for arm in arms():
        if arm in BY_WEIGHT and study.protocol == "hpatches":
            name = "EfficientLoFTR, paper"
            printed.append([name, arm, *BY_WEIGHT[arm], HPATCHES_PAIRS])
        for matcher in options.matchers:
            mine = where(rows, matcher=matcher)
            printed += auc_lines(study.label(matcher), mine, at, [arm])
    title = f"Homography AUC (%) by refit weight, {options.estimator}; paper: Tab. 3"
    return auc_outcome("weights", title, at, printed, rows, [*notes, NOTE])
