"""The quick covariance of a homography is the one that the equations describe."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from semisure.error_laws import error_law
from semisure.estimators import estimate_homography
from semisure.geometry import homography as plane
from semisure.geometry.squares import FEW, grid_over
from semisure.mixture import ErrorLaw
from semisure.refit import refit_homography
from semisure.refit.core_plus import floored
from semisure.refit.corners import corner_jacobian
from semisure.refit.covariance import law_score
from semisure.refit.field_size import (
    KNOWN,
    LEAST,
    LENSES,
    SPREAD,
    TRIED,
    USUAL,
    posterior_moment,
)
from semisure.refit.law_terms import Whitening
from semisure.refit.model_error import block_ids
from semisure.refit.plane_covariance import (
    PARAMETERS,
    Pair,
    Smooth,
    _by_parameters,
    _sides,
    of_homography,
)
from semisure.refit.plane_moments import SQUARE_PX, LeastSquares, sums_of
from semisure.refit.shared_field import bilinear_field
from semisure.synthetic import EXAMPLE_CALIBRATION
from semisure.types import FloatArray, Matches
from test_core_plus import pair

SIDES = ("target", "source", "mixed")
MOST = 0.01  # of a field, in diagonals


def refitted(count: int, side: str) -> tuple[Matches, FloatArray, ErrorLaw]:
    """Matches, the homography that core+ finds, and the law it weighs them by."""
    matches = pair(count, 5, side, EXAMPLE_CALIBRATION)
    start = estimate_homography(matches, "ransac")
    H = refit_homography(matches, EXAMPLE_CALIBRATION, start).model
    assert H is not None
    return matches, H, floored(error_law(matches, EXAMPLE_CALIBRATION), matches)


def plain_sums(
    H: FloatArray, matches: Matches, law: ErrorLaw
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Σ Jᵀψ′J, Jᵀψ of each match, Jᵀψ′ and J, by the corners, match after match."""
    J = corner_jacobian(H, matches)
    score, slope, _ = law_score(law, plane.residual(H, matches))
    turned = np.einsum("akn,abn->bkn", J, slope)
    bread = np.einsum("bkn,bln->kl", turned, J)
    return 0.5 * (bread + bread.T), np.einsum("akn,na->kn", J, score), turned, J


def corners_by_step(H: FloatArray, matches: Matches, pair: Pair) -> FloatArray:
    """∂ images of image 0's corners / ∂ parameters, 8 × 8."""
    corners = plane.corners(matches.source_size)
    if pair.sums[0].side.direction.forward:
        smooth = Smooth.of(pair, plane.project(H, corners).T)
        return smooth.of_corners[:, :PARAMETERS]
    # A step moves a corner's prediction in image 0, and so its image the other way.
    moved = Smooth.of(pair, corners.T).of_corners[:, :PARAMETERS].reshape(4, 2, -1)
    return -(plane.jacobian(H, corners) @ moved).reshape(8, -1)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("count", [90, 2500])
def test_moments_are_the_sums_over_matches(side: str, count: int) -> None:
    matches, H, law = refitted(count, side)
    bread, scores, _, _ = plain_sums(H, matches, law)
    sides = _sides(H, matches, Whitening.of(law))
    assert sides is not None
    for dtype, digits in ((np.float32, 1e-4), (np.float64, 1e-9)):
        with np.errstate(all="ignore"):  # as the covariance itself does
            sums = [sums_of(one, dtype) for one in sides]
            found, carries = _by_parameters(sums)
            by_step = corners_by_step(H, matches, Pair(sums, carries, *found, found[1]))
        for quick, slow in zip(found, (bread, scores @ scores.T), strict=True):
            expected = by_step.T @ slow @ by_step
            unit = np.sqrt(np.diag(expected))
            assert np.abs((quick - expected) / unit / unit[:, None]).max() < digits


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("shared", [None, 0.5])
def test_the_sandwich_is_that_of_the_equations(side: str, shared: float | None) -> None:
    """A⁻¹BA⁻¹ with B by blocks, and the shared field's; a few percent for the squares.

    Where matches are refined in both images, squares of one do not join the other's.
    What a shared field does to the one half it then takes back by the other, so that
    little is left of it, and less precisely.
    """
    matches, H, law = refitted(3000, side)
    bread, scores, turned, _ = plain_sums(H, matches, law)
    block = block_ids(matches.refined, SQUARE_PX)
    if side == "mixed":
        block = block + (block.max() + 1) * matches.side
    held = np.unique(block, return_inverse=True)[1]
    sums = np.stack([np.bincount(held, row) for row in scores])
    meat, blocks = scores @ scores.T, sums.shape[1]
    excess = np.trace(np.linalg.solve(meat, sums @ sums.T)) / 8
    meat = meat * max(1.0, excess * blocks / (blocks - 8))
    if shared:
        _, _, weight = law_score(law, plane.residual(H, matches))
        r = plane.residual(H, matches)
        variance = shared**2 * (weight * r * r).sum() / weight.sum()
        A = plane.jacobian(H, matches.source)
        if side == "source":
            A = np.linalg.inv(A)
        inliers = weight.sum(axis=1) > 0.1 * weight.sum(axis=1).max()
        if side == "mixed":
            A = np.where(matches.side[:, None, None] == 1, A, np.linalg.inv(A))
        change = np.median(np.linalg.norm(A - np.eye(2), axis=(1, 2))[inliers])
        field = bilinear_field(matches.refined, matches.refined_size)
        # Bilinear fields of either axis, and one offset of both images, (A − I) δ.
        field = np.array([[1.0], [0.5], [0.5], [0.5]]) * field
        moved = np.einsum("bkn,fn->kbf", turned, field).reshape(8, -1)
        offset = np.einsum("bkn,nbd->kd", turned, 3.0 * (A - np.eye(2)))
        meat = meat + variance * change * (moved @ moved.T + offset @ offset.T)
    C = np.linalg.solve(bread, np.linalg.solve(bread, meat).T)
    quick = of_homography(H, matches, law=law, shared_error=shared, field=False)
    assert quick is not None
    off = 0.3 if shared and side == "mixed" else 0.06
    assert np.sqrt(np.diag(quick) / np.diag(C)) == pytest.approx(1.0, abs=off)


def test_few_crowded_matches_have_squares_of_their_own() -> None:
    """In a part of the image squares are smaller, as small as the matches need."""
    matches, H, law = refitted(3000, "target")
    corner = np.flatnonzero((matches.source < [96, 72]).all(axis=1))
    few, some = matches.take(corner), law.take(corner)
    bread, scores, _, _ = plain_sums(H, few, some)
    C = np.linalg.solve(bread, np.linalg.solve(bread, scores @ scores.T).T)
    quick = of_homography(H, few, law=some, field=False)
    assert quick is not None
    ratio = np.sqrt(np.diag(quick) / np.diag(C))
    assert ratio.min() > 0.99  # clustering makes it larger, never smaller
    assert ratio.max() < 3.0


def slow_posterior(F: FloatArray, h: FloatArray, lenses: int, px: float) -> FloatArray:
    """E[c cᵀ] over a grid of sizes, one after the other, as the docstring reads."""
    q = len(F)
    total, moment = 0.0, np.zeros((q, q))
    larger = np.where(np.arange(q) < q - lenses, 1.0, KNOWN)
    for tau in np.geomspace(LEAST, MOST, TRIED):
        for lens in LENSES:
            size = np.where(np.arange(q) < q - lenses, tau * px, tau * px * lens)
            cov = np.linalg.inv(F + np.diag(size**-2.0))
            mean = cov @ h
            _, log_det = np.linalg.slogdet(np.eye(q) + size[:, None] * F * size)
            evidence = 0.5 * (h @ mean - log_det)
            evidence -= 0.5 * (np.log(tau / USUAL) / SPREAD) ** 2
            weight = np.exp(evidence - 0.5 * h @ np.linalg.solve(F, h))
            total += weight
            moment += weight * (cov + np.outer(larger * mean, larger * mean))
    return moment / total


@pytest.mark.parametrize(("waves", "lenses"), [(5, 2), (4, 1), (0, 2)])
def test_sizes_are_weighed_by_their_evidence(waves: int, lenses: int) -> None:
    rng = np.random.default_rng(waves)
    q = waves + lenses
    A = rng.normal(size=(q + 2, q))
    F, c = 30.0 * A.T @ A, rng.normal(0, 0.2, q)
    h = F @ c
    quick = posterior_moment(F, h, lenses, 800.0, MOST)
    slow = slow_posterior(F, h, lenses, 800.0)
    assert quick == pytest.approx(slow, rel=1e-8, abs=1e-10)


def test_a_field_is_found_whatever_its_size() -> None:
    """A lens of k px at half a diagonal: what it adds to corners grows with k."""
    matches, H, law = refitted(4000, "target")
    off = (matches.target - 0.5 * np.array(matches.target_size)) / 400.0
    added = []
    for k in (2.0, 8.0):
        bent = replace(
            matches,
            target=matches.target + k * off * (off**2).sum(axis=1, keepdims=True),
        )
        start = refit_homography(bent, EXAMPLE_CALIBRATION, H).model
        C = of_homography(start, bent, law=law, least=0.0)
        none = of_homography(start, bent, law=law, field=False)
        assert C is not None
        assert none is not None
        added.append(np.sqrt(np.trace(C - none) / 8) / k)
    assert added[0] < added[1] < 1.4 * added[0]  # a small one is less certain
    assert 0.3 < added[1] < 1.0


@pytest.mark.parametrize("law", ["mixture", "gaussian", None])
def test_weights_alone_are_those_of_the_scores(law: str | None) -> None:
    """ψ/r is the same, and of ψ′ the sum over xx and yy is all that a field needs."""
    matches = pair(400, 5, "target", EXAMPLE_CALIBRATION)
    residual = np.random.default_rng(1).normal(0.0, 0.5, (2, len(matches)))
    residual[:, 0] = residual[0, 1] = 0.0  # what is divided by r is 0 there
    scores: LeastSquares | Whitening = LeastSquares(matches.confidence)
    if law is not None:
        calibration = replace(EXAMPLE_CALIBRATION, law=law)
        scores = Whitening.of(floored(error_law(matches, calibration), matches))
    r, weight, score, slope = scores.scored(residual)
    assert score == pytest.approx(weight * r)
    assert np.isfinite(slope).all()
    alone, rise = scores.weighed(residual)
    assert np.broadcast_to(weight, alone.shape) == pytest.approx(alone)
    assert rise == pytest.approx(float(slope[::2].sum()), rel=1e-9)


@pytest.mark.parametrize("side_px", [32.0, 1.0])
def test_squares_follow_each_other_by_larger_squares(side_px: float) -> None:
    """Whether the grid is small, and its order kept for the next, or large.

    The image is 96 × 64 px: of 2 × 2 its size, 6 × 4 squares of 32 px are looked at, or
    as many of 1 px as hold the points; what is farther off is in the outermost.
    """
    rng = np.random.default_rng(0)
    points = rng.uniform([[-300.0], [-20.0]], [[150.0], [300.0]], (2, 500))
    size = np.array([96.0, 64.0])
    grid = grid_over(points, side_px, size)
    assert (grid.count <= FEW) == (side_px == 32.0)
    near = np.clip(points, -0.5 * size[:, None], 1.5 * size[:, None])
    square = np.floor(near / side_px)
    held = grid.held(np.bincount(grid.number, minlength=grid.count), 96.0)
    place = np.full(grid.count, -1)
    place[held.number] = np.arange(len(held.number))
    middles = held.middles[:, place[grid.number]]
    assert middles == pytest.approx((square + 0.5) * side_px)
    larger = np.floor(held.middles / 96.0)
    begins = np.flatnonzero(np.diff(larger, axis=1, prepend=np.nan).any(axis=0))
    assert held.starts().tolist() == begins.tolist()
    assert len(np.unique(larger, axis=1).T) == len(begins)  # none comes twice
