"""Homographies after any robust estimator: their refits.

``core`` is the paper's: ω from the initial model's residuals, one weighted DLT.

``core+`` is ours. The same ω, but (1) each axis whitened by its calibrated fine scale,
(2) errors in pixels, not algebraic, (3) the fine Laplace's own robustness, rounded at
zero so that it has curvature: weight ω / (sᶠ √(r² + sᶠ²)), (4) repeated until the
image's corners converge, (5) scales kept above the bend of real planes and lenses,
and (6) safe: a result less likely than the initial model, or one that is no view of
the image, is not returned.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from semisure.geometry import homography as plane
from semisure.law.error_laws import error_law
from semisure.law.mixture import ErrorLaw
from semisure.refit.core import no_start, refit_once, start_of, without_bias
from semisure.refit.core_plus import (
    STRIDE,
    Weighting,
    blocks_of,
    converged,
    floored,
    more_likely,
)
from semisure.refit.corners import corner_covariance
from semisure.refit.weights import REFIT_METHODS, RefitMethod
from semisure.types import (
    Calibration,
    Columns,
    Estimate,
    FloatArray,
    Labels,
    Matches,
    Matrix3,
    PerMatch,
    Points,
    Refit,
    as_choice,
)
from semisure.types.checks import as_reals
from semisure.types.matches import DEFAULT_FINE_WINDOW_PX

HORIZON = 1e-9  # of the depth 1 in a frame: below it, points are on the horizon
# Rows and columns of (J | r)ᵀ (J | r) where J of the first and second axis is not 0.
_ENTRIES = np.ix_(*2 * [[0, 1, 2, 6, 7, 8, 9]]), np.ix_(*2 * [[3, 4, 5, 6, 7, 8, 9]])


def refit_homography(
    matches: Matches,
    calibration: Calibration,
    initial: Estimate | ArrayLike,
    *,
    method: RefitMethod = "core+",
) -> Refit:
    """θ* from θ₀: the homography refitted to all matches, weighted by their law.

    Parameters
    ----------
    matches
        As the matcher gave them: a calibrated location is subtracted here.
    initial
        What a robust estimator returned, or any 3 × 3 homography from image 0 to 1.
    method
        ``core+`` (ours), ``core`` (the paper's), or another weight of its ablation.

    Examples
    --------
    >>> import semisure
    >>> from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
    >>> truth = np.array([[1.0, 0.1, 5.0], [0.0, 0.9, 3.0], [0.0, 0.0, 1.0]])
    >>> matches, _ = SyntheticMatcher().match(truth, count=1000)
    >>> start = semisure.estimate_homography(matches, "ransac")
    >>> refit = refit_homography(matches, EXAMPLE_CALIBRATION, start)
    >>> bool(np.abs(refit.model - truth).max() < 0.5)
    True
    """
    as_choice("method", method, REFIT_METHODS)
    matches, calibration = without_bias(matches, calibration)
    start, inliers = start_of(
        initial, len(matches), plane.checked, plane.checked_matrix
    )
    if start is None:
        return no_start(initial, len(matches), method)
    spread = partial(corner_covariance, matches=matches, calibration=calibration)
    if method == "core+":
        law = error_law(matches, calibration)
        H, iterations = _converged(start, matches, law)
        return more_likely(
            start,
            H,
            law,
            partial(plane.residual, matches=matches),
            covariance=spread,
            iterations=iterations,
            objection=_why_not(H, start, matches),
        )
    return refit_once(
        method,
        matches,
        calibration,
        start,
        plane.residual(start, matches),
        lambda weight: (_weighted_dlt(matches, weight), 1),
        name="a homography",
        inliers=inliers,
        covariance=spread,
    )


def refit_points(
    source: ArrayLike,
    target: ArrayLike,
    H_01: ArrayLike,
    calibration: Calibration,
    *,
    confidence: ArrayLike,
    fine_std: ArrayLike,
    coarse_std: ArrayLike,
    source_size: tuple[int, int],
    target_size: tuple[int, int],
    side: ArrayLike = 1,
    fine_window: ArrayLike = DEFAULT_FINE_WINDOW_PX,
    method: RefitMethod = "core+",
) -> tuple[Matrix3, PerMatch]:
    """Refitted H_01 and weights from plain arrays: for any matcher, any RANSAC.

    `source`, `target`, `fine_std`, `coarse_std` are (n, 2) px, `confidence` is (n,)
    in (0, 1], sizes are (width, height); `side` names the image whose point was
    refined, and so the image that the standard deviations describe. `fine_window` is
    as in :class:`semisure.Matches`.

    >>> from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
    >>> yours, _ = SyntheticMatcher().match(np.eye(3), count=500)
    >>> H, weight = refit_points(
    ...     yours.source, yours.target, np.eye(3), EXAMPLE_CALIBRATION,
    ...     confidence=yours.confidence, fine_std=yours.fine_std,
    ...     coarse_std=yours.coarse_std, source_size=(640, 480),
    ...     target_size=(640, 480))
    >>> H.shape, weight.shape
    ((3, 3), (500,))
    """
    matches = Matches(
        source=as_reals("source", source),
        target=as_reals("target", target),
        confidence=as_reals("confidence", confidence),
        fine_std=as_reals("fine_std", fine_std),
        coarse_std=as_reals("coarse_std", coarse_std),
        source_size=source_size,
        target_size=target_size,
        side=np.asarray(side),
        fine_window=np.asarray(fine_window),
    )
    refit = refit_homography(matches, calibration, H_01, method=method)
    assert refit.model is not None  # a 3 × 3 start is returned where nothing is better
    return refit.model, refit.weight


def _weighted_dlt(matches: Matches, weight: PerMatch) -> Matrix3 | None:
    """The DLT towards the refined side, where the error is."""
    if 2 * np.count_nonzero(matches.side) >= len(matches):
        return plane.weighted_dlt(matches.source, matches.target, weight)
    H_10 = plane.weighted_dlt(matches.target, matches.source, weight)
    return None if H_10 is None else plane.inverse(H_10)


def _frame(points: Points) -> Matrix3:
    """Hartley's, or the image's own where all points are one."""
    framed = plane.framed(points, np.ones(len(points)))
    return np.eye(3) if framed is None else framed[0]


def _lifted(T: Matrix3, points: Points) -> FloatArray:
    """x, y and 1 of points in the frame T, (3, n)."""
    return T[:, :2] @ points.T + T[:, 2:]


def _converged(
    start: Matrix3, matches: Matches, law: ErrorLaw
) -> tuple[Matrix3 | None, int]:
    """The homography at which the corners of image 0 converge, and the steps taken.

    Steps change a matrix G of norm 1 between the two frames.
    """
    T0, T1 = frames = _frame(matches.source), _frame(matches.target)
    corners = _lifted(T0, plane.corners(matches.source_size))
    law = floored(law, matches)
    blocks = [
        _Block.of(side, rows, matches, law, frames)
        for side in (0, 1)
        for rows in blocks_of(np.flatnonzero(matches.side == side))
    ]

    def stepped(G: Matrix3) -> Matrix3 | None:
        try:
            equations = sum((block.equations(G) for block in blocks), np.zeros((9, 10)))
            return _solved(G, equations)
        except np.linalg.LinAlgError:  # G has no inverse
            return None

    def moved_px(before: Matrix3, after: Matrix3) -> float:
        a, b = before @ corners, after @ corners
        return float(np.abs(a[:2] / a[2] - b[:2] / b[2]).max() / T1[0, 0])

    first = _of_norm_1(T1 @ start @ np.linalg.inv(T0))
    G, steps = converged(first, stepped, moved_px)
    return None if G is None else plane.normalised(np.linalg.solve(T1, G @ T0)), steps


def _solved(G: Matrix3, equations: FloatArray) -> Matrix3 | None:
    """`G` after the step that solves [N | b]; None if N does not determine one."""
    values, vectors = np.linalg.eigh(equations[:, :9])
    if not values[1] > plane.RANK_TOLERANCE**2 * values[-1]:
        return None
    across = vectors[:, 1:]  # the first direction is the scale of G
    step = across @ ((equations[:, 9] @ across) / values[1:])
    return _of_norm_1(G + STRIDE * step.reshape(3, 3))


def _of_norm_1(G: Matrix3) -> Matrix3:
    return np.asarray(G / np.linalg.norm(G))


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Some matches refined in one image, where points of the other predict them."""

    side: int
    weights: Weighting
    anchors: FloatArray  # (3, n): the points that predict, in their frame
    refined: Columns

    @classmethod
    def of(
        cls,
        side: int,
        rows: Labels,
        matches: Matches,
        law: ErrorLaw,
        frames: tuple[Matrix3, Matrix3],
    ) -> _Block:
        points = matches.source, matches.target
        weights = Weighting.of(law.take(rows), 1.0 / frames[side][0, 0])
        lifted = [_lifted(T, p[rows]) for T, p in zip(frames, points, strict=True)]
        return cls(side, weights, lifted[1 - side], lifted[side][:2])

    def equations(self, G: Matrix3) -> FloatArray:
        """[Σ JᵀWJ | Σ JᵀWr] of a step of the nine entries of G, (9, 10)."""
        if self.side == 1:
            return self._sums(G)[:9]
        B = np.linalg.inv(G)
        change = np.eye(10)
        change[:9, :9] = -np.kron(B, B.T)  # dB = −B dG B, entries in rows
        return (change.T @ self._sums(B) @ change)[:9]

    def _sums(self, model: Matrix3) -> FloatArray:
        """Σ w (J | r)ᵀ (J | r) by the entries of the model that predicts, (10, 10)."""
        depth = model[2] @ self.anchors
        depth[np.abs(depth) < HORIZON] = np.inf  # there a match has no pull
        direction = self.anchors / depth
        predicted = model[:2] @ direction
        residual = self.refined - predicted
        weight = self.weights.at(residual)
        sums = np.zeros((10, 10))
        for axis, entries in enumerate(_ENTRIES):
            down = -predicted[axis] * direction
            J = np.concatenate([direction, down, residual[axis : axis + 1]])
            sums[entries] += (weight[axis] * J) @ J.T
        return sums


def _why_not(H: Matrix3 | None, start: Matrix3, matches: Matches) -> str | None:
    """Why `H` must not replace `start`, or None."""
    if H is None:
        return "the weighted matches do not determine a homography"
    flaw = plane.defect(H, matches.source_size)
    # A plane whose horizon is in the picture is a fault only if the refit put it there.
    sound = plane.defect(start, matches.source_size) is None
    if flaw is not None and (sound or not np.isfinite(H).all()):
        return f"the refit was rejected: {flaw}"
    if plane.mirrors(H) != plane.mirrors(start):
        return "the refit was rejected: it mirrors the image"
    return None
