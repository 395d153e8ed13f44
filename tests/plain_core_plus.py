"""``core+`` as its equations read, one line for each, without regard for time.

What :mod:`semisure.refit` computes in blocks, in single precision here and there, and
with extrapolated steps must end where this ends.
"""

from __future__ import annotations

import numpy as np

from semisure.error_laws import error_law
from semisure.geometry import homography as plane
from semisure.geometry import pose as se3
from semisure.geometry.camera import Camera
from semisure.mixture import ErrorLaw, coarse_success
from semisure.refit.core_plus import floored
from semisure.types import Calibration, FloatArray, Matches, WorldMatches

STEPS = 300


def whitened(law: ErrorLaw, residual: FloatArray) -> FloatArray:
    """Weights per axis, ω / (sᶠ √(r² + sᶠ²)), with ω = ω_x ω_y."""
    success = coarse_success(law, residual)
    weight = success[:, 0] * success[:, 1]
    return weight[:, None] / (law.fine_scale * np.hypot(residual, law.fine_scale))


def derivatives(H: FloatArray, matches: Matches) -> FloatArray:
    """∂ residual / ∂ the nine entries of H, by central differences, (2 n, 9)."""
    columns = []
    for i in range(9):
        step = np.zeros(9)
        step[i] = 1e-6 * max(np.abs(H).ravel()[i], 1e-5)
        up, down = (H + sign * step.reshape(3, 3) for sign in (1, -1))
        change = plane.residual(up, matches) - plane.residual(down, matches)
        columns.append(change.ravel() / (2 * step[i]))
    return np.stack(columns, axis=1)


def gauss_newton(H: FloatArray, matches: Matches, weight: FloatArray) -> FloatArray:
    """H after one step that lowers Σ ω r²; its last entry stays 1."""
    J, w = derivatives(H, matches)[:, :8], weight.ravel()
    unit = 1.0 / np.sqrt((w[:, None] * J * J).sum(axis=0))
    J = J * unit
    step = np.linalg.solve(
        J.T @ (w[:, None] * J), J.T @ (w * plane.residual(H, matches).ravel())
    )
    return H - np.append(unit * step, 0.0).reshape(3, 3)


def homography(
    matches: Matches, calibration: Calibration, start: FloatArray
) -> FloatArray:
    """Steps of reweighted least squares until they stand still."""
    law, H = floored(error_law(matches, calibration), matches), start / start[2, 2]
    frame = plane.corners(matches.source_size)
    for _ in range(STEPS):
        weight = whitened(law, plane.residual(H, matches))
        following = gauss_newton(H, matches, weight)
        moved = np.abs(plane.project(following, frame) - plane.project(H, frame)).max()
        H = following
        if moved < 1e-7:  # derivatives by differences have no more digits
            return H
    raise AssertionError(f"still moving by {moved} px")


def pose(
    matches: WorldMatches, camera: Camera, calibration: Calibration, start: FloatArray
) -> FloatArray:
    """The same for a pose in a map without errors of its own."""
    law, P = floored(error_law(matches, calibration), matches), start
    for _ in range(STEPS):
        residual = matches.points - se3.project(P, camera, matches.world)
        J = se3.jacobian(P, camera, matches.world)
        w = whitened(law, residual).T
        normal = np.einsum("akn,an,aln->kl", J, w, J)
        step = np.linalg.solve(normal, np.einsum("akn,an,na->k", J, w, residual))
        P = se3.moved(P, step)
        if np.abs(np.einsum("akn,k->an", J, step)).max() < 1e-9:
            return P
    raise AssertionError("the pose still moves")
