"""How far a refitted camera pose may be off: :mod:`semisure.refit.covariance` of it."""

from __future__ import annotations

from functools import partial

import numpy as np

from semisure.geometry import pose as se3
from semisure.geometry.camera import Camera
from semisure.mixture import ErrorLaw
from semisure.refit import intrinsics_error, model_error
from semisure.refit.covariance import extent_px, law_score, sandwich
from semisure.refit.model_error import Misfit
from semisure.refit.shared_field import Shared, bilinear_field
from semisure.refit.shelf import hold_on
from semisure.types import (
    FloatArray,
    Labels,
    Matrix,
    PerAxis,
    PerMatch,
    Pose,
    WorldMatches,
)

NUMBERS = 320  # that a covariance makes of each match, most of them for a moment


def of_pose(
    pose: Pose,
    matches: WorldMatches,
    camera: Camera,
    *,
    law: ErrorLaw | None = None,
    weight: PerMatch | None = None,
    shared_error: float | None = None,
    least: float | None = None,
    field: bool = True,
) -> Matrix | None:
    """6 × 6 of the tangent (ω, v) of :mod:`semisure.geometry.pose`, or None."""
    hold_on(NUMBERS * len(matches))
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
    misfit = Misfit(
        # What else is smooth is shared by the matches to one mapped image, not by the
        # camera.
        waves=model_error.radial(matches.points, matches.refined_size)[None],
        lenses=1,
        own=0.0,
        points=matches.points,
        residual=residual,
        rescored=partial(_rescored, law=law, weight=weight),
        extent_px=extent_px(matches),
        least_px=model_error.least_px(least, extent_px(matches), plane=False),
        most=model_error.MOST_OF_CAMERAS,
        known=intrinsics_error.of_query(matches, least),
    )
    return sandwich(J, *terms, matches.points, good, shared, misfit if field else None)


def _rescored(
    rows: Labels, residual: PerAxis, law: ErrorLaw | None, weight: PerMatch | None
) -> tuple[PerAxis, PerAxis]:
    """Weights ψ/r and slopes ψ′ of some matches at other residuals, (n, 2)."""
    some = None if weight is None else weight[rows]
    _, slope, pull = _terms(residual, None if law is None else law.take(rows), some)
    return pull, np.stack([slope[0, 0], slope[1, 1]], axis=1)


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
