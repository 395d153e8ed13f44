"""CoRe for absolute pose: the posterior-weighted reprojection refit.

``core`` is the paper's: ω from the initial pose's residuals over all raw matches, then
one weighted nonlinear least-squares refinement of the reprojection error.

``core+`` is ours, as for homographies: each axis whitened by its calibrated fine scale,
the map's own error added to it, the Laplace law's robustness rounded at zero, weights
renewed until no point moves, and safe: a pose less likely than the initial one is not
returned. Every method takes raw matches: a calibrated location is taken off first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from semisure.geometry import pose as se3
from semisure.geometry.camera import Camera
from semisure.refit import pose_covariance
from semisure.refit.climbing import climb
from semisure.refit.core_plus import MAX_ITERATIONS, floored
from semisure.refit.initial import (
    far_not_undefined,
    kept,
    made,
    more_likely,
    no_start,
    start_of,
    without_bias,
)
from semisure.refit.pose_fit import PoseFit, law_with_map
from semisure.refit.weights import REFIT_METHODS, RefitMethod, one_step_weight
from semisure.types import (
    Calibration,
    Estimate,
    Matrix,
    PerAxis,
    PerMatch,
    Pose,
    Refit,
    Vector,
    WorldMatches,
    as_choice,
)

TOLERANCE_PX = 1e-3  # no point moves farther in the last step
# Three determine a pose and four leave two equations to check six parameters by: the
# likeliest pose of four was 7° off where its start was 0.3°.
MIN_MATCHES = 5
_UNDETERMINED = "the weighted matches do not determine a pose"


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
        As they were lifted; a calibrated location is taken off here.
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
    start, inliers = start_of(
        initial, len(matches), partial(se3.checked, name="initial")
    )
    if start is None:
        return no_start(initial, len(matches), method)
    residual = residuals(start, camera, matches)
    objection = _why_not(residual)
    if method == "core+":
        return _core_plus(matches, camera, calibration, start, objection)
    if objection is not None:
        return kept(len(matches), start, method, objection)
    far = far_not_undefined(residual)
    weight = one_step_weight(method, matches, calibration, far, inliers)
    weight = np.where(np.isfinite(residual[:, 0]), weight, 0.0)
    model, iterations = _least_squares(start, matches, camera, weight)
    if model is None:
        return kept(len(matches), start, method, _UNDETERMINED, weight)
    spread = partial(
        pose_covariance.of_pose,
        model,
        matches,
        camera,
        weight=weight,
        shared_error=calibration.shared_error,
        least=calibration.model_error,
    )
    return made(model, start, method, weight, iterations, uncertainty=spread)


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


@dataclass(frozen=True, slots=True, eq=False)
class _Reprojection:
    """The weighted reprojection error of one pose."""

    pose: Pose
    camera: Camera
    matches: WorldMatches
    weight: PerAxis
    residual: PerAxis
    score: float  # NaN where a point fell behind the camera

    @classmethod
    def at(
        cls, pose: Pose, camera: Camera, matches: WorldMatches, weight: PerAxis
    ) -> _Reprojection:
        residual = residuals(pose, camera, matches)
        score = -float((weight * residual * residual).sum())
        return cls(pose, camera, matches, weight, residual, score)

    def equations(self) -> tuple[Matrix, Vector]:
        J = se3.jacobian(self.pose, self.camera, self.matches.world)
        return se3.normal_equations(J, self.residual, self.weight)

    def moved(self, step: Vector) -> _Reprojection:
        pose = se3.moved(self.pose, step)
        return _Reprojection.at(pose, self.camera, self.matches, self.weight)

    def settled(self, step: Vector) -> bool:
        J = se3.jacobian(self.pose, self.camera, self.matches.world)
        return float(np.abs(step @ J).max()) < TOLERANCE_PX


def _least_squares(
    pose: Pose, matches: WorldMatches, camera: Camera, weight: PerMatch
) -> tuple[Pose | None, int]:
    """The pose that minimises Σ ω ‖r‖² near `pose`, or None if there are several."""
    used = matches if (weight > 0).all() else matches.take(weight > 0)
    both = np.repeat(weight[weight > 0][:, None], 2, axis=1)
    first = _Reprojection.at(pose, camera, used, both)
    if se3.solve(*first.equations()) is None:
        return None, 0
    last, iterations = climb(first, MAX_ITERATIONS)
    return last.pose, iterations


def _core_plus(
    matches: WorldMatches,
    camera: Camera,
    calibration: Calibration,
    start: Pose,
    objection: str | None,
) -> Refit:
    fit = PoseFit.of(matches, camera, calibration)
    pose, iterations = None, 0
    if objection is None:
        pose, iterations = fit.converged(start)
        objection = _UNDETERMINED if pose is None else None
    return more_likely(
        pose,
        start,
        method="core+",
        judged=fit.judged,
        covariance=partial(
            _covariance, matches=matches, camera=camera, calibration=calibration
        ),
        iterations=iterations,
        objection=objection,
    )


def _covariance(
    pose: Pose,
    matches: WorldMatches,
    camera: Camera,
    calibration: Calibration,
    *,
    field: bool,
) -> Matrix | None:
    law = floored(law_with_map(matches, calibration), matches)
    return pose_covariance.of_pose(
        pose,
        matches,
        camera,
        law=law,
        shared_error=calibration.shared_error,
        least=calibration.model_error,
        field=field,
    )
