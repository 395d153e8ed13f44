"""CoRe for absolute pose: the posterior-weighted reprojection refit.

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

from semisure import covariance, mixture, weighting
from semisure.errors import InputError
from semisure.geometry import pose as se3
from semisure.geometry.camera import Camera
from semisure.mixture import STD_FLOOR_PX, ErrorLaw
from semisure.refit import (
    MAX_ITERATIONS,
    REFIT_METHODS,
    RefitMethod,
    ablation_weight,
    floored,
)
from semisure.starting import FAR_PX, kept, start_of
from semisure.types import Calibration, Estimate, FloatArray, Refit
from semisure.variants import error_law
from semisure.world import WorldMatches

TOLERANCE_PX = 1e-3  # no point moves farther in the last step
MIN_MATCHES = 3
_DAMPING = 1e-6  # of the first step, as a share of the diagonal
_MAX_DAMPING = 1e8


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
    camera
        The query's intrinsics; they are not refined.
    initial
        What a pose estimator returned, or any 3 × 4 [R | t] from world to camera.
    method
        ``core+`` (ours), ``core`` (the paper's), or another weight of its ablation.
    """
    if method not in REFIT_METHODS:
        raise InputError(
            f"method must be one of {', '.join(REFIT_METHODS)}, but is {method!r}."
        )
    start, inliers = start_of(
        initial, len(matches), partial(se3.checked, name="initial")
    )
    if start is None:
        reason = initial.reason if isinstance(initial, Estimate) else None
        return kept(len(matches), None, method, reason or "there is no initial pose")
    if len(matches) < MIN_MATCHES:
        reason = f"{len(matches)} matches are too few, a pose needs {MIN_MATCHES}"
        return kept(len(matches), start, method, reason)
    residual = residuals(start, camera, matches)
    if not np.isfinite(residual).all(axis=1).any():
        reason = "every world point lies behind the initial camera"
        return kept(len(matches), start, method, reason)
    if method == "core+":
        return _core_plus(matches, camera, calibration, start)
    far = _far(residual)
    weight = ablation_weight(method, matches, calibration, far, inliers)
    weight = np.where(np.isfinite(residual[:, 0]), weight, 0.0)
    model, iterations = _least_squares(start, matches, camera, weight)
    if model is None:
        reason = "the weighted matches do not determine a pose"
        return kept(len(matches), start, method, reason, weight)
    return Refit(
        model=model,
        weight=weight,
        initial=start,
        method=method,
        iterations=iterations,
        std_floor_px=STD_FLOOR_PX,
        uncertainty=partial(
            covariance.of_pose,
            model,
            matches,
            camera,
            weight=weight,
            shared_error=calibration.shared_error,
        ),
    )


def residuals(pose: FloatArray, camera: Camera, matches: WorldMatches) -> FloatArray:
    """Observed minus projected, (n, 2) px; NaN for points behind the camera."""
    return matches.points - se3.project(pose, camera, matches.world)


def _far(residual: FloatArray) -> FloatArray:
    """Points behind the camera very far off, not undefined."""
    if np.isfinite(residual.sum()):
        return residual
    return np.nan_to_num(residual, nan=FAR_PX, posinf=FAR_PX, neginf=-FAR_PX)


def _least_squares(
    pose: FloatArray, matches: WorldMatches, camera: Camera, weight: FloatArray
) -> tuple[FloatArray | None, int]:
    """The pose that minimises Σ ω ‖r‖², by Levenberg and Marquardt from `pose`."""
    used = matches if (weight > 0).all() else matches.take(weight > 0)
    both = np.repeat(weight[weight > 0][:, None], 2, axis=1)
    damping = _DAMPING
    residual = residuals(pose, camera, used)
    cost = float((both * residual * residual).sum())
    for count in range(1, MAX_ITERATIONS + 1):
        J = se3.jacobian(pose, camera, used.world)
        normal, pull = se3.normal_equations(J, residual, both)
        while True:
            step = se3.solve(normal, pull, damping)
            if step is None:
                return None, count
            following = se3.moved(pose, step)
            ahead = residuals(following, camera, used)
            lower = float((both * ahead * ahead).sum())  # NaN: a point fell behind
            if lower <= cost or damping > _MAX_DAMPING:
                break
            damping = max(10.0 * damping, 1e-4)
        if not lower <= cost:
            return pose, count
        pose, residual, cost, damping = following, ahead, lower, 0.1 * damping
        if _largest_motion(J, step) < TOLERANCE_PX:
            break
    return pose, count


def _largest_motion(J: FloatArray, step: FloatArray) -> float:
    """How far a step moves the projections, px."""
    return float(np.abs(step @ J).max())


def _core_plus(
    matches: WorldMatches, camera: Camera, calibration: Calibration, start: FloatArray
) -> Refit:
    law = _with_map(error_law(matches, calibration), matches)
    first = _far(residuals(start, camera, matches))
    pose, iterations = _iterate(start, matches, camera, floored(law, matches))
    if pose is None:
        told = "the weighted matches do not determine a pose"
        return kept(len(matches), start, "core+", told, weighting.core(law, first))
    last = _far(residuals(pose, camera, matches))
    before, after = (float(mixture.log_density(law, r).sum()) for r in (first, last))
    better = after >= before
    model = pose if better else start
    reason = None if better else "the refit was less likely than the initial pose"
    return Refit(
        model=model,
        weight=weighting.core(law, last if better else first),
        initial=start,
        method="core+",
        reason=reason,
        iterations=iterations if better else 0,
        log_likelihood=(before, max(before, after)),
        std_floor_px=STD_FLOOR_PX,
        uncertainty=partial(_covariance, model, matches, camera, calibration),
    )


def _covariance(
    pose: FloatArray, matches: WorldMatches, camera: Camera, calibration: Calibration
) -> FloatArray | None:
    law = floored(_with_map(error_law(matches, calibration), matches), matches)
    share = calibration.shared_error
    return covariance.of_pose(pose, matches, camera, law=law, shared_error=share)


def _with_map(law: ErrorLaw, matches: WorldMatches) -> ErrorLaw:
    """The law with the world points' own error added to its scales, in quadrature."""
    error = matches.map_error[:, None]
    return replace(
        law,
        fine_scale=np.hypot(law.fine_scale, error),
        coarse_scale=np.hypot(law.coarse_scale, error),
    )


def _iterate(
    pose: FloatArray, matches: WorldMatches, camera: Camera, law: ErrorLaw
) -> tuple[FloatArray | None, int]:
    """The pose at which no point moves any more, or the last one, or None."""
    for count in range(1, MAX_ITERATIONS + 1):
        residual = _far(residuals(pose, camera, matches))
        weight = weighting.core(law, residual)[:, None]
        centred = np.where(weight > 0, residual - law.location, 0.0)
        softened = law.fine_scale * np.hypot(centred, law.fine_scale)
        J = se3.jacobian(pose, camera, matches.world)
        normal, pull = se3.normal_equations(J, centred, weight / softened)
        step = se3.solve(normal, pull, 0.0)
        if step is None:
            return None, count
        pose = se3.moved(pose, step)
        moved = np.abs(step @ J) * (weight.T > 1e-3)
        if float(moved.max()) < TOLERANCE_PX:
            break
    return pose, count
