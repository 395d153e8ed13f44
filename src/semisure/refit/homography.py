"""CoRe: one posterior-weighted refit after any robust estimator (Alg. weighted_refit).

``core`` is the paper's: ω from the initial model's residuals, one weighted DLT.

``core+`` is ours. The same ω, but (1) each axis whitened by its calibrated fine scale,
(2) errors in pixels, not algebraic, (3) the fine Laplace's own robustness, rounded at
zero so that it has curvature: weight ω / (sᶠ √(r² + sᶠ²)), (4) repeated until the
image's corners converge, (5) scales kept above what real planes and lenses deviate by,
and (6) safe: a result less likely than the initial model, or one that is no view of
the image, is not returned.

Every method takes raw matches: a calibrated location is taken off first.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from semisure.geometry import homography as plane
from semisure.refit import plane_covariance
from semisure.refit.initial import (
    far_not_undefined,
    kept,
    made,
    more_likely,
    no_start,
    start_of,
    without_bias,
)
from semisure.refit.law_terms import Whitening
from semisure.refit.plane_fit import PlaneFit
from semisure.refit.weights import REFIT_METHODS, RefitMethod, one_step_weight
from semisure.types import (
    Calibration,
    Estimate,
    Matches,
    Matrix,
    Matrix3,
    PerAxis,
    PerMatch,
    Refit,
    as_choice,
)
from semisure.types.checks import as_reals
from semisure.types.matches import DEFAULT_FINE_WINDOW_PX

_UNDETERMINED = "the weighted matches do not determine a homography"


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
        As the matcher gave them; a calibrated location is taken off here.
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
        initial,
        len(matches),
        partial(plane.checked, name="initial"),
        partial(plane.checked_matrix, name="initial"),
    )
    if start is None:
        return no_start(initial, len(matches), method)
    if method == "core+":
        return _core_plus(matches, calibration, start)
    residual = _residual(start, matches)
    weight = one_step_weight(method, matches, calibration, residual, inliers)
    model = _weighted_dlt(matches, weight)
    if model is None:
        reason = _UNDETERMINED
        return kept(len(matches), start, method, reason, weight)
    spread = partial(
        plane_covariance.of_homography,
        model,
        matches,
        weight=weight,
        shared_error=calibration.shared_error,
        least=calibration.model_error,
    )
    return made(model, start, method, weight, uncertainty=spread)


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


def _residual(H: Matrix3, matches: Matches) -> PerAxis:
    return far_not_undefined(plane.residual(H, matches))


def _weighted_dlt(matches: Matches, weight: PerMatch) -> Matrix3 | None:
    """The DLT towards the refined side, where the error is."""
    if 2 * np.count_nonzero(matches.side) >= len(matches):
        return plane.weighted_dlt(matches.source, matches.target, weight)
    H_10 = plane.weighted_dlt(matches.target, matches.source, weight)
    return None if H_10 is None else plane.inverse(H_10)


def _core_plus(matches: Matches, calibration: Calibration, start: Matrix3) -> Refit:
    fit = PlaneFit.of(matches, calibration)
    H, iterations = fit.converged(start)
    return more_likely(
        H,
        start,
        method="core+",
        judged=fit.judged,
        covariance=partial(
            _covariance, matches=matches, scores=fit.scores, calibration=calibration
        ),
        iterations=iterations,
        objection=_why_not(H, start, matches),
    )


def _covariance(
    H: Matrix3,
    matches: Matches,
    scores: Whitening,
    calibration: Calibration,
    *,
    field: bool,
) -> Matrix | None:
    return plane_covariance.of_homography(
        H,
        matches,
        scores=scores,
        shared_error=calibration.shared_error,
        least=calibration.model_error,
        field=field,
    )


def _why_not(H: Matrix3 | None, start: Matrix3, matches: Matches) -> str | None:
    """Why `H` must not replace `start`, or None."""
    if H is None:
        return _UNDETERMINED
    flaw = plane.defect(H, matches.source_size)
    # A plane whose horizon is in the picture is a fault only if the refit put it there.
    if flaw is not None and plane.defect(start, matches.source_size) is None:
        return f"the refit was rejected: {flaw}"
    if flaw == "it is not finite":
        return f"the refit was rejected: {flaw}"
    if plane.mirrors(H) != plane.mirrors(start):
        return "the refit was rejected: it mirrors the image"
    return None
