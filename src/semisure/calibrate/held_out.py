"""The test of a calibration on matches that it was not fitted to."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from semisure import metrics
from semisure.law import mixture
from semisure.law.observations import Observations
from semisure.law.pair_law import predictive_law
from semisure.types import Calibration, PerMatch

TAIL_PX = 8.0  # an error beyond one coarse cell
# Between the errors that a law predicts and those observed, on average.
MAX_RATIO = 2.0


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Trust:
    """How a calibration did on matches that it was not fitted to."""

    matches: int
    pairs: int
    expected_px: float
    observed_px: float
    expected_beyond: float  # share of axes off by more than TAIL_PX
    observed_beyond: float
    nll: float
    ece_px: float
    spearman: float
    inside_50: float  # share of axes in the central interval of 50 %
    inside_90: float
    expected: PerMatch  # px, for a reliability plot
    observed: PerMatch  # px

    @property
    def trusted(self) -> bool:
        """False if expected and observed mean errors differ by over MAX_RATIO."""
        low, high = sorted((self.expected_px, self.observed_px))
        return high <= MAX_RATIO * low

    def __repr__(self) -> str:
        return f"Trust({self.verdict()})"

    def document(self) -> dict[str, float | int | bool]:
        """What a calibration keeps of its trial, so that later commands can warn."""
        return {
            "pairs": self.pairs,
            "matches": self.matches,
            "expected_px": self.expected_px,
            "observed_px": self.observed_px,
            "inside_90": self.inside_90,
            "trusted": self.trusted,
        }

    def verdict(self) -> str:
        """One sentence for people."""
        return (
            f"Predicted {self.expected_px:.2f} px, observed {self.observed_px:.2f} px "
            f"on {self.matches:,} held-out matches; predicted "
            f"{100 * self.expected_beyond:.1f} % beyond {TAIL_PX:.0f} px, observed "
            f"{100 * self.observed_beyond:.1f} %."
        )


def tried(calibration: Calibration, trust: Trust) -> Calibration:
    """The calibration with its trial beside its origin."""
    provenance = {**calibration.provenance, "trial": trust.document()}
    return replace(calibration, provenance=provenance)


def trial(observations: Observations, calibration: Calibration) -> Trust:
    """How well `calibration` predicts the errors of `observations`."""
    law = predictive_law(observations, calibration)
    expected = mixture.expected_abs_error(law)
    errors = np.abs(observations.residual)
    observed = errors.mean(axis=1)
    central = np.abs(2.0 * mixture.cdf(law, observations.residual) - 1.0)
    return Trust(
        matches=len(observations),
        pairs=len(np.unique(observations.pair)),
        expected_px=float(expected.mean()),
        observed_px=float(observed.mean()),
        expected_beyond=float(mixture.prob_beyond(law, TAIL_PX).mean()),
        observed_beyond=float((errors > TAIL_PX).mean()),
        nll=-float(mixture.log_density(law, observations.residual).mean()),
        inside_50=float((central < 0.5).mean()),
        inside_90=float((central < 0.9).mean()),
        ece_px=metrics.expected_calibration_error(expected, observed),
        spearman=metrics.spearman(expected, observed),
        expected=expected,
        observed=observed,
    )
