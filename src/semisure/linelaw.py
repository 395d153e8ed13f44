"""What an epipolar line can tell of a match: the law of its error across the line.

The line with unit normal n holds the true point somewhere, no place more likely than
another. Integrating the law of the residual r along the line leaves the density of
n·r = n_x r_x + n_y r_y at the point's signed distance d. Per axis r_d is a mixture of
two Laplace laws, so n·r is a mixture of four, each the sum of two Laplace variables
with scales a ≥ b, the larger and the smaller of |n_x| s_x and |n_y| s_y:

    p(d | a, b) = e^{−|d|/a} / (2 (a + b)) · [1 + |d|/a · φ(δ)]
    δ = |d| (a − b) / (a b),   φ(δ) = (1 − e^{−δ}) / δ,   φ(0) = 1

which is (a e^{−|d|/a} − b e^{−|d|/b}) / (2 (a² − b²)) without its 0/0 at a = b.
A match may also be none at all: with chance BACKGROUND its distance is anything up to
the image's diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure.errors import InputError
from semisure.mixture import LAPLACE, ErrorLaw, expit
from semisure.types import FloatArray

BACKGROUND = 0.02  # chance of a match that no law of small errors describes


@dataclass(frozen=True, slots=True, eq=False)
class LineLaw:
    """The law of n distances: four components and a constant."""

    major: FloatArray  # (n, 4) px, a
    minor: FloatArray  # (n, 4) px, b ≤ a
    share: FloatArray  # (n, 4): both axes fine, x coarse, y coarse, both coarse
    background: FloatArray  # (n,) density, per px
    shift: FloatArray  # (n,) px, n·μ


def across(
    law: ErrorLaw, normal: FloatArray, floor_px: FloatArray, extent_px: FloatArray
) -> LineLaw:
    """The law across lines of unit `normal` (n, 2).

    `floor_px` is added to both scales in quadrature: what the cameras do not hold to.
    """
    if law.family is not LAPLACE:
        raise InputError(
            "The law across an epipolar line is derived for Laplace components; use a "
            "calibration with another law than 'gaussian'."
        )
    reach = np.abs(normal)
    fine = np.hypot(reach * law.fine_scale, floor_px[:, None])
    coarse = np.hypot(reach * law.coarse_scale, floor_px[:, None])
    coarse = np.maximum(coarse, fine)
    x = np.stack([fine[:, 0], coarse[:, 0], fine[:, 0], coarse[:, 0]], axis=1)
    y = np.stack([fine[:, 1], fine[:, 1], coarse[:, 1], coarse[:, 1]], axis=1)
    tail, body = expit(law.tail_logit), expit(-law.tail_logit)
    x_share = np.stack([body[:, 0], tail[:, 0]] * 2, axis=1)
    y_share = np.repeat(np.stack([body[:, 1], tail[:, 1]], axis=1), 2, axis=1)
    return LineLaw(
        major=np.maximum(x, y),
        minor=np.minimum(x, y),
        share=(1.0 - BACKGROUND) * x_share * y_share,
        background=BACKGROUND / (2.0 * extent_px),
        shift=(normal * law.location).sum(axis=1),
    )


def _phi(delta: FloatArray) -> FloatArray:
    small = delta < 1e-8  # where 1 − δ/2 is exact to rounding
    safe = np.where(small, 1.0, delta)
    return np.where(small, 1.0 - 0.5 * delta, -np.expm1(-safe) / safe)


def _components(law: LineLaw, distance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Share times density, and share times −density'/d, of each component."""
    d, a, b = np.abs(distance - law.shift)[:, None], law.major, law.minor
    phi = _phi(d * (a - b) / (a * b))
    height = law.share * np.exp(-d / a) / (2.0 * (a + b))
    return height * (1.0 + d / a * phi), height * phi / (a * b)


def log_density(law: LineLaw, distance: FloatArray) -> FloatArray:
    """log p(d), (n,) nats."""
    density, _ = _components(law, distance)
    return np.log(density.sum(axis=1) + law.background)


def pull(law: LineLaw, distance: FloatArray) -> FloatArray:
    """−p'(d) / (d p(d)), (n,) px⁻²: the factor of d² in the next weighted fit.

    Each Laplace is a Gaussian of unknown variance and so is each sum of two: this is
    the expected precision given d, the E-step whose M-step is least squares.
    """
    density, slope = _components(law, distance)
    return slope.sum(axis=1) / (density.sum(axis=1) + law.background)


def fine_share(law: LineLaw, distance: FloatArray) -> FloatArray:
    """Posterior that both axes were fine, (n,): all that d says of coarse success."""
    density, _ = _components(law, distance)
    return density[:, 0] / (density.sum(axis=1) + law.background)
