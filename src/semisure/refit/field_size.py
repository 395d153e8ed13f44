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


@lru_cache(maxsize=4)
def _sizes(most: float) -> tuple[Vector, FloatArray]:
    """The sizes that are tried, and twice the logarithm of their prior, (k, 1)."""
    sizes = np.geomspace(LEAST, most, TRIED)
    return sizes, -((np.log(sizes / USUAL) / SPREAD) ** 2)[:, None]


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
    # What is heard of the waves, beside what joins them to the lenses.
    joint = np.zeros((w, 3))
    joint[:, :lenses], joint[:, 2] = F[:w, w:], h[:w]
    joint = V.T @ joint
    own = np.zeros((3, 3))
    own[:lenses, :lenses], own[:lenses, 2] = F[w:, w:], h[w:]
    sizes, log_prior = _sizes(most)
    tau2 = ((sizes * extent_px) ** 2)[:, None]
    # Variances of the waves given τ and the lenses, and what the lenses hear then.
    spread = 1.0 + tau2 * np.maximum(gain2, 0.0)
    d = tau2 / spread
    heard = own.ravel() - d @ (joint[:, :, None] * joint[:, None]).reshape(w, 9)
    a, b, p, _, c, q, _, _, rest = heard.T[:, :, None]
    # Lenses of prior variance s: covariance (I / s + Q)⁻¹ with Q = (a b; b c).
    s = tau2 * LENSES**2
    cov = np.array([1.0 + s * c, -s * b, 1.0 + s * a])
    det = cov[0] * cov[2] - cov[1] * cov[1]
    cov *= s / det
    mean = np.array([cov[0] * p + cov[1] * q, cov[1] * p + cov[2] * q])
    log_density = mean[0] * p + mean[1] * q - np.log(det)
    log_density += log_prior - rest - np.log(spread).sum(axis=1)[:, None]
    density = np.exp(0.5 * (log_density - log_density.max()))
    density /= density.sum()
    # Means: waves given the lenses.
    of_lenses = mean.reshape(2, -1)
    waves = joint[:, 2:] - joint[:, :2] @ of_lenses
    waves *= np.repeat(d.T, len(LENSES), axis=1)
    means = np.concatenate([waves, KNOWN * of_lenses])
    moment = (means * density.ravel()) @ means.T
    # Covariances: the lenses' at each τ, and waves that follow them by −d · joint.
    x, xy, y = (density * cov).sum(axis=2)
    by_x, by_y = d.T * joint[:, :1], d.T * joint[:, 1:2]
    along_x, along_y = by_x * x + by_y * xy, by_x * xy + by_y * y
    moment[:w, :w] += along_x @ by_x.T + along_y @ by_y.T
    across = np.stack([along_x.sum(axis=1), along_y.sum(axis=1)])
    moment[w:, :w] -= across
    moment[:w, w:] -= across.T
    moment[w:, w:] += [[x.sum(), xy.sum()], [xy.sum(), y.sum()]]
    moment.reshape(-1)[: w * (w + 3) : w + 3] += density.sum(axis=1) @ d
    turn = np.eye(w + lenses, w + 2)
    turn[:w, :w] = V
    return turn @ moment @ turn.T
