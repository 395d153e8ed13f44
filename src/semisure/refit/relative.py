"""Relative pose after any RANSAC: the paper's study, and a refit that needs no depth.

``core`` is the paper's *epipolar CoRe*: the foot of each refined point on its epipolar
line stands in for the true point, ω is the posterior of that residual, and a weighted
eight-point fit follows. It loses (tab. relative_pose): a point may be far off along
its line and look perfect. The paper does not name its fit; ``core-lines`` takes the
same ω to a nonlinear fit of the distances, to tell the weights' part from the fit's.
``depth-core`` and ``depth-huber`` are its depth-assisted arms: depth and the baseline's
length give each point its place, and one weighted fit of the reprojection follows.

``core+`` is ours and needs no depth. It asks a line only what a line can tell: the law
of the error *across* it, the error along it integrated out
(:mod:`semisure.refit.lines`). The likelihood of all matches is climbed on R and the
unit sphere of t, five numbers. Then the two poses by which the matches would lie on a
plane climb too, where they come near, and the likeliest is taken.

Every method takes raw matches: a calibrated location is taken off first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from semisure.law.climbing import WeightedSquares, climb
from semisure.law.error_laws import error_law
from semisure.law.mixture import tail_prob
from semisure.refit.core import no_start, outcome, refit_once, start_of, without_bias
from semisure.refit.lines import STEP_TOLERANCE, AcrossLines, highest, refitted
from semisure.types import (
    Calibration,
    Estimate,
    FloatArray,
    Matches,
    PerAxis,
    PerMatch,
    Points3,
    Pose,
    Refit,
    Vector,
    as_choice,
)
from semisure.types.display import counted

_View = AcrossLines[epipolar.CalibratedViews]
RelativeMethod = Literal["core+", "core", "core-lines", "depth-core", "depth-huber"]

RELATIVE_METHODS: tuple[RelativeMethod, ...] = get_args(RelativeMethod)
# Any five matches agree with some pose. Of 10 and 12 synthetic ones, a twentieth of the
# poses is off by 60° and more; of 20, by 5°.
MIN_AGREEING = 10
ROTATION_STEPS = 10  # of reweighting
FEW = 300  # matches of which a second climb is worth its time
# Where the law leaves the direction of the translation this uncertain, the start's
# stays unless the likelihood of another is e⁵ times as large. On 50 synthetic matches
# with little parallax the most likely direction may be 10° from the truth and more.
UNCERTAIN_DEG, TELLING_NATS = 2.0, 5.0
# A pose of a plane that is farther below the peak, nats a match, is not tried: the
# matches are not near a plane. Those that led higher were 0 to 1.3 below it.
NEAR_NATS = 2.0
# Matches depart from a rotation where a tenth of them, by weight, are this many fine
# scales from where it puts them, beyond those that the law expects to be.
MIN_DEPARTURE, DEPARTURE_SHARE = 4.0, 0.1
# The lines were chosen to pass through as many as they can, coarse failures included:
# hence more than the usual three.
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
        As the matcher gave them; a calibrated location is taken off here.
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
        return _core_plus(matches, calibration, views)
    if method in ("core", "core-lines"):
        return _epipolar_core(method, matches, calibration, views)
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


def _core_plus(
    matches: Matches, calibration: Calibration, views: epipolar.CalibratedViews
) -> Refit:
    first = AcrossLines.at(views, matches, error_law(matches, calibration))
    last, iterations, reason = first, 0, None
    if len(matches) < epipolar.MINIMAL_SAMPLE:
        few = counted(len(matches), "match", "matches")
        reason = f"only {few}, a relative pose needs 5"
    else:
        last, iterations = _climbed(first)
        agreeing = float(last.weight().sum())
        if agreeing < MIN_AGREEING:
            reason = (
                f"only {agreeing:.0f} matches agree, too few to check the five "
                f"parameters of a relative pose; it takes {MIN_AGREEING}"
            )
        elif not _has_parallax(last):
            reason = (
                "the matches lie where a pure rotation puts them, so that the "
                "direction of the translation is not determined"
            )
    models = views.P_01, last.geometry.P_01
    return refitted(*models, first, last, iterations, reason, calibration)


def _climbed(first: _View) -> tuple[_View, int]:
    """The most likely pose, or the start's direction where few matches mind it.

    Few matches have several peaks: the rotation first, then all five, finds another.
    """
    last, iterations = climb(first)
    uncertain = _direction_std_deg(last) > UNCERTAIN_DEG
    if uncertain or len(first.matches) <= FEW:
        held, more = climb(replace(first, free=3))  # the rotation
        held = replace(held, free=None)
        if held.score > last.score:
            last, iterations = climb(held)
        if uncertain and last.score - held.score < TELLING_NATS:
            return held, more
    last, more = highest(last, _of_a_plane(last), within=NEAR_NATS)
    return last, iterations + more


def _of_a_plane(view: _View) -> list[epipolar.CalibratedViews]:
    """The two poses by which the matches would lie on one plane."""
    views, matches, weight = view.geometry, view.matches, view.weight()
    H_01 = plane.weighted_dlt(matches.source, matches.target, weight)
    if H_01 is None:
        return []
    rays = _rays(views, matches)
    planar = epipolar.poses_of_plane(H_01, views.K0, views.K1)
    essential = [epipolar.essential(P_01) for P_01 in planar]
    poses = [epipolar.pose_in_front(E, *rays, weight) for E in essential]
    return [replace(views, P_01=P_01) for P_01 in poses]


def _rays(views: epipolar.CalibratedViews, matches: Matches) -> tuple[Points3, Points3]:
    first = epipolar.rays(views.K0, matches.source)
    return first, epipolar.rays(views.K1, matches.target)


def _direction_std_deg(view: _View) -> float:
    """What the law itself leaves open of the direction of the translation."""
    information = view.information()
    try:
        C = np.linalg.inv(information)
    except np.linalg.LinAlgError:
        return float("inf")
    return float(np.degrees(np.sqrt(max(np.trace(C[3:, 3:]), 0.0))))


def _has_parallax(view: _View) -> bool:
    """True where the matches are not where a pure rotation puts them.

    Neither where that of the pose does nor, since beside a translation that is only
    noise it is off by as much, where the rotation that suits them best does.
    """
    return all(_departs(view, residual) for residual in _turned(view))


def _departs(view: _View, residual: PerAxis) -> bool:
    """True where too many matches on their lines have such residuals.

    By weight, those beyond MIN_DEPARTURE fine scales are counted, less those that
    the law expects there: a coarse cell that is wrong along the line leaves its
    match on it. Their number varies, so that few matches need a larger excess.
    """
    law, weight = view.match_law, view.weight()
    limit = MIN_DEPARTURE * np.linalg.norm(law.fine_scale, axis=1)
    beyond = np.linalg.norm(residual, axis=1) > limit
    along2 = view.lines.normal[:, ::-1] ** 2  # squares of the line's direction
    failed = (along2 * tail_prob(law)).sum(axis=1)
    spread = float(np.sqrt(weight**2 @ (failed * (1.0 - failed))))
    least = max(DEPARTURE_SHARE * weight.sum(), DEPARTURE_SIGMAS * spread)
    return bool(weight @ (beyond - failed) > least)


def _turned(view: _View) -> Iterator[PerAxis]:
    """Residuals under pure rotations: the pose's, then the one that suits best."""
    views, matches, scale = view.geometry, view.matches, view.match_law.fine_scale
    R, rays = views.P_01[:, :3], _rays(views, matches)
    for step in range(ROTATION_STEPS + 1):
        H_01 = views.K1 @ R @ np.linalg.inv(views.K0)
        residual = far_not_undefined(plane.residual(H_01, matches))
        if step in (0, ROTATION_STEPS):
            yield residual
        softened = np.hypot(residual, scale).sum(axis=1)
        R = nearest_rotation(*rays, 1.0 / (scale.sum(axis=1) * softened))


def _epipolar_core(
    method: str,
    matches: Matches,
    calibration: Calibration,
    views: epipolar.CalibratedViews,
) -> Refit:
    start = views.P_01

    def eight_point(weight: PerMatch) -> tuple[Pose | None, int]:
        rays = _rays(views, matches)
        E = epipolar.weighted_eight_point(*rays, weight)
        return None if E is None else epipolar.pose_in_front(E, *rays, weight), 1

    def look(P_01: Pose) -> tuple[FloatArray, FloatArray]:
        lines = replace(views, P_01=P_01).lines(matches)
        return lines.distance, lines.jacobian

    def nonlinear(weight: PerMatch) -> tuple[Pose | None, int]:
        return _least_squares(start, look, weight)

    fit = eight_point if method == "core" else nonlinear
    offset, name = views.lines(matches).offset, "an essential matrix"
    refit = refit_once("core", matches, calibration, start, offset, fit, name=name)
    return replace(refit, method=method)


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
        there = replace(views, P_01=P_01)
        residual, J = se3.reprojection(there, used, used_depth, baseline)
        return residual.ravel(), J.reshape(-1, 5)

    def fit(weight: PerMatch) -> tuple[Pose | None, int]:
        return _least_squares(start, look, np.repeat(weight, 2))

    kind = method.removeprefix("depth-")
    residual = look(start)[0].reshape(-1, 2)
    refit = refit_once(kind, used, calibration, start, residual, fit, name="a pose")
    weight[has_depth] = refit.weight
    return replace(refit, method=method, weight=weight)


def _least_squares(
    start: Pose,
    look: Callable[[Pose], tuple[FloatArray, FloatArray]],
    weight: FloatArray,
) -> tuple[Pose, int]:
    """The pose of the least weighted squares of the residuals that `look` gives."""

    def settled(step: Vector, J: FloatArray) -> bool:
        return bool(np.abs(step).max() < STEP_TOLERANCE)

    first = WeightedSquares(start, look, weight, epipolar.moved, settled)
    last, iterations = climb(first)
    return last.model, iterations
