"""How far a refitted model may be off: a cluster-robust sandwich.

The refit solves Σ Jᵀψ(r) = 0, with ψ the score of the law or ω r. The textbook answer,
A⁻¹ with A = Σ Jᵀψ′J, takes matches for independent and is several times too small.
Three things are added to it:

1. the sandwich A⁻¹ B A⁻¹ with B = Σ Jᵀψψᵀ J, which trusts the residuals, not the law;
2. clusters: scores summed over square blocks of the image vary more than independent
   ones would. By how much, averaged over the parameters, multiplies B. (A matrix of
   blocks for B itself is too noisy: there are some fifty blocks for eight parameters.)
3. what no residual shows: an error that all matches of a pair share is absorbed by the
   model. It is taken as a random bilinear field over the image, one for each image
   matched to. Its variance is that of the pair's residuals times the change of view,
   ‖A − I‖ of the local map A between the images, times the square of a factor that is
   calibrated on pairs of known truth (`Calibration.shared_error`). Without it the
   covariance is a lower bound.

A fourth is added to the result: what the model itself cannot follow, such as a lens,
and no number of matches averages away (:mod:`semisure.refit.model_error`).

Here is what covariances share, and that of lines. That of poses is in
:mod:`semisure.refit.pose_covariance`; that of homographies, whose derivatives are
simpler, in :mod:`semisure.refit.plane_covariance`.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from semisure import mixture
from semisure.geometry.epipolar import Lines
from semisure.mixture import ErrorLaw
from semisure.refit import line_law, model_error
from semisure.refit.corners import corner_jacobian
from semisure.refit.line_law import LineLaw
from semisure.refit.model_error import Misfit, block_ids
from semisure.refit.shared_field import Shared, bilinear_field
from semisure.types import (
    FloatArray,
    Labels,
    Mask,
    Matches,
    Matrix,
    Matrix3,
    PerAxis,
    PerMatch,
    Points,
    Vector,
    WorldMatches,
)
from semisure.types.world import TYPICAL_VIEW_CHANGE

# Matches this close err together; what reaches farther is the model error's. Of 32, 48
# and 96 px, by random views of photos.
BLOCK_PX = 48.0


def of_lines(
    lines: Lines,
    matches: Matches,
    law: LineLaw,
    *,
    shared_error: float | None = None,
    least: float | None = None,
    cameras: FloatArray | None = None,
    field: bool = True,
) -> Matrix | None:
    """k × k of an epipolar geometry's parameters, from distances across its lines.

    One axis instead of two; the change of view, which lines do not tell, is taken as
    the usual one. `cameras` is what errors of the intrinsics do, if there are any
    (:func:`semisure.refit.intrinsics_error.across_lines`).
    """
    distance = lines.distance
    score, slope, weight = _line_score(law, distance)
    shared = Shared(
        factor=shared_error,
        field=bilinear_field(matches.refined, matches.refined_size),
        change=np.full(len(matches), TYPICAL_VIEW_CHANGE),
        group=np.zeros(len(matches), dtype=np.int64),
    )
    # A sandwich takes ∂ prediction: the point's distance falls as its line follows.
    J = -lines.jacobian.T[None]
    good = np.isfinite(J.sum(axis=(0, 1)) + distance)
    points = matches.refined
    misfit = Misfit(
        waves=model_error.across_lines(points, matches.refined_size, lines.normal),
        lenses=1,
        own=0.0,
        points=points,
        residual=distance[:, None],
        rescored=partial(_line_rescored, law=law),
        extent_px=extent_px(matches),
        least_px=model_error.least_px(least, extent_px(matches), plane=False),
        most=model_error.MOST_OF_CAMERAS,
        known=cameras,
    )
    return sandwich(
        J, score, slope, weight, points, good, shared, misfit if field else None
    )


def _line_score(
    law: LineLaw, distance: PerMatch
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Score ψ (n, 1), its slope ψ′ (1, 1, n) and its weight ψ/d (n, 1)."""
    weight = line_law.pull(law, distance)
    # ψ′ by differences: the peak of two Laplace variables has no handy derivative.
    step = 1e-3 * law.minor
    ahead, behind = (
        line_law.pull(law, distance + side * step)
        * (distance + side * step - law.shift)
        for side in (1.0, -1.0)
    )
    slope = ((ahead - behind) / (2.0 * step))[None, None]
    return (weight * (distance - law.shift))[:, None], slope, weight[:, None]


def _line_rescored(
    rows: Labels, residual: FloatArray, law: LineLaw
) -> tuple[FloatArray, FloatArray]:
    _, slope, weight = _line_score(law.take(rows), residual[:, 0])
    return weight, slope[0].T


def extent_px(matches: Matches | WorldMatches) -> float:
    """The diagonal of the image in which errors are, px."""
    return float(np.linalg.norm(matches.refined_size, axis=1).max(initial=0.0))


def law_score(law: ErrorLaw, residual: PerAxis) -> tuple[PerAxis, FloatArray, PerAxis]:
    """The same for core+: ψ_d = ω r_d / (sᶠ √(r² + sᶠ²)), with ω = ω_x ω_y.

    ψ′ has the slope of ω in it, so it is below the weight and may be negative.
    """
    x = residual - law.location
    success = mixture.coarse_success(law, residual)
    weight = success[:, 0] * success[:, 1]
    x = np.where(weight[:, None] > 0, x, 0.0)
    softened = np.hypot(x, law.fine_scale)
    pull = x / (law.fine_scale * softened)
    rise = law.fine_scale / softened**3
    # d log ω_d / dr_d = −(1 − ω_d) sign(r) (1/sᶠ − 1/sᶜ), Laplace
    steepness = 1.0 / law.fine_scale - 1.0 / law.coarse_scale
    fall = (success - 1.0) * np.sign(x) * steepness
    slope = np.empty((2, 2, len(x)))
    slope[0, 0] = weight * (rise[:, 0] + pull[:, 0] * fall[:, 0])
    slope[1, 1] = weight * (rise[:, 1] + pull[:, 1] * fall[:, 1])
    slope[0, 1] = weight * pull[:, 0] * fall[:, 1]
    slope[1, 0] = weight * pull[:, 1] * fall[:, 0]
    return weight[:, None] * pull, slope, weight[:, None] / (law.fine_scale * softened)


def sandwich(
    J: FloatArray,
    score: FloatArray,
    slope: FloatArray,
    weight: FloatArray,
    points: Points,
    good: Mask,
    shared: Shared,
    misfit: Misfit | None,
) -> Matrix | None:
    """The covariance described above, of as many parameters as J (axes, p, n) has.

    `score` and `weight` are (n, axes), `slope` is (axes, axes, n).
    """
    with np.errstate(all="ignore"):
        try:
            C = _sandwich(J, score, slope, weight, points, good, shared, misfit)
        except np.linalg.LinAlgError:  # weights so small that they are none
            return None
    if C is None or not np.isfinite(C).all():
        return None
    return model_error.positive_part(C)


def _sandwich(
    J: FloatArray,
    score: FloatArray,
    slope: FloatArray,
    weight: FloatArray,
    points: Points,
    good: Mask,
    shared: Shared,
    misfit: Misfit | None,
) -> Matrix | None:
    used = good & (weight > 0).any(axis=1)
    J_all = J
    if not used.all():
        J, slope, score = J[:, :, used], slope[:, :, used], score[used]
    turned = np.stack([_summed(J, by_axis) for by_axis in slope.transpose(1, 0, 2)])
    bread = (turned @ J.transpose(0, 2, 1)).sum(axis=0)
    bread = 0.5 * (bread + bread.T)
    if not _positive(bread):
        # A slope that falls too often: the Gauss–Newton matrix is always positive.
        turned = J * weight[used].T[:, None]
        bread = (turned @ J.transpose(0, 2, 1)).sum(axis=0)
        if not _positive(bread):
            return None
    scores = _summed(J, score.T)
    meat = scores @ scores.T
    if not _positive(meat):
        return None
    meat = meat * _clustering(scores, meat, block_ids(points[used], BLOCK_PX))
    variance = shared.variance(score, weight[used]) if shared.factor else 0.0
    if variance:
        meat = meat + variance * shared.moved(turned, used)
    if not np.isfinite(meat).all():
        return None
    # By a root of the meat: a product with its own transpose has no negative variance.
    values, vectors = np.linalg.eigh(meat)
    root = np.linalg.solve(bread, vectors * np.sqrt(np.maximum(values, 0.0)))
    if misfit is None:
        return root @ root.T
    waves = misfit.all_waves()[:, :, used].transpose(1, 2, 0)
    moved = (turned @ waves).sum(axis=0)
    response = np.linalg.solve(bread, moved)
    matcher_px2 = variance * shared.usual_change(used) if variance else 0.0
    return root @ root.T + model_error.added_covariance(
        J_all, good, response, misfit, matcher_px2
    )


def _summed(J: FloatArray, factors: FloatArray) -> FloatArray:
    """Σ over axes of J (axes, p, n) times one number an axis and match, (p, n)."""
    total = J[0] * factors[0]
    for rows, factor in zip(J[1:], factors[1:], strict=True):
        total += rows * factor
    return np.asarray(total)


def _clustering(scores: FloatArray, meat: Matrix, block: Labels) -> float:
    """How many times more block sums vary than independent scores would, ≥ 1."""
    count, parameters = int(block.max()) + 1, len(scores)
    sums = np.stack([np.bincount(block, row, count) for row in scores])
    excess = float(np.trace(np.linalg.solve(meat, sums @ sums.T))) / parameters
    # The fit takes as many degrees of freedom off the blocks as it has parameters.
    return max(1.0, excess * count / max(count - parameters, 1))


def _positive(matrix: Matrix) -> bool:
    """Positive definite beyond rounding, whatever the parameters' units."""
    diagonal = np.diag(matrix)
    if not (diagonal > 0).all():
        return False
    scale = 1.0 / np.sqrt(diagonal)
    scaled = matrix * scale * scale[:, None]
    return bool(np.isfinite(scaled).all() and np.linalg.eigvalsh(scaled)[0] > 1e-12)


def of_predictions(C: Matrix, H_01: Matrix3, matches: Matches) -> PerAxis:
    """px² of where `H_01` puts each match, of corners with covariance `C`.

    0 where it puts a match nowhere.
    """
    J = corner_jacobian(H_01, matches)
    if J is None:
        return np.zeros_like(matches.source)
    with np.errstate(invalid="ignore"):
        variance = np.einsum("dkn,kl,dln->nd", J, C, J, optimize=True)
    return np.where(np.isfinite(variance), variance, 0.0)


def of_distances(C: Matrix, lines: Lines) -> PerMatch:
    """px² of each line next to its match, of a geometry with covariance `C`."""
    J = lines.jacobian
    return np.asarray(np.einsum("nk,nk->n", J @ C, J))


def mahalanobis2(C: Matrix, offset: Vector) -> float:
    """offsetᵀ C⁻¹ offset, to be held against χ² of as many degrees of freedom."""
    return float(offset @ np.linalg.solve(C, offset))
