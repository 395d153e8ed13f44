"""What a model itself cannot follow: a lens, relief, a shutter that rolls.

Thousands of matches average their own errors away, but not the model's. No homography
is what a lens makes of a plane: the residuals then have a smooth part over the image,
of some tenths of a pixel or more, that no further match makes smaller.

It is taken as a random smooth field: for each axis, cosines of few periods over the
image, whose standard deviations fall with the square of their frequency, and besides
the radial distortion of lenses, which is largest where it matters: of one that took
both images, as a rule, and a tenth of it by which they differ. The field is
fitted to the residuals together with the model, by the matches' own law. How large it
is, its root mean square τ, has a posterior: the coefficients' likelihood, with noise
that is independent only from block to block, times a wide prior. The coefficients'
posterior second moment M then moves the model, and where parameters stand for places
in the image, as corners do, the field is part of their error:

    C += V (M + τ₀²) Vᵀ,    v_f = A⁻¹ Σ Jᵀψ′φ_f − φ_f(corner)

with A the bread of the sandwich, φ_f the cosines, and τ₀ the least that is ever
assumed of a photograph (:data:`LEAST_OF_PLANES`, :data:`LEAST_OF_CAMERAS`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from semisure.types import FloatArray, Labels, Mask, Matrix, PerAxis, Points, Vector

# τ₀ as a share of the image's diagonal. Under a homography it makes 5e-4 of it at the
# corners, 0.4 px of 800: what a good lens or a flat wall keeps. Cameras bend less than
# planes do.
LEAST_OF_PLANES, LEAST_OF_CAMERAS = 2e-4, 5e-5
# The largest τ: relief may be anything; of lenses and shutters, cheap ones make that.
MOST_OF_PLANES, MOST_OF_CAMERAS = 0.03, 0.005
MAX_FREQUENCY = 2  # half periods over the image
FALLOFF = 4.0  # of a cosine's variance with its frequency
LENS = 4.0  # size of a lens' distortion at half a diagonal, at τ = 1
LENSES = np.geomspace(1.0, 80.0, 5)  # how many times larger it may be
APART = 0.1  # the lens by which two images differ, against the one that both have
ROWS = 2000  # matches looked at, taken evenly
BLOCK_PX = 32.0  # matches in one block err together
BEYOND_BLOCKS = 3.0  # how much more sums vary, on exact views, than blocks tell
STEPS = 3  # of the fit
SMOOTH_PX = 96.0  # how far a matcher's own smooth error reaches
# These numbers were chosen on random views of photos, with and without a simulated lens
# or relief, by actual against expected corner errors (benchmarks/honest.py).
# The prior of τ in diagonals: its median, the standard deviation of its logarithm, and
# the least size and the number of sizes that are tried.
USUAL, SPREAD = 3e-5, 1.2
SMALLEST, TRIED = 3e-6, 24
# A lens that is known leaves no chance: a Gaussian error whose mean size is |c| has a
# standard deviation of √(π/2) |c|.
KNOWN = np.sqrt(0.5 * np.pi)
MIN_SLOPE = 0.2  # least mean of ψ′ against ψ/r


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Misfit:
    """What is needed to find the field of one pair."""

    waves: FloatArray  # (q, axes, n), each as large as usual at τ = 1
    lenses: int  # how many of the last of them are lenses
    own: FloatArray | float  # the field at what parameters stand for, (p, q)
    points: Points
    residual: FloatArray  # (n, axes)
    # Of some matches, by their rows, and other residuals: ψ/r and ψ′, (n, axes).
    rescored: Callable[[Labels, FloatArray], tuple[FloatArray, FloatArray]]
    extent_px: float  # the image's diagonal
    least_px: Vector | float  # τ₀, of each wave or of all
    most: float = MOST_OF_PLANES  # largest τ that is tried, in diagonals
    # Errors of known size beside the field, such as those of intrinsics, (k, axes, n).
    known: FloatArray | None = None

    def all_waves(self) -> FloatArray:
        """Those of the field, then those of known size."""
        if self.known is None:
            return self.waves
        return np.concatenate([self.waves, self.known])


def least_px(share: float | None, extent_px: float, *, plane: bool) -> float:
    """τ₀ for an image of that diagonal; `share` None stands for a photograph."""
    if share is None:
        share = LEAST_OF_PLANES if plane else LEAST_OF_CAMERAS
    return share * extent_px


def cosines(points: Points, size: FloatArray) -> FloatArray:
    """The cosines at points of an image, times their standard deviations, (f, n).

    The variances add up to a mean square of 1 over the image.

    >>> grid = np.stack(np.meshgrid(np.arange(64.0), np.arange(48.0)), axis=-1)
    >>> values = cosines(grid.reshape(-1, 2), np.array([64, 48]))
    >>> len(values), round(float((values**2).mean(axis=1).sum()), 9)
    (8, 1.0)
    """
    phase = np.pi * (points + 0.5) / size
    i, j = np.indices((MAX_FREQUENCY + 1, MAX_FREQUENCY + 1)).reshape(2, -1)[:, 1:]
    variance = (i**2 + j**2) ** (-0.5 * FALLOFF)
    mean_square = np.where(i > 0, 0.5, 1.0) * np.where(j > 0, 0.5, 1.0)
    deviation = np.sqrt(variance / (variance @ mean_square))
    x, y = (np.cos(np.arange(MAX_FREQUENCY + 1)[:, None] * axis) for axis in phase.T)
    return np.asarray(deviation[:, None] * x[i] * y[j])


def radial(points: Points, size: FloatArray) -> FloatArray:
    """The distortion of a lens at points of its image, LENS at half a diagonal, (2, n).

    >>> radial(np.array([[0.0, 0.0], [319.5, 239.5]]), np.array([640, 480])).T.round(1)
    array([[-3.2, -2.4],
           [ 0. ,  0. ]])
    """
    off = (2.0 * points + 1.0 - size) / np.linalg.norm(size, axis=-1, keepdims=True)
    return np.asarray(LENS * ((off**2).sum(axis=1, keepdims=True) * off).T)


def on_both_axes(cosines: FloatArray) -> FloatArray:
    """Each cosine (f, n) along x, then each along y, (2 f, 2, n)."""
    f, n = cosines.shape
    both = np.zeros((2, f, 2, n))
    both[0, :, 0] = both[1, :, 1] = cosines
    return both.reshape(2 * f, 2, n)


def across_lines(points: Points, size: FloatArray, normal: PerAxis) -> FloatArray:
    """Cosines across epipolar lines of unit `normal`, and the refined image's lens."""
    lens = (normal.T * radial(points, size)).sum(axis=0)
    return np.concatenate([cosines(points, size), lens[None]])[:, None]


def added_covariance(
    J: FloatArray,
    good: Mask,
    response: FloatArray,
    misfit: Misfit,
    matcher_px2: float = 0.0,
) -> Matrix:
    """What the field adds to the parameters' covariance.

    `J` (axes, p, n) is ∂ prediction, and `response` (p, q) is how far each wave
    moves the parameters. Matches that are not `good` say nothing. `matcher_px2` is
    the variance of the smooth error that the matcher itself makes.
    """
    rows = np.flatnonzero(good)
    rows = rows[:: max(1, -(-len(rows) // ROWS))]
    moment = _second_moment(J[:, :, rows], rows, misfit, matcher_px2)
    by_field, by_known = np.split(response, [len(moment)], axis=1)
    v = by_field - misfit.own
    field = v @ (moment + np.eye(len(moment)) * misfit.least_px**2) @ v.T
    return np.asarray(field + by_known @ by_known.T)


def _second_moment(
    J: FloatArray, rows: Labels, misfit: Misfit, matcher_px2: float
) -> Matrix:
    """E[c cᵀ] of the waves' coefficients c, given the residuals of some matches."""
    axes, p = J.shape[:2]
    scaled = J / np.sqrt((J**2).sum(axis=(0, 2)))[:, None]
    X = np.concatenate([scaled, misfit.waves[:, :, rows].transpose(1, 0, 2)], axis=1)
    fitted, residual = _fitted(X, rows, misfit, p)
    weight, slope = misfit.rescored(rows, residual)
    normal = _normal(X, weight)
    follows = np.linalg.solve(normal[:p, :p], normal[:p, p:])
    G = normal[p:, p:] - normal[p:, :p] @ follows
    left = X[:, p:] - follows.T @ X[:, :p]
    scores = np.einsum("aqn,na->qn", left, weight * residual)
    # The scores rise by ψ′ where the fit takes ψ/r: its coefficients are less certain.
    uncertain = max(MIN_SLOPE, float(slope.sum() / weight.sum())) ** -2
    uncertain *= BEYOND_BLOCKS
    noise = uncertain * _noise(scores, misfit.points[rows], X.shape[1] / axes)
    if matcher_px2:
        noise += matcher_px2 * _matchers_own(left, weight, misfit.points[rows])
    if misfit.known is not None:  # what those errors do is not the field's
        known = misfit.known[:, :, rows]
        felt = np.einsum("aqn,na,kan->qk", left, weight, known, optimize=True)
        noise += felt @ felt.T
    return _posterior(G @ fitted[p:], G, noise, misfit)


def _fitted(
    X: FloatArray, rows: Labels, misfit: Misfit, p: int
) -> tuple[Vector, FloatArray]:
    """Parameters and coefficients by the matches' law, and the residuals left."""
    given = misfit.residual[rows]
    ridge = np.full(X.shape[1], (misfit.most * misfit.extent_px) ** -2)
    ridge[:p] = 0.0
    residual = given
    for _ in range(STEPS):
        weight, _ = misfit.rescored(rows, residual)
        pull = sum(x @ (w * r) for x, w, r in zip(X, weight.T, given.T, strict=True))
        fitted = np.linalg.solve(_normal(X, weight) + np.diag(ridge), pull)
        residual = given - (fitted @ X).T
    return fitted, residual


def _normal(X: FloatArray, weight: FloatArray) -> Matrix:
    total = np.zeros((X.shape[1], X.shape[1]))
    for x, w in zip(X, weight.T, strict=True):
        total += (x * w) @ x.T
    # Parameters are scaled, so that this keeps undetermined ones from dividing by 0.
    return total + 1e-9 * np.trace(total) / len(total) * np.eye(len(total))


def _noise(scores: FloatArray, points: Points, taken: float) -> Matrix:
    """Covariance of Σ scores (q, n), of which a fit has taken degrees of freedom."""
    block = block_ids(points, BLOCK_PX)
    count, n = int(block.max()) + 1, scores.shape[1]
    if count > 2 * taken:
        scores = np.stack([np.bincount(block, row, count) for row in scores])
        n = count
    # Too few blocks say less of their own noise than single matches do.
    return scores @ scores.T * (n / max(n - taken, 0.2 * n))


def _matchers_own(left: FloatArray, weight: FloatArray, points: Points) -> Matrix:
    """Covariance of Σ scores where all matches of a larger block err alike, by 1 px.

    A smooth error of the matcher's own is heard as the model's, and is none.
    """
    block = block_ids(points, SMOOTH_PX)
    count, total = int(block.max()) + 1, np.zeros((left.shape[1], left.shape[1]))
    for axis, w in zip(left, weight.T, strict=True):
        sums = np.stack([np.bincount(block, row * w, count) for row in axis])
        total += sums @ sums.T
    return total


def _posterior(sums: Vector, G: Matrix, noise: Matrix, misfit: Misfit) -> Matrix:
    """E[c cᵀ] of s = G c + noise over the sizes of the field and of its lenses."""
    noise = noise + 1e-9 * np.trace(noise) / len(noise) * np.eye(len(noise))
    root = np.linalg.cholesky(noise)
    heard, gains = np.linalg.solve(root, sums), np.linalg.solve(root, G)
    logs, moments = [], []
    larger = np.ones(len(G))
    larger[len(G) - misfit.lenses :] = KNOWN
    for size in LENSES:
        scale = np.where(larger > 1.0, size, 1.0)
        evidence, moment = _at_one_size(heard, gains * scale, larger, misfit)
        logs.append(evidence)
        moments.append(scale[:, None] * moment * scale)
    density = np.exp(np.array(logs) - max(logs))
    return np.asarray(np.einsum("k,kqr->qr", density / density.sum(), moments))


def _at_one_size(
    heard: Vector, gains: Matrix, larger: Vector, misfit: Misfit
) -> tuple[float, Matrix]:
    """log evidence and E[c cᵀ] of y = A c + N(0, 1), c ~ N(0, τ²), over τ.

    What is known of each c, its mean, is taken `larger`.
    """
    U, gain, Vt = np.linalg.svd(gains)
    y = U.T @ heard
    sizes = np.geomspace(SMALLEST, misfit.most, TRIED)
    size2 = (sizes[:, None] * misfit.extent_px) ** 2
    spread = 1.0 + size2 * gain**2
    log_density = -0.5 * (np.log(spread) + y**2 / spread).sum(axis=1)
    log_density -= 0.5 * (np.log(sizes / USUAL) / SPREAD) ** 2
    density = np.exp(log_density - log_density.max())
    total = float(density.sum())
    density /= total
    mean = size2 * gain * y / spread
    known, chance = (mean.T * density) @ mean, np.diag(density @ (size2 / spread))
    moment = Vt.T @ chance @ Vt + larger[:, None] * (Vt.T @ known @ Vt) * larger
    return float(log_density.max() + np.log(total)), moment


def block_ids(points: Points, side_px: float) -> Labels:
    """Which square of the image each point lies in, counted from 0."""
    cells = np.floor(points / side_px).astype(np.int64)
    cells -= cells.min(axis=0)
    columns, rows = (int(most) + 1 for most in cells.max(axis=0))
    flat = cells[:, 0] * rows + cells[:, 1]
    if columns * rows > 16 * len(points):  # too many squares to look at each
        return np.unique(flat, return_inverse=True)[1].astype(np.int64)
    held = np.bincount(flat, minlength=columns * rows) > 0
    return (np.cumsum(held) - 1)[flat]
