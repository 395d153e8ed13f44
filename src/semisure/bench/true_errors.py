"""True residuals of matches: from the homography, or from cameras and depth."""

from __future__ import annotations

from semisure.bench.exported import Exported
from semisure.datasets.depth_truth import depth_residual
from semisure.datasets.posed import PosedPair
from semisure.geometry.homography import true_residual
from semisure.types import Matches, PerAxis
from semisure.types.checks import within_px


def with_truth(exported: Exported) -> tuple[Matches, PerAxis]:
    """The matches with a finite true residual, and those residuals."""
    matches = exported.matches()
    r = residual_of(exported, matches)
    finite = within_px(r)
    return matches.take(finite), r[finite]


def residual_of(exported: Exported, matches: Matches) -> PerAxis:
    """True residuals, px, of any matches of the pair; NaN where unknown."""
    if isinstance(exported.truth, PosedPair):
        return depth_residual(exported.truth, matches)
    return true_residual(exported.H_01, matches)
