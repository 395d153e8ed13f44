"""Our refit, for homographies and camera poses alike: weights, steps, acceptance.

Each axis of a match has the weight ω / (sᶠ √(r² + sᶠ²)), where

    ω = ω_x ω_y,   ω_d = 1 / (1 + odds),
    odds = α / (1 − α) · sᶠ / sᶜ · exp(energy(r, sᶠ) − energy(r, sᶜ)).

ω is the paper's posterior (:func:`semisure.law.mixture.coarse_success`). The rest is
the fine Laplace law's own robustness, 1 / (sᶠ |r|), rounded at zero for its curvature.
Steps of weighted least squares, each with weights by the residuals that the last one
left, are taken until further ones would no longer move the image.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from semisure.geometry.homography import far_not_undefined
from semisure.law.families import Family
from semisure.law.mixture import (
    ErrorLaw,
    coarse_success,
    expit,
    log_joint,
    log_sum,
    ordered,
)
from semisure.refit.core import outcome
from semisure.refit.covariance import Scores, mean_slope
from semisure.types import (
    Columns,
    FloatArray,
    Labels,
    Matches,
    Matrix,
    PerAxis,
    PerMatch,
    Refit,
    WorldMatches,
)

MAX_ITERATIONS = 50
TOLERANCE_PX = 1e-4  # all further steps together move corners and points by less
# A step of least squares covers about three quarters of the remaining way: weights fall
# as residuals grow, so the true curvature is below that of the weighted squares.
STRIDE = 4 / 3
# Arrays of this many matches stay in the processor's cache.
BLOCK_ROWS = 5000
# No scene is exactly a plane, no lens exactly a pinhole: below this share of the
# image's diagonal a match can be more precise than the model. Chosen on real pairs;
# where the homography is exact it costs a little.
MODEL_FLOOR = 4e-4
_ONE = np.ones(())


def blocks_of(rows: Labels) -> list[Labels]:
    """The rows in blocks of about equal length."""
    return np.array_split(rows, -(-len(rows) // BLOCK_ROWS)) if len(rows) else []


def floored(law: ErrorLaw, matches: Matches | WorldMatches) -> ErrorLaw:
    """The law with the model's own error added to the fine scale, in quadrature."""
    floor2 = MODEL_FLOOR**2 * (matches.refined_size**2).sum(axis=1)
    fine = law.fine_scale * law.fine_scale
    fine += np.asarray(floor2)[:, None]
    return ordered(replace(law, fine_scale=np.sqrt(fine, out=fine)))


@dataclass(frozen=True, slots=True, eq=False)
class Weighting:
    """The weights of some matches as a function of their residuals, both (2, n).

    What does not depend on residuals is computed once. In both families the energy is
    a rate, which depends on the scale only, times the energy at the scale 1.
    """

    family: Family
    steepness: Columns  # rateᶠ − rateᶜ
    log_odds: Columns  # at r = 0
    fine2: Columns  # (sᶠ)²

    @classmethod
    def of(cls, law: ErrorLaw, unit_px: float = 1.0) -> Weighting:
        """For residuals in units of `unit_px`; the law must have no location."""
        fine, coarse = law.fine_scale.T / unit_px, law.coarse_scale.T / unit_px
        energy = law.family.energy
        return cls(
            law.family,
            (energy(_ONE, fine) - energy(_ONE, coarse)) / energy(_ONE, _ONE),
            np.log(fine / coarse) + law.tail_logit.T,
            fine * fine,
        )

    def at(self, residual: Columns) -> Columns:
        """The weights; where the odds overflow, 0, which is their limit."""
        energy = self.family.energy(residual, _ONE)
        odds = 1.0 + np.exp(energy * self.steepness + self.log_odds)
        softened = (residual * residual + self.fine2) * self.fine2
        return 1.0 / (odds[0] * odds[1] * np.sqrt(softened))


def converged(
    start: FloatArray,
    stepped: Callable[[FloatArray], FloatArray | None],
    moved_px: Callable[[FloatArray, FloatArray], float],
) -> tuple[FloatArray | None, int]:
    """The model where `stepped` converges, and the number of steps.

    None where a step is not determined.
    """
    model, last, count = start, 0.0, 0
    with np.errstate(all="ignore"):
        while count < MAX_ITERATIONS:
            following = stepped(model)
            count += 1
            if following is None:
                return None, count
            moved = moved_px(model, following)
            model = following
            # Steps shrink by the same share each time: q = moved / last. All further
            # ones are moved (q + q² + …) = moved² / (last − moved).
            if moved * moved <= TOLERANCE_PX * (last - moved):
                break
            last = moved
    return model, count


def judged(law: ErrorLaw, residual: PerAxis) -> tuple[PerMatch, float]:
    """ω of each match, and the log likelihood of all, nats."""
    fine, coarse = log_joint(law, far_not_undefined(residual))
    success = expit(fine - coarse)
    return success[:, 0] * success[:, 1], float(log_sum(fine, coarse).sum())


def more_likely(
    start: FloatArray,
    model: FloatArray | None,
    law: ErrorLaw,
    residual: Callable[[FloatArray], PerAxis],
    *,
    covariance: Callable[..., Matrix | None],
    iterations: int,
    objection: str | None,
) -> Refit:
    """The model, unless there is an objection or the start is more likely.

    Weights, likelihood and covariance are those of whichever model is returned.
    """
    weight, before = judged(law, residual(start))
    after = before
    if objection is None and model is not None:
        own_weight, likelihood = judged(law, residual(model))
        if likelihood >= before:
            weight, after = own_weight, likelihood
        else:
            objection = "the refit was less likely than the initial model"
    returned = model if objection is None else start
    return outcome(
        "core+",
        start,
        model,
        weight,
        reason=objection,
        iterations=iterations,
        log_likelihood=(before, after),
        uncertainty=partial(covariance, returned),
    )


def scores(law: ErrorLaw, residual: PerAxis) -> Scores:
    """The scores that ``core+`` sets to zero, r times its weight, for a covariance.

    Slopes are by the same axis: with l = log odds, d log ω_d / d log |r| =
    −(1 − ω_d) dl / d log |r|.
    """
    r, fine = residual.T, law.fine_scale.T
    success = coarse_success(law, residual).T
    fall = law.family.energy(r, fine) - law.family.energy(r, law.coarse_scale.T)
    fall *= (1.0 - success) * law.family.power
    softened = r * r + fine * fine
    weight = success[0] * success[1] / (fine * np.sqrt(softened))
    slope = mean_slope(weight, weight * (fine * fine / softened - fall))
    right = np.sqrt(expit(-law.tail_logit.T).prod(axis=0))  # of both cells
    return Scores(weight * r, slope, right / fine)
