"""What an epipolar line can tell of a match: the law of its error across the line.

The line with unit normal n holds the true point somewhere, no place more likely than
another. Integrating the law of the residual r along the line leaves the density of
n·r = n_x r_x + n_y r_y at the point's signed distance d. Where the coarse cell was
right on both axes, with prior chance (1 − α_x)(1 − α_y), this is the sum of two Laplace
variables with scales a ≥ b, the larger and the smaller of |n_x| sᶠ_x and |n_y| sᶠ_y:

    p(d | a, b) = e^{−|d|/a} / (2 (a + b)) · [1 + |d|/a · φ(δ)]
    δ = |d| (a − b) / (a b),   φ(δ) = (1 − e^{−δ}) / δ,   φ(0) = 1

which is (a e^{−|d|/a} − b e^{−|d|/b}) / (2 (a² − b²)) without its 0/0 at a = b.
Where a coarse cell was wrong, d is anything up to the image's diagonal. The mixture's
own coarse scales would say more, but failures of one pair err together and along its
structure: on real pairs their pull, small for each, led the pose astray.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure.errors import InputError
from semisure.law.mixture import LAPLACE, ErrorLaw, expit, rising_root
from semisure.refit.covariance import Scores, mean_slope
from semisure.types import Labels, PerAxis, PerMatch

BACKGROUND = 0.02  # least chance that a match says nothing at all


@dataclass(frozen=True, slots=True, eq=False)
class LineLaw:
    """The law of n distances: one peak and a constant."""

    major: PerMatch  # px, a
    minor: PerMatch  # px, b ≤ a
    share: PerMatch  # chance of the peak
    background: PerMatch  # density per px of all else
    shift: PerMatch  # px, n·μ

    def take(self, rows: Labels) -> LineLaw:
        """The law of some of the distances."""
        names = ("major", "minor", "share", "background", "shift")
        return LineLaw(*(getattr(self, name)[rows] for name in names))


def across(
    law: ErrorLaw, normal: PerAxis, floor_px: PerMatch, extent_px: PerMatch
) -> LineLaw:
    """The law across lines of unit `normal` (n, 2).

    `floor_px` is added to both scales in quadrature: how far cameras deviate from their
    model. `extent_px` is the width over which a failure may lie.
    """
    if law.family is not LAPLACE:
        raise InputError(
            "The law across an epipolar line is derived for Laplace components; use a "
            "calibration with another law than 'gaussian'."
        )
    scale = np.hypot(normal * law.fine_scale, floor_px[:, None])
    share = (1.0 - BACKGROUND) * expit(-law.tail_logit).prod(axis=1)
    return LineLaw(
        major=scale.max(axis=1),
        minor=scale.min(axis=1),
        share=share,
        background=(1.0 - share) / extent_px,
        shift=(normal * law.location).sum(axis=1),
    )


def _phi(delta: PerMatch) -> PerMatch:
    small = delta < 1e-8  # where 1 − δ/2 is exact to rounding
    safe = np.where(small, 1.0, delta)
    return np.where(small, 1.0 - 0.5 * delta, -np.expm1(-safe) / safe)


def across_quantile(law: ErrorLaw, normal: PerAxis, probability: float) -> PerMatch:
    """The distance across a line of unit `normal` that is exceeded by 1 − probability.

    Of matches whose coarse cell was right, without a location, px. The density above
    has the integral P(|d| > x) = e^{−x/a} [1 + x b φ(δ) / (a (a + b))].
    """
    scale = np.abs(normal) * law.fine_scale
    a = scale.max(axis=1)
    b = np.maximum(scale.min(axis=1), 1e-9 * a)

    def excess(x: PerMatch) -> PerMatch:
        phi = _phi(x * (a - b) / (a * b))
        beyond = np.exp(-x / a) * (1.0 + x * b * phi / (a * (a + b)))
        return 1.0 - probability - beyond

    return np.asarray(rising_root(excess, np.zeros_like(a), 60.0 * a, tolerance=1e-6))


def _peak(law: LineLaw, distance: PerMatch) -> tuple[PerMatch, PerMatch]:
    """Share times density, and share times −density'/d."""
    d, a, b = np.abs(distance - law.shift), law.major, law.minor
    phi = _phi(d * (a - b) / (a * b))
    height = law.share * np.exp(-d / a) / (2.0 * (a + b))
    return height * (1.0 + d / a * phi), height * phi / (a * b)


def log_density(law: LineLaw, distance: PerMatch) -> PerMatch:
    """log p(d), (n,) nats."""
    density, _ = _peak(law, distance)
    return np.log(density + law.background)


def pull(law: LineLaw, distance: PerMatch) -> PerMatch:
    """−p'(d) / (d p(d)), (n,) px⁻²: the factor of d² in the next weighted fit.

    A Laplace variable is a Gaussian of unknown variance and so is the sum of two: this
    is the expected precision given d, the E-step whose M-step is least squares.
    """
    density, slope = _peak(law, distance)
    return slope / (density + law.background)


def scores(law: LineLaw, distance: PerMatch) -> Scores:
    """The scores of distances, for a covariance; one axis.

    Slopes are by differences: the peak of two Laplace variables has no handy one.
    """
    weight, d, step = pull(law, distance), distance - law.shift, 1e-3 * law.minor
    ahead, behind = (pull(law, distance + h) * (d + h) for h in (step, -step))
    slope = mean_slope(weight[None], ((ahead - behind) / (2.0 * step))[None])
    size = np.sqrt(law.share) / np.hypot(law.major, law.minor)
    return Scores((weight * d)[None], slope, size[None])


def coarse_success(law: LineLaw, distance: PerMatch) -> PerMatch:
    """Posterior that both cells were right, (n,): all that d says of it."""
    density, _ = _peak(law, distance)
    return density / (density + law.background)
