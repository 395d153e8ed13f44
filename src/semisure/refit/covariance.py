"""How far a refitted model may be off: a cluster-robust sandwich.

The refit solves Σ Jᵀψ(r) = 0, with ψ the score of the law or ω r. The textbook answer,
A⁻¹ with A = Σ Jᵀψ′J, takes matches for independent and is several times too small.
Three things are added:

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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure import mixture
from semisure.geometry import homography as plane
from semisure.geometry import pose as se3
from semisure.geometry.camera import Camera
from semisure.geometry.epipolar import Lines
from semisure.mixture import ErrorLaw
from semisure.refit import line_law
from semisure.refit.line_law import LineLaw
from semisure.types import (
    FloatArray,
    Jacobian,
    Labels,
    Mask,
    Matches,
    Matrix,
    Matrix3,
    PerAxis,
    PerMatch,
    Points,
    Pose,
    Vector,
    WorldMatches,
)
from semisure.types.world import TYPICAL_VIEW_CHANGE

# Matches this close err together. Chosen with the field below, of 48, 64 and 96 px, by
# the coverage on random views of photos and the agreement of two matchers on real ones.
BLOCK_PX = 96.0
# The least among the views that calibrations are made on: below it nothing is known,
# and light or season may make a pair err together that no view tells apart.
MIN_VIEW_CHANGE = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """An error that all matches to one image share; see above."""

    factor: float | None
    field: FloatArray  # (4, n)
    change: PerMatch  # of view
    group: Labels  # which image


def of_homography(
    H_01: Matrix3,
    matches: Matches,
    *,
    law: ErrorLaw | None = None,
    weight: PerMatch | None = None,
    shared_error: float | None = None,
) -> Matrix | None:
    """8 × 8 px² of the images of image 0's corners, or None if undetermined.

    The order is that of :func:`semisure.geometry.homography.corners`, x and y in turn.
    Give the `law` of a refit by scores, or the `weight` (n,) of one by least squares.
    """
    residual = plane.residual(H_01, matches)
    J = corner_jacobian(H_01, matches)
    if J is None:
        return None
    points = matches.refined
    with np.errstate(all="ignore"):  # what is undefined is not good
        good = np.isfinite(J.sum(axis=(0, 1)) + residual.sum(axis=1))
        terms = _terms(residual, law, weight)
    shared = Shared(
        factor=shared_error,
        field=bilinear_field(points, matches.refined_size),
        change=view_change(H_01, matches),
        group=np.zeros(len(matches), dtype=np.int64),
    )
    return sandwich(J, *terms, points, good, shared)


def of_pose(
    pose: Pose,
    matches: WorldMatches,
    camera: Camera,
    *,
    law: ErrorLaw | None = None,
    weight: PerMatch | None = None,
    shared_error: float | None = None,
) -> Matrix | None:
    """6 × 6 of the tangent (ω, v) of :mod:`semisure.geometry.pose`, or None."""
    residual = matches.points - se3.project(pose, camera, matches.world)
    with np.errstate(all="ignore"):
        good = np.isfinite(residual.sum(axis=1))
        J = se3.jacobian(pose, camera, matches.world)
        terms = _terms(residual, law, weight)
    shared = Shared(
        factor=shared_error,
        field=bilinear_field(matches.points, matches.refined_size),
        change=matches.view_change,
        group=matches.group,
    )
    return sandwich(J, *terms, matches.points, good, shared)


def of_lines(
    lines: Lines,
    matches: Matches,
    law: LineLaw,
    *,
    shared_error: float | None = None,
) -> Matrix | None:
    """k × k of an epipolar geometry's parameters, from distances across its lines.

    One axis instead of two; the change of view, which lines do not tell, is taken as
    the usual one.
    """
    distance = lines.distance
    weight = line_law.pull(law, distance)
    # ψ′ by differences: the peak of two Laplace variables has no handy derivative.
    step = 1e-3 * law.minor
    ahead, behind = (
        line_law.pull(law, distance + side * step)
        * (distance + side * step - law.shift)
        for side in (1.0, -1.0)
    )
    slope = ((ahead - behind) / (2.0 * step))[None, None]
    shared = Shared(
        factor=shared_error,
        field=bilinear_field(matches.refined, matches.refined_size),
        change=np.full(len(matches), TYPICAL_VIEW_CHANGE),
        group=np.zeros(len(matches), dtype=np.int64),
    )
    # A sandwich takes ∂ prediction: the point's distance falls as its line follows.
    J = -lines.jacobian.T[None]
    score = (weight * (distance - law.shift))[:, None]
    good = np.isfinite(J.sum(axis=(0, 1)) + distance)
    return sandwich(J, score, slope, weight[:, None], matches.refined, good, shared)


def _terms(
    residual: PerAxis, law: ErrorLaw | None, weight: PerMatch | None
) -> tuple[PerAxis, FloatArray, PerAxis]:
    """Score ψ (n, 2), its slope ψ′ (2, 2, n) and its weight ψ/r (n, 2)."""
    if law is not None:
        return law_score(law, residual)
    assert weight is not None
    both = np.repeat(weight[:, None], 2, axis=1)
    slope = np.zeros((2, 2, len(weight)))
    slope[0, 0] = slope[1, 1] = weight
    return both * residual, slope, both


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
) -> Matrix | None:
    """The covariance described above, of as many parameters as J (axes, p, n) has.

    `score` and `weight` are (n, axes), `slope` is (axes, axes, n).
    """
    with np.errstate(all="ignore"):
        C = _sandwich(J, score, slope, weight, points, good, shared)
    return C if C is not None and np.isfinite(C).all() else None


def _sandwich(
    J: FloatArray,
    score: FloatArray,
    slope: FloatArray,
    weight: FloatArray,
    points: Points,
    good: Mask,
    shared: Shared,
) -> Matrix | None:
    used = good & (weight > 0).any(axis=1)
    J, slope, score = J[:, :, used], slope[:, :, used], score[used]
    turned = np.einsum("akn,abn->bkn", J, slope)
    bread = np.einsum("bkn,bln->kl", turned, J)
    bread = 0.5 * (bread + bread.T)
    if not _positive(bread):
        # A slope that falls too often: the Gauss–Newton matrix is always positive.
        turned = J * weight[used].T[:, None]
        bread = np.einsum("bkn,bln->kl", turned, J)
        if not _positive(bread):
            return None
    scores = np.einsum("akn,na->nk", J, score)
    meat = scores.T @ scores
    if not _positive(meat):
        return None
    meat = meat * _clustering(scores, meat, block_ids(points[used], BLOCK_PX))
    if shared.factor:
        # ψ = w r, so Σ w r² = Σ ψ²/w.
        w = weight[used]
        squares = np.divide(score * score, w, out=np.zeros_like(w), where=w > 0)
        variance = shared.factor**2 * float(squares.sum() / w.sum())
        meat = meat + variance * _moved(turned, shared, used)
    if not np.isfinite(meat).all():
        return None
    # By a root of the meat: a product with its own transpose has no negative variance.
    values, vectors = np.linalg.eigh(meat)
    root = np.linalg.solve(bread, vectors * np.sqrt(np.maximum(values, 0.0)))
    return root @ root.T


def _moved(turned: FloatArray, shared: Shared, used: Mask) -> Matrix:
    """Σ over images, axes and functions of the square of how each moves the scores."""
    total = np.zeros((turned.shape[1], turned.shape[1]))
    field, group, change = (
        shared.field[:, used],
        shared.group[used],
        shared.change[used],
    )
    for one in np.unique(group):
        of = group == one
        moved = np.einsum("bkn,fn->kbf", turned[:, :, of], field[:, of])
        columns = moved.reshape(len(total), -1)
        known = change[of][np.isfinite(change[of])]
        seen = max(float(np.median(known)), MIN_VIEW_CHANGE) if len(known) else 1.0
        total += seen * (columns @ columns.T)
    return total


def _clustering(scores: FloatArray, meat: Matrix, block: Labels) -> float:
    """How many times more block sums vary than independent scores would, ≥ 1."""
    count, parameters = int(block.max()) + 1, scores.shape[1]
    sums = np.stack([np.bincount(block, column, count) for column in scores.T])
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


def block_ids(points: Points, side_px: float) -> Labels:
    """Which square of the image each point lies in, counted from 0."""
    cells = np.floor(points / side_px).astype(np.int64)
    cells -= cells.min(axis=0)
    flat = cells[:, 0] * (cells[:, 1].max() + 1) + cells[:, 1]
    return np.unique(flat, return_inverse=True)[1].astype(np.int64)


def bilinear_field(points: Points, size: FloatArray) -> FloatArray:
    """The functions 1, x, y, xy at the points, (4, n); x and y run from −1 to 1."""
    x, y = (2.0 * points / size - 1.0).T
    return np.stack([np.ones(len(points)), x, y, x * y])


def view_change(H_01: Matrix3, matches: Matches) -> PerMatch:
    """‖A − I‖ of the local map A onto each match's refined side."""
    with np.errstate(all="ignore"):
        A = plane.jacobian(H_01, matches.source)
        on_source = matches.side == 0
        if on_source.any():
            A[on_source] = plane.inverses_2x2(A[on_source])
        return np.linalg.norm(A - np.eye(2), axis=(1, 2))


def corner_jacobian(H_01: Matrix3, matches: Matches) -> Jacobian | None:
    """∂ prediction / ∂ corner images, (2, 8, n), on each match's refined side.

    None where a match lives in image 0 and `H_01` has no inverse, or a corner of image
    0 has no image.
    """
    frame = plane.corners(matches.source_size)
    unit = np.diag([*(1.0 / np.maximum(frame.max(axis=0), 1.0)), 1.0])
    G = H_01 @ np.linalg.inv(unit)
    G = G / np.linalg.norm(G)
    on_source = matches.side == 0
    at = matches.source
    if on_source.any():
        back = plane.inverse(H_01)
        if back is None:
            return None
        at = np.where(on_source[:, None], plane.project(back, matches.target), at)
    with np.errstate(all="ignore"):
        corners = _by_entry(G, frame @ unit[:2, :2]).transpose(2, 0, 1).reshape(8, 9)
        if not np.isfinite(corners).all():  # a corner lies on the horizon
            return None
        # The null direction of nine entries is their scale, which pinv leaves alone.
        J = np.einsum(
            "den,ek->dkn", _by_entry(G, at @ unit[:2, :2]), np.linalg.pinv(corners)
        )
        if on_source.any():
            # x₀ = Π⁻¹(y) moves by −(∂Π/∂x)⁻¹ dΠ(x₀).
            local = plane.inverses_2x2(plane.jacobian(H_01, at[on_source]))
            J[:, :, on_source] = -np.einsum("nab,bkn->akn", local, J[:, :, on_source])
    return J


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
    return ((lines.jacobian @ C) * lines.jacobian).sum(axis=1)


def _by_entry(G: Matrix3, points: Points) -> Jacobian:
    """∂ project(G, p) / ∂ entries of G, (2, 9, n)."""
    per_depth = 1.0 / plane.depth(G, points)
    x = np.stack([points[:, 0] * per_depth, points[:, 1] * per_depth, per_depth])
    u, v = plane.project(G, points).T
    D = np.zeros((2, 9, len(points)))
    D[0, :3] = D[1, 3:6] = x
    D[0, 6:], D[1, 6:] = -u * x, -v * x
    return D


def expected_corner_error(C: Matrix) -> float:
    """Mean over corners of the distance expected under `C` (8 × 8), px.

    E‖N(0, Σ)‖ of a 2 × 2 Σ with eigenvalues a ≥ b is √(2a/π) E(1 − b/a), with E the
    complete elliptic integral.

    >>> round(expected_corner_error(np.eye(8)), 12)  # √(π/2)
    1.253314137316
    """
    from scipy.special import ellipe

    blocks = np.stack([C[i : i + 2, i : i + 2] for i in range(0, 8, 2)])
    small, large = np.maximum(np.linalg.eigvalsh(blocks), 0.0).T
    ratio = np.divide(small, large, out=np.ones_like(small), where=large > 0)
    return float((np.sqrt(2.0 * large / np.pi) * ellipe(1.0 - ratio)).mean())


def mahalanobis2(C: Matrix, offset: Vector) -> float:
    """offsetᵀ C⁻¹ offset, to be held against χ² of as many degrees of freedom."""
    return float(offset @ np.linalg.solve(C, offset))
