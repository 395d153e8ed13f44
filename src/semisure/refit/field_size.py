"""How large a smooth field is, and its lenses are, given what residuals say of it.

Coefficients c of waves and lenses have normal priors: waves of variance τ², lenses of
τ² λ². What is heard of them is a likelihood exp(hᵀc − ½ cᵀFc). Sizes τ and λ are
unknown: each of a grid is tried, and what c would then be is weighed by its evidence.

Given τ the waves are marginalised in the basis in which their part of F is diagonal;
what is left for the lenses, at most two, is a 2 × 2 matrix at each τ and λ.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from semisure.types import FloatArray, Matrix, Vector

LENSES = np.geomspace(0.5, 80.0, 6)  # how many times larger or smaller it may be
# The prior of τ in diagonals: its median, the standard deviation of its logarithm, and
# the sizes that are tried: the least, the largest, and how many.
USUAL, SPREAD = 3e-5, 1.2
LEAST, MOST, TRIED = 3e-6, 0.03, 24
# A lens that is known leaves no chance: a Gaussian error whose mean size is |c| has a
# standard deviation of √(π/2) |c|.
KNOWN = np.sqrt(0.5 * np.pi)
NOTHING = 1e-150  # stands for a standard deviation of 0 where one is divided by


@lru_cache(maxsize=8)
def _sizes(most: float, extent_px: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """τ² of the sizes that are tried, (k, 1), τ²λ², (k, l), and 2 log prior, (k, 1)."""
    sizes = np.geomspace(LEAST, most, TRIED)[:, None]
    tau2 = (sizes * extent_px) ** 2
    return tau2, tau2 * LENSES**2, -((np.log(sizes / USUAL) / SPREAD) ** 2)


def posterior_moment(
    F: Matrix, h: Vector, lenses: int, extent_px: float, most: float = MOST
) -> Matrix:
    """E[c cᵀ] over the sizes of the field and of its lenses, the last one or two.

    `F` and `h` are the likelihood's, `extent_px` is the image's diagonal, and `most`
    the largest τ in diagonals. A lens' mean is taken :data:`KNOWN` times larger.

    >>> heard = posterior_moment(np.eye(3), np.zeros(3), 2, 1000.0)
    >>> bool(np.linalg.eigvalsh(heard)[0] > 0)
    True
    """
    w = len(F) - lenses
    gain2, V = np.linalg.eigh(F[:w, :w])
    # What joins all to the lenses, beside what is heard; 0 of a lens that there is not.
    beside = np.zeros((w + 3, 3))
    beside[: len(F), :lenses], beside[: len(F), 2] = F[:, w:], h
    joint, own = V.T @ beside[:w], beside[w:]
    tau2, s, log_prior = _sizes(most, extent_px)
    # Variances of the waves given τ and the lenses, and what the lenses hear then.
    spread = tau2 * np.maximum(gain2, 0.0)
    spread += 1.0
    d = tau2 / spread
    heard = own.ravel() - d @ (joint[:, :, None] * joint[:, None]).reshape(w, 9)
    log_prior = log_prior - np.log(spread).sum(axis=1, keepdims=True)
    columns, at_tau = _of_lenses(heard, s, log_prior)
    # Waves follow the lenses by −d · joint.
    both = np.empty((w + 2, *columns.shape[1:]))
    follow = (joint @ columns.reshape(3, -1)).reshape(w, *columns.shape[1:])
    np.multiply(follow, d.T[:, :, None], out=both[:w])
    np.multiply(columns[:2], _AS_LENSES, out=both[w:])
    both = both.reshape(w + 2, -1)
    moment = both @ both.T
    moment.reshape(-1)[: w * (w + 3) : w + 3] += at_tau @ d
    moment /= at_tau.sum()
    moment = moment[: w + lenses, : w + lenses]
    moment[:w] = V @ moment[:w]
    moment[:, :w] = moment[:, :w] @ V.T
    return moment


def _of_lenses(
    heard: FloatArray, s: FloatArray, log_prior: FloatArray
) -> tuple[FloatArray, Vector]:
    """The lenses' E[c cᵀ] as a sum over columns, (3, k, l + 2), and the weights of τ.

    At each τ the columns are the lenses' means, by the root of their weight, and two
    roots of what the lenses vary by. The third row is −1 by that weight, and 0.
    """
    a, b, p, _, c, q, _, _, rest = heard.T[:, :, None]
    # Lenses of prior variance s: covariance (I / s + Q)⁻¹ with Q = (a b; b c).
    cov = np.empty((3, *s.shape))
    np.multiply(s, c, out=cov[0])
    np.multiply(s, -b, out=cov[1])
    np.multiply(s, a, out=cov[2])
    cov[::2] += 1.0
    det = cov[0] * cov[2] - cov[1] * cov[1]
    cov *= s / det
    mean = cov[:2] * p + cov[1:] * q
    log_density = mean[0] * p + mean[1] * q - np.log(det)
    log_density += log_prior - rest
    log_density -= log_density.max()
    density = np.exp(0.5 * log_density)
    x, xy, y = (density * cov).sum(axis=2)
    at_tau = density.sum(axis=1)
    columns = np.zeros((3, len(s), s.shape[1] + 2))
    chance = np.sqrt(density, out=density)
    np.multiply(mean, chance, out=columns[:2, :, :-2])
    np.negative(chance, out=columns[2, :, :-2])
    root = np.sqrt(x, out=columns[0, :, -2])
    root += NOTHING
    across = np.divide(xy, root, out=columns[1, :, -2])
    np.sqrt(np.maximum(y - across * across, 0.0), out=columns[1, :, -1])
    return columns, at_tau


# Factors of the columns: means, and then what lenses vary by.
_AS_LENSES = -np.array([KNOWN] * len(LENSES) + [1.0, 1.0])
