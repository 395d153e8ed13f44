"""The test of a law on pairs without truth, which judges errors across lines only.

One half of a pair's matches gives its geometry and the pair's effects; the distances of
the other half from their lines are compared with what the law, so adapted, says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from semisure import metrics
from semisure.calibrate.by_lines import LEAST_DENSITY, Distances
from semisure.calibrate.found_pairs import FoundPair
from semisure.calibrate.held_out import TAIL_PX, Trust
from semisure.calibrate.scenes import ScenePair, pair_effects
from semisure.errors import InputError
from semisure.law.error_laws import error_law
from semisure.law.mixture import ErrorLaw, tail_prob
from semisure.refit.line_law import two_laplace, two_laplace_beyond
from semisure.refit.pair_effects import with_effects
from semisure.types import Calibration, FloatArray, Mask, PerMatch


class LineTrust(Trust):
    """How a calibration did across the lines of pairs that it was not fitted to."""

    __slots__ = ()

    def verdict(self) -> str:
        """One sentence for people, and what it does not say."""
        return (
            f"Across epipolar lines {100 * self.inside_50:.0f} % of {self.matches:,} "
            "held-out matches are inside their 50 % interval and "
            f"{100 * self.inside_90:.0f} % inside their 90 % interval; predicted "
            f"{100 * self.expected_beyond:.1f} % beyond {TAIL_PX:.0f} px, observed "
            f"{100 * self.observed_beyond:.1f} %. Without truth, errors along the "
            "lines cannot be judged."
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Mixture:
    """The law of each distance: four sums of two Laplace variables."""

    chances: FloatArray  # (4, n)
    first: FloatArray  # (4, n) px
    second: FloatArray  # (4, n) px

    @classmethod
    def of(cls, law: ErrorLaw, rows: Distances) -> _Mixture:
        tail, n = tail_prob(law), np.abs(rows.normal)
        chance = np.stack([1.0 - tail, tail])
        # The pair's effects were found against the same geometry and hold its error.
        scale = np.stack([n * law.fine_scale, n * law.coarse_scale])
        both = [(i, j) for i in (0, 1) for j in (0, 1)]
        return cls(
            np.stack([chance[i, :, 0] * chance[j, :, 1] for i, j in both]),
            np.stack([scale[i, :, 0] for i, _ in both]),
            np.stack([scale[j, :, 1] for _, j in both]),
        )

    def beyond(self, distance: PerMatch) -> PerMatch:
        tails = two_laplace_beyond(distance, self.first, self.second)
        return (self.chances * tails).sum(axis=0)

    def mean_abs(self) -> PerMatch:
        a, b = self.first, self.second  # E|A + B| = (a² + ab + b²) / (a + b)
        return (self.chances * ((a * a + a * b + b * b) / (a + b))).sum(axis=0)

    def log_density(self, distance: PerMatch) -> PerMatch:
        density = (self.chances * two_laplace(distance, self.first, self.second)).sum(0)
        return np.log(density + LEAST_DENSITY)


def trial_across(pairs: Sequence[FoundPair], calibration: Calibration) -> LineTrust:
    """How well `calibration` predicts the distances of the pairs' matches."""
    parts = []
    for pair in pairs:
        for judged, rows in pair.halves(calibration):
            parts.append(_judged(pair, judged, rows, calibration))
    if not parts:
        raise InputError(
            "None of the held-out pairs has a geometry to be judged by; use more pairs."
        )
    inside, beyond, expected, observed, log_density = (
        np.concatenate(values) for values in zip(*parts, strict=True)
    )
    return LineTrust(
        matches=len(observed),
        pairs=len(pairs),
        expected_px=float(expected.mean()),
        observed_px=float(observed.mean()),
        expected_beyond=float(beyond.mean()),
        observed_beyond=float((observed > TAIL_PX).mean()),
        nll=-float(log_density.mean()),
        ece_px=metrics.expected_calibration_error(expected, observed),
        spearman=metrics.spearman(expected, observed),
        inside_50=float((inside < 0.5).mean()),
        inside_90=float((inside < 0.9).mean()),
        expected=expected,
        observed=observed,
    )


def _judged(
    pair: FoundPair, judged: Mask, rows: Distances, calibration: Calibration
) -> tuple[PerMatch, ...]:
    """P(|D| ≤ |d|), P(|D| > 8 px), E|D|, |d| and log p of each distance."""
    seen = pair.scene_pair(calibration)
    others = ScenePair(
        matches=seen.matches.take(~judged),
        residual=seen.residual[~judged],
        F_01=seen.F_01,
    )
    effects = pair_effects(others, calibration)
    law = error_law(seen.matches.take(judged), calibration)
    law = with_effects(law, effects)
    # A plane gives two distances for each match.
    law = law.take(np.arange(len(rows)) % len(law))
    mixed = _Mixture.of(law, rows)
    observed = np.abs(rows.distance)
    return (
        1.0 - mixed.beyond(observed),
        mixed.beyond(np.full(len(rows), TAIL_PX)),
        mixed.mean_abs(),
        observed,
        mixed.log_density(observed),
    )
