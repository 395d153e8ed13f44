"""A third component for what is said of matches: errors of a few pixels.

A fine Laplace is too thin for the errors of one to eight pixels that sure matches have
near depth edges and on slanted surfaces, and a coarse one is too wide. So where the
coarse cell was right, with chance 1 − α, the error is fine or middling:

    p(r) = (1 − α) [(1 − β) Lap(r | μ, sᶠ) + β Lap(r | μ, sᵐ)] + α Lap(r | μ, sᶜ)
    sᵐ   = sᶠ^q sᶜ^(1 − q),   logit β = c + k logit α

The functions of :mod:`semisure.mixture` take it as they take the paper's law. Refits do
not: theirs is the paper's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure.mixture import ErrorLaw, expit, softplus
from semisure.types import FloatArray, Index, PerAxis

Middle = tuple[float, float, float, float]  # `PairSpread.middle`


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MiddleLaw(ErrorLaw):
    """A law with a middle component; all arrays (n, 2).

    >>> import numpy as np
    >>> from semisure.mixture import expected_abs_error
    >>> one = np.ones((1, 2))
    >>> law = MiddleLaw(
    ...     one, 9 * one, np.log(0.25) * one, 0 * one,
    ...     middle_scale=3 * one, middle_logit=0 * one)
    >>> expected_abs_error(law).round(2)  # 0.8 (½ · 1 + ½ · 3) + 0.2 · 9
    array([3.4])
    """

    middle_scale: PerAxis  # sᵐ, px
    middle_logit: PerAxis  # logit β

    def parts(self) -> tuple[tuple[PerAxis, PerAxis], ...]:
        """Chance and scale of each component, from the finest."""
        alpha, beta = expit(self.tail_logit), expit(self.middle_logit)
        return (
            ((1.0 - alpha) * (1.0 - beta), self.fine_scale),
            ((1.0 - alpha) * beta, self.middle_scale),
            (alpha, self.coarse_scale),
        )

    def log_parts(self) -> tuple[tuple[PerAxis, PerAxis], ...]:
        """The same with the logarithms of the chances."""
        right = -softplus(self.tail_logit)
        return (
            (right - softplus(self.middle_logit), self.fine_scale),
            (right - softplus(-self.middle_logit), self.middle_scale),
            (-softplus(-self.tail_logit), self.coarse_scale),
        )

    def take(self, index: Index) -> MiddleLaw:
        """The laws of the matches that `index` picks."""
        return MiddleLaw(
            self.fine_scale[index],
            self.coarse_scale[index],
            self.tail_logit[index],
            self.location[index],
            self.family,
            middle_scale=self.middle_scale[index],
            middle_logit=self.middle_logit[index],
        )


def middle_of(
    fine: FloatArray, coarse: FloatArray, tail_logit: FloatArray, middle: Middle
) -> tuple[FloatArray, FloatArray]:
    """Scale of the middle component and the logit of its share of successes."""
    _, place, constant, slope = middle
    scale = coarse * np.exp(place * np.log(fine / coarse))  # fineᵖ coarse¹⁻ᵖ
    return scale, constant + slope * tail_logit
