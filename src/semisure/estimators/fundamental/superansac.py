"""SupeRANSAC's fundamental matrices."""

from __future__ import annotations

from semisure.estimators import superansac_call
from semisure.estimators.settings import RansacSettings
from semisure.types import Matches, Matrix3


def estimate(matches: Matches, name: str, settings: RansacSettings) -> Matrix3 | None:
    """F by SupeRANSAC, or None."""
    return superansac_call.run(
        "estimateFundamentalMatrix",
        matches.source,
        matches.target,
        matches.confidence,
        settings,
    )
