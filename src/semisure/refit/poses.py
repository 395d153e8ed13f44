"""Camera poses after any robust estimator: their refits and their covariance.

``core`` is the paper's: ω from the initial pose's residuals over all raw matches, then
one weighted nonlinear least-squares refinement of the reprojection error.

``core+`` is ours, as for homographies: each axis whitened by its calibrated fine scale,
the map's own error added to it, the Laplace law's robustness rounded at zero, weights
renewed until no point moves, and safe: a pose less likely than the initial one is not
returned.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from semisure.geometry import pose as se3
from semisure.geometry.camera import Camera
from semisure.geometry.homography import far_not_undefined
from semisure.geometry.rotations import checked_motion
from semisure.law.climbing import least_squares
from semisure.law.error_laws import error_law
from semisure.law.mixture import ErrorLaw
from semisure.refit.core import no_start, outcome, refit_once, start_of, without_bias
from semisure.refit.core_plus import (
    STRIDE,
    Weighting,
    blocks_of,
    converged,
    floored,
    more_likely,
    scores,
)
from semisure.refit.covariance import Scores, covariance, radial
from semisure.refit.weights import REFIT_METHODS, RefitMethod
from semisure.types import (
    Calibration,
    Estimate,
    FloatArray,
    Matrix,
    PerAxis,
    PerMatch,
    Pose,
    Refit,
    WorldMatches,
    as_choice,
)

WATCHED = 200  # about this many world points measure how far a pose moved
# Three determine a pose, and four leave only two equations to check it by: the
# likeliest pose of four was 7° off where its start was 0.3°.
MIN_MATCHES = 5


def refit_pose(
    matches: WorldMatches,
    camera: Camera,
    calibration: Calibration,
    initial: Estimate | ArrayLike,
    *,
    method: RefitMethod = "core+",
) -> Refit:
    """θ* from θ₀: the pose refitted to all 2D–3D matches, weighted by their law.

    The returned model is 3 × 4; its ``covariance`` is 6 × 6 in the tangent (ω, v) of
    :mod:`semisure.geometry.pose`.

    Parameters
    ----------
    matches
        As the matcher gave them: a calibrated location is subtracted here.
    camera
        The query's intrinsics; they are not refined.
    initial
        What a pose estimator returned, or any 3 × 4 [R | t] from world to camera.
    method
        ``core+`` (ours), ``core`` (the paper's), or another weight of its ablation.

    Examples
    --------
    >>> import semisure
    >>> from semisure.synthetic import (
    ...     EXAMPLE_CALIBRATION, EXAMPLE_CAMERA, SyntheticMatcher, random_pose)
    >>> truth = random_pose(np.random.default_rng(0))
    >>> matches, _ = SyntheticMatcher().match_world(truth, EXAMPLE_CAMERA, count=500)
    >>> start = semisure.estimate_pose(matches, EXAMPLE_CAMERA, "ransac")
    >>> refit = refit_pose(matches, EXAMPLE_CAMERA, EXAMPLE_CALIBRATION, start)
    >>> bool(np.abs(refit.model - truth).max() < 0.01)
    True
    """
    as_choice("method", method, REFIT_METHODS)
    matches, calibration = without_bias(matches, calibration)
    start, inliers = start_of(initial, len(matches), checked_motion)
    if start is None:
        return no_start(initial, len(matches), method)
    residual = partial(residuals, camera=camera, matches=matches)
    objection = _why_not(residual(start))
    spread = partial(
        _covariance, matches=matches, camera=camera, calibration=calibration
    )
    if method == "core+":
        law, pose, iterations = law_with_map(matches, calibration), None, 0
        if objection is None:
            pose, iterations = _converged(start, camera, matches, law)
            if pose is None:
                objection = "the weighted matches do not determine a pose"
        return more_likely(
            start,
            pose,
            law,
            residual,
            covariance=spread,
            iterations=iterations,
            objection=objection,
        )
    if objection is not None:
        nothing = np.zeros(len(matches))
        return outcome(method, start, None, nothing, reason=objection)
    return refit_once(
        method,
        matches,
        calibration,
        start,
        residual(start),
        lambda weight: _least_squares(start, matches, camera, weight),
        name="a pose",
        inliers=inliers,
        covariance=spread,
    )


def residuals(pose: Pose, camera: Camera, matches: WorldMatches) -> PerAxis:
    """Observed minus projected, px; NaN for points behind the camera."""
    return matches.points - se3.project(pose, camera, matches.world)


def _why_not(residual: PerAxis) -> str | None:
    """Why no refit can begin at a pose with these residuals, or None."""
    count = len(residual)
    if count < MIN_MATCHES:
        return f"{count} matches are too few to refit a pose by; it takes {MIN_MATCHES}"
    if not np.isfinite(residual).all(axis=1).any():
        return "every world point lies behind the initial camera"
    return None


def _least_squares(
    start: Pose, matches: WorldMatches, camera: Camera, weight: PerMatch
) -> tuple[Pose | None, int]:
    """The pose that minimises Σ ω ‖r‖² near `start`, or None if there are several."""
    used = matches.take(weight > 0)

    def look(pose: Pose) -> tuple[FloatArray, FloatArray]:
        pixels, J = se3.look(pose, camera, used.world)
        return (used.points - pixels).T.ravel(), -J.transpose(0, 2, 1).reshape(-1, 6)

    residual, J = look(start)
    both = np.tile(weight[weight > 0], 2)
    if se3.solve(J.T @ (both[:, None] * J), J.T @ (both * residual)) is None:
        return None, 0
    return least_squares(start, look, both, se3.moved)


def _covariance(
    pose: Pose,
    matches: WorldMatches,
    camera: Camera,
    calibration: Calibration,
    weight: PerMatch | None = None,
    *,
    field: bool,
) -> Matrix | None:
    """6 × 6 of the tangent (ω, v), of ``core+`` or of least squares by weights."""
    if len(matches) < MIN_MATCHES:
        return None
    with np.errstate(all="ignore"):  # points behind the camera are not counted
        pixels, J = se3.look(pose, camera, matches.world)
        residual = matches.points - pixels
        if weight is None:
            law = floored(law_with_map(matches, calibration), matches)
            own_scores = scores(law, residual)
        else:
            own_scores = Scores.of_weight(weight, residual)
        lens = radial(matches.points, matches.refined_size)[:, None] if field else None
        places = np.clip(matches.points, 0.0, matches.size)
        return covariance(places, own_scores, J, lens=lens)


def law_with_map(matches: WorldMatches, calibration: Calibration) -> ErrorLaw:
    """The law with the world points' own error added to its scales, in quadrature."""
    law, error = error_law(matches, calibration), matches.map_error[:, None]
    return replace(
        law,
        fine_scale=np.hypot(law.fine_scale, error),
        coarse_scale=np.hypot(law.coarse_scale, error),
    )


def _converged(
    start: Pose, camera: Camera, matches: WorldMatches, law: ErrorLaw
) -> tuple[Pose | None, int]:
    """The pose at which projected points converge, and the number of steps."""
    law = floored(law, matches)
    blocks = [
        (matches.world[rows], matches.points[rows], Weighting.of(law.take(rows)))
        for rows in blocks_of(np.arange(len(matches)))
    ]
    watched = matches.world[:: 1 + len(matches) // WATCHED]

    def stepped(pose: Pose) -> Pose | None:
        N, b = np.zeros((6, 6)), np.zeros(6)
        for world, points, weights in blocks:
            pixels, J = se3.look(pose, camera, world)  # J = 0 behind the camera
            residual = far_not_undefined(points - pixels)
            weight = weights.at(residual.T).T
            part = se3.normal_equations(J, residual, weight)
            N, b = N + part[0], b + part[1]
        step = se3.solve(N, b)
        return None if step is None else se3.moved(pose, STRIDE * step)

    def moved_px(before: Pose, after: Pose) -> float:
        """The largest move of a watched point that both poses see."""
        first, second = (se3.project(p, camera, watched) for p in (before, after))
        return float(np.nanmax(np.abs(second - first), initial=0.0))

    return converged(start, stepped, moved_px)
