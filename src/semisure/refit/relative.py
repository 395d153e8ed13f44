"""Relative pose after any RANSAC: the paper's study, and a refit that needs no depth.

``core`` is the paper's *epipolar CoRe*: the foot of each refined point on its epipolar
line stands in for the true point, ω is the posterior of that residual, and a weighted
eight-point fit follows. It loses (tab. relative_pose): a point may be far off along
its line and look perfect. The paper does not name its fit.
``depth-core`` and ``depth-huber`` are its depth-assisted arms: depth and the baseline's
length give each point its place, and one weighted fit of the reprojection follows.

``core+`` is ours and needs no depth. It uses the law of the error *across* each line,
the error along it integrated out (:mod:`semisure.refit.lines`), and maximises the
likelihood of all matches over R and the unit sphere of t, five numbers. A facade nearly
fits a second pose: both poses of a plane are tried, and the likelier one is taken.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from semisure.errors import InputError
from semisure.geometry import epipolar
from semisure.geometry import homography as plane
from semisure.geometry import pose as se3
from semisure.geometry.homography import far_not_undefined
from semisure.geometry.rotations import nearest_rotation
from semisure.law.climbing import least_squares
from semisure.law.mixture import tail_prob
from semisure.refit.core import no_start, outcome, refit_once, start_of, without_bias
from semisure.refit.lines import AcrossLines, refit_lines
from semisure.types import (
    Calibration,
    Estimate,
    FloatArray,
    Matches,
    Matrix3,
    PerAxis,
    PerMatch,
    Points3,
    Pose,
    Refit,
    as_choice,
)

RelativeMethod = Literal["core+", "core", "depth-core", "depth-huber"]

RELATIVE_METHODS: tuple[RelativeMethod, ...] = get_args(RelativeMethod)
# Any five matches agree with some pose. Of 10 and 12 synthetic ones, a twentieth of the
# poses is off by 60° and more; of 20, by 5°.
MIN_AGREEING = 10
ROTATION_STEPS = 10  # of reweighting
# There is parallax if a tenth of the matches, by weight, and besides those that the law
# expects, are this many fine scales from where a rotation puts them.
MIN_DEPARTURE, DEPARTURE_SHARE = 4.0, 0.1
# Lines are fitted to all matches, coarse failures included: hence more than the usual
# three.
DEPARTURE_SIGMAS = 4.0


def refit_relative(
    matches: Matches,
    calibration: Calibration,
    initial: Estimate | ArrayLike,
    K0: ArrayLike,
    K1: ArrayLike,
    *,
    method: RelativeMethod = "core+",
    depth: ArrayLike | None = None,
    baseline: float | None = None,
) -> Refit:
    """θ* from θ₀: [R | t] with ‖t‖ = 1, refitted to all matches by their law.

    Parameters
    ----------
    matches
        As the matcher gave them: a calibrated location is subtracted here.
    initial
        What :func:`estimate_relative` returned, or any [R | t] with X₁ = R X₀ + t.
    K0, K1
        Intrinsics in px, pixel centres at integers.
    depth, baseline
        For the depth-assisted arms only: depth of each match's unrefined point, (n,),
        NaN where unknown, and ‖t‖ in the same unit.

    Examples
    --------
    >>> import semisure
    >>> from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
    >>> K = np.array([[500.0, 0, 319.5], [0, 500.0, 239.5], [0, 0, 1]])
    >>> truth = np.column_stack([np.eye(3), [1.0, 0.0, 0.0]])
    >>> matches, _ = SyntheticMatcher().match_views(truth, K, count=500)
    >>> start = semisure.estimate_relative(matches, K, K, "ransac")
    >>> refit = refit_relative(matches, EXAMPLE_CALIBRATION, start, K, K)
    >>> bool(np.abs(refit.model - truth).max() < 0.05)
    True
    """
    as_choice("method", method, RELATIVE_METHODS)
    matches, calibration = without_bias(matches, calibration)
    K0 = epipolar.checked_intrinsics(K0, "K0")
    K1 = epipolar.checked_intrinsics(K1, "K1")
    start, _ = start_of(initial, len(matches), epipolar.checked_pose)
    if start is None:
        return no_start(initial, len(matches), method)
    views = epipolar.CalibratedViews(start, K0, K1)
    if method == "core+":
        return refit_lines(
            start,
            lambda P_01: replace(views, P_01=P_01),
            matches,
            calibration,
            _objection,
            _of_a_plane,
        )
    if method == "core":
        rays = _rays(views, matches)

        def fit(weight: PerMatch) -> tuple[Pose | None, int]:
            E = epipolar.weighted_eight_point(*rays, weight)
            return None if E is None else epipolar.pose_in_front(E, *rays, weight), 1

        offset, name = views.lines(matches).offset, "an essential matrix"
        return refit_once(method, matches, calibration, start, offset, fit, name=name)
    depth, length = _checked_depth(matches, depth, baseline)
    return _depth_assisted(method, matches, calibration, views, depth, length)


def _checked_depth(
    matches: Matches, depth: ArrayLike | None, baseline: float | None
) -> tuple[PerMatch, float]:
    if depth is None or baseline is None:
        raise InputError(
            "A depth-assisted refit needs both depth, (n,) with NaN where unknown, and "
            "baseline, the length of t in the same unit; 'core+' needs neither."
        )
    z = np.asarray(depth, dtype=np.float64)
    if z.shape != (len(matches),) or not (baseline > 0 and np.isfinite(baseline)):
        raise InputError(
            f"depth must have shape ({len(matches)},) and baseline be positive, but "
            f"they are {z.shape} and {baseline}."
        )
    return z, float(baseline)


def _objection(view: AcrossLines[epipolar.CalibratedViews]) -> str | None:
    """Why the matches do not determine a relative pose, or None."""
    agreeing = float(view.weight().sum())
    if agreeing < MIN_AGREEING:
        return (
            f"only {agreeing:.0f} matches agree, too few to check the five "
            f"parameters of a relative pose; it takes {MIN_AGREEING}"
        )
    if not _has_parallax(view):
        return (
            "the matches lie where a pure rotation puts them, so that the "
            "direction of the translation is not determined"
        )
    return None


def _of_a_plane(view: AcrossLines[epipolar.CalibratedViews]) -> list[FloatArray]:
    """The two poses under which the matches would lie on one plane."""
    views, matches, weight = view.geometry, view.matches, view.weight()
    H_01 = plane.weighted_dlt(matches.source, matches.target, weight)
    if H_01 is None:
        return []
    poses = epipolar.poses_of_plane(H_01, views.K0, views.K1)
    matrices, rays = map(epipolar.essential, poses), _rays(views, matches)
    return [epipolar.pose_in_front(E, *rays, weight) for E in matrices]


def _rays(views: epipolar.CalibratedViews, matches: Matches) -> tuple[Points3, Points3]:
    first = epipolar.rays(views.K0, matches.source)
    return first, epipolar.rays(views.K1, matches.target)


def _has_parallax(view: AcrossLines[epipolar.CalibratedViews]) -> bool:
    """True unless the matches are where some pure rotation puts them.

    Counts, by weight, matches beyond MIN_DEPARTURE fine scales from there, less those
    that the law expects: a coarse cell that is wrong along the line leaves its match on
    it. The expected number varies, so that few matches need a larger excess.
    """
    law, weight = view.match_law, view.weight()
    limit = MIN_DEPARTURE * np.linalg.norm(law.fine_scale, axis=1)
    beyond = np.linalg.norm(_residual_of_rotation(view), axis=1) > limit
    along2 = view.lines.normal[:, ::-1] ** 2  # squares of the line's direction
    failed = (along2 * tail_prob(law)).sum(axis=1)
    spread = float(np.sqrt(weight**2 @ (failed * (1.0 - failed))))
    least = max(DEPARTURE_SHARE * weight.sum(), DEPARTURE_SIGMAS * spread)
    return bool(weight @ (beyond - failed) > least)


def _residual_of_rotation(view: AcrossLines[epipolar.CalibratedViews]) -> PerAxis:
    """Residuals under the rotation that fits the matches best, not the pose's own.

    If the pose's translation is only noise, its rotation is wrong by as much.
    """
    views, matches, scale = view.geometry, view.matches, view.match_law.fine_scale
    R, rays = views.P_01[:, :3], _rays(views, matches)

    def residual(R: Matrix3) -> PerAxis:
        H_01 = views.K1 @ R @ np.linalg.inv(views.K0)
        return far_not_undefined(plane.residual(H_01, matches))

    for _ in range(ROTATION_STEPS):
        softened = np.hypot(residual(R), scale).sum(axis=1)
        R = nearest_rotation(*rays, 1.0 / (scale.sum(axis=1) * softened))
    return residual(R)


def _depth_assisted(
    method: str,
    matches: Matches,
    calibration: Calibration,
    views: epipolar.CalibratedViews,
    depth: PerMatch,
    baseline: float,
) -> Refit:
    start, has_depth = views.P_01, np.isfinite(depth) & (depth > 0)
    weight = np.zeros(len(matches))
    if has_depth.sum() < epipolar.MINIMAL_SAMPLE:
        reason = f"only {has_depth.sum()} matches have a depth, a relative pose needs 5"
        return outcome(method, start, None, weight, reason=reason)
    used, used_depth = matches.take(has_depth), depth[has_depth]

    def look(P_01: Pose) -> tuple[FloatArray, FloatArray]:
        moved = replace(views, P_01=P_01)
        residual, J = se3.reprojection(moved, used, used_depth, baseline)
        return residual.ravel(), J.reshape(-1, 5)

    def fit(weight: PerMatch) -> tuple[Pose | None, int]:
        return least_squares(start, look, np.repeat(weight, 2), epipolar.moved)

    kind = method.removeprefix("depth-")
    residual = look(start)[0].reshape(-1, 2)
    refit = refit_once(kind, used, calibration, start, residual, fit, name="a pose")
    weight[has_depth] = refit.weight
    return replace(refit, method=method, weight=weight)
