"""SupeRANSAC's homographies."""

from __future__ import annotations

from dataclasses import dataclass

from semisure.estimators import superansac_call
from semisure.estimators.settings import RansacSettings, outcome, too_few
from semisure.types import Estimate, PerMatch, Points


@dataclass(frozen=True, slots=True)
class SupeRansac:
    """PROSAC sampling by confidence, MAGSAC score, nested local optimisation."""

    settings: RansacSettings

    def __call__(
        self, source: Points, target: Points, confidence: PerMatch
    ) -> Estimate:
        lacking = too_few(len(source), "superansac")
        if lacking is not None:
            return lacking
        H = superansac_call.run(
            "estimateHomography", source, target, confidence, self.settings
        )
        return outcome(H, source, target, self.settings.threshold_px, "superansac")
