"""How far a model may be off: its likelihood by hand, what must and must not matter."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import null_space
from scipy.special import logsumexp

from semisure.geometry import homography as plane
from semisure.refit import (
    covariance,
)
from semisure.refit.covariance import Scores, radial
from semisure.types import FloatArray, Matrix

NINETY = {6: 10.645, 8: 13.362}  # of χ², from tables
SIZE = (640, 480)


def places(rng: np.random.Generator, count: int) -> FloatArray:
    return rng.uniform(0, SIZE, (count, 2))


def shared(rng: np.random.Generator, points: FloatArray, reach_px: float) -> FloatArray:
    """Errors (n, 2) of 1 px on each axis, alike with exp(−distance / reach)."""
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    C = np.exp(-apart / reach_px) + 1e-9 * np.eye(len(points))
    return np.linalg.cholesky(C) @ rng.normal(size=points.shape)


def affine(points: FloatArray) -> FloatArray:
    """∂ prediction / ∂ the six entries of an affine map, (2, 6, n)."""
    J = np.zeros((2, 6, len(points)))
    J[0, :3] = J[1, 3:] = np.array([*points.T, np.ones(len(points))])
    return J


def fitted(J: FloatArray, values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The parameters by least squares, and the residuals (n, 2)."""
    rows = J.transpose(0, 2, 1).reshape(-1, J.shape[1])
    parameters = np.linalg.lstsq(rows, values.T.ravel(), rcond=None)[0]
    return parameters, values - (rows @ parameters).reshape(2, -1).T


def of_fit(points: FloatArray, values: FloatArray, **options) -> Matrix:
    J = affine(points)
    seen = Scores.of_weight(np.ones(len(points)), fitted(J, values)[1])
    C = covariance.covariance(points, seen, J, **options)
    assert C is not None
    return C


def as_if_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is shared, and that is known."""
    monkeypatch.setattr(covariance, "SHARES", np.zeros(1))
    monkeypatch.setattr(covariance, "PRIOR", np.ones(1))


def mahalanobis2(C: Matrix | None, offset: FloatArray) -> float:
    assert C is not None
    return float(offset @ np.linalg.solve(C, offset))


# -- the likelihood of what neighbours share, by hand

CELLS_3 = np.array([[1.0, 0.6, 0.1], [0.6, 1.0, 0.3], [0.1, 0.3, 1.0]])
MOVES, SCORES = np.array([1.0, 2.0, -1.0]), np.array([0.7, -0.2, 1.5])
BENDS = np.array([0.3, -0.5, 0.8])


def restricted(V: Matrix) -> tuple[float, float]:
    """Log likelihood and variance of what is left of the scores beside the parameter.

    Combinations of scores that no step of the parameter changes have the covariance
    NᵀVN, times a variance that is the likeliest.
    """
    N = null_space(MOVES[None])
    rest, W = N.T @ SCORES, N.T @ V @ N
    variance = rest @ np.linalg.solve(W, rest) / 2
    return -0.5 * (2 * np.log(variance) + np.linalg.slogdet(W)[1]), variance


def differences(values: FloatArray) -> FloatArray:
    return np.asarray(values) - values[0]


def by_share(correlation: Matrix) -> list[Matrix]:
    return [(1 - f) * np.eye(3) + f * correlation for f in covariance.SHARES]


def test_the_likelihood_of_shares_is_that_of_scores_beside_the_parameter() -> None:
    told = np.stack([MOVES, SCORES])[None]
    likelihood, scale, lens2 = covariance._fitted(told, CELLS_3, 1)
    expected, variance = zip(*map(restricted, by_share(CELLS_3)), strict=True)
    assert lens2.shape == (8, 0, 0)
    assert np.allclose(scale, variance)
    assert np.allclose(differences(likelihood), differences(expected))


def test_a_lens_is_one_more_error_of_unknown_size() -> None:
    told = np.stack([MOVES, BENDS, SCORES])[None]
    likelihood, scale, lens2 = covariance._fitted(told, CELLS_3, 1)
    expected, scales, squares = [], [], []
    for V in by_share(CELLS_3):
        own = restricted(V)[1]  # sizes are px²: they are compared with it
        by_size = [
            restricted(V + size / own * np.outer(BENDS, BENDS))
            for size in covariance.LENS_PX2
        ]
        logs, variances = zip(*by_size, strict=True)
        chance = np.exp(logs - logsumexp(logs))
        expected.append(logsumexp(logs))
        scales.append(chance @ variances)
        squares.append(chance @ [strength2(V, own, s) for s in covariance.LENS_PX2])
    assert np.allclose(scale, scales)
    assert np.allclose(differences(likelihood), differences(expected))
    assert np.allclose(lens2[:, 0, 0], squares)


def strength2(V: Matrix, own: float, size: float) -> float:
    """Mean square of a Gaussian strength of variance `size`, given the scores."""
    N = null_space(MOVES[None])
    bent, W = N.T @ BENDS, N.T @ V @ N
    gain = size * np.linalg.solve(own * W + size * np.outer(bent, bent), bent)
    return float((gain @ N.T @ SCORES) ** 2 + size - size * gain @ bent)


def test_no_share_is_the_plain_sandwich(monkeypatch) -> None:
    """A⁻¹ (Σ size² JᵀJ) A⁻¹ times how much larger scores are than their sizes."""
    as_if_alone(monkeypatch)
    rng = np.random.default_rng(0)
    points = places(rng, 500)
    J = affine(points)
    weight = rng.uniform(0.5, 2.0, 500)
    errors = 3.0 / np.sqrt(weight)[:, None] * rng.normal(size=(500, 2))
    seen = Scores.of_weight(weight, errors)
    C = covariance.covariance(points, seen, J)
    assert C is not None
    bread = np.linalg.inv(np.einsum("akn,n,aln->kl", J, weight, J))
    sandwich = bread @ np.einsum("akn,n,aln->kl", J, seen.size[0] ** 2, J) @ bread
    scale = C[0, 0] / sandwich[0, 0]
    assert np.allclose(C, scale * sandwich, rtol=1e-9, atol=1e-12)
    assert scale == pytest.approx(9.0, rel=0.3)  # by the scores of a hundred cells


# -- what must not matter, and what must


def test_the_units_of_parameters_and_sizes_do_not_matter() -> None:
    rng = np.random.default_rng(1)
    points = places(rng, 300)
    J, values = affine(points), shared(rng, points, 40.0)
    residual = fitted(J, values)[1]
    seen = Scores.of_weight(np.ones(300), residual)
    C = covariance.covariance(points, seen, J)
    T = rng.normal(size=(6, 6))
    turned = np.einsum("akn,kl->aln", J, T)
    other = covariance.covariance(points, seen, turned)
    assert np.allclose(T @ other @ T.T, C, rtol=1e-4)
    sized = seen._replace(size=5.0 * seen.size)  # the scores tell the scale
    assert np.allclose(covariance.covariance(points, sized, J), C)
    larger = Scores.of_weight(np.ones(300), 3.0 * residual)
    assert np.allclose(covariance.covariance(points, larger, J), 9.0 * C)


def test_known_errors_are_added_by_how_they_move_the_model() -> None:
    """One of 0.5 px, the same everywhere, moves both shifts by as much."""
    rng = np.random.default_rng(2)
    points = places(rng, 200)
    values = rng.normal(size=(200, 2))
    more = of_fit(points, values, errors=np.full((2, 1, 200), 0.5))
    shift = np.array([0, 0, 0.5, 0, 0, 0.5])
    assert np.allclose(more - of_fit(points, values), np.outer(shift, shift), atol=1e-9)


@pytest.mark.parametrize(("known", "most"), [(True, 1.2), (False, 3.0)])
def test_independent_errors_give_the_textbook_covariance(
    monkeypatch, known, most
) -> None:
    """σ² (JᵀJ)⁻¹ where they are known to be independent, and else some more.

    The scores of a hundred cells do not exclude that a little is shared.
    """
    if known:
        as_if_alone(monkeypatch)
    ratios = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        points = places(rng, 500)
        J = affine(points)
        textbook = np.linalg.inv(np.einsum("akn,aln->kl", J, J))
        C = of_fit(points, rng.normal(size=points.shape))
        ratios.append(np.diag(C) / np.diag(textbook))
    assert 0.85 < np.median(ratios) < most


def test_regions_hold_where_neighbours_share_their_errors(monkeypatch) -> None:
    """Errors of 400 matches, shared over 30 px, as if alone and as they are."""
    far: dict[str, list[float]] = {"alone": [], "shared": []}
    for kind, distances in far.items():
        if kind == "alone":
            as_if_alone(monkeypatch)
        else:
            monkeypatch.undo()
        for seed in range(30):
            rng = np.random.default_rng(seed)
            points = places(rng, 400)
            J, values = affine(points), shared(rng, points, 30.0)
            parameters, residual = fitted(J, values)
            seen = Scores.of_weight(np.ones(400), residual)
            C = covariance.covariance(points, seen, J)
            distances.append(mahalanobis2(C, parameters))
    inside = {kind: np.mean(np.array(d) < NINETY[6]) for kind, d in far.items()}
    assert inside["alone"] < 0.75
    assert inside["shared"] > 0.85
    assert 1.5 < np.median(far["shared"]) < 8.0  # 5.3 of χ²


def test_a_lens_is_found_and_widens_what_is_stated() -> None:
    """A lens of 2 px that the map cannot follow, and matches that are good to 0.1."""
    rng = np.random.default_rng(3)
    points = places(rng, 1000)
    own, lens = 0.1 * rng.normal(size=points.shape), radial(points, SIZE)
    corners = plane.corners(SIZE)
    there = (affine(corners), radial(corners, SIZE))
    variances = []
    for strength in (0.0, 2.0):
        values = own + strength * lens.T
        C = of_fit(points, values, lens=lens[:, None])
        parameters, _ = fitted(affine(points), values)
        off = there[0].transpose(0, 2, 1) @ parameters  # (2, corners)
        variance = np.einsum("akn,kl,aln->an", there[0], C, there[0])
        variances.append(variance.mean())
        assert np.sqrt((off**2).mean() / variance.mean()) < 2.0
    assert variances[1] > 100 * variances[0]


def test_exact_matches_have_a_covariance_that_is_all_but_nothing() -> None:
    points = places(np.random.default_rng(0), 100)
    lens = radial(points, SIZE)[:, None]
    for values in (np.zeros((100, 2)), 1e-200 * points):
        C = of_fit(points, values, lens=lens)
        assert np.isfinite(C).all()
        assert np.diag(C).max() < 1e-10


def test_parameters_that_nothing_tells_have_no_covariance() -> None:
    points = places(np.random.default_rng(0), 100)
    seen = Scores.of_weight(np.ones(100), np.ones((100, 2)))
    J = affine(points)
    J[:, 5] = J[:, 4]
    assert covariance.covariance(points, seen, J) is None
    none = Scores(*(part[:, :0] for part in seen))
    assert covariance.covariance(points[:0], none, J[:, :, :0]) is None
