"""Relative pose after any RANSAC: the paper's study, and a refit that needs no depth.

``core`` is the paper's *epipolar CoRe*: the foot of each refined point on its epipolar
line stands in for the true point, ω is the posterior of that residual, and a weighted
eight-point fit follows. It loses (tab. relative_pose): a point may be far off along
its line and look perfect. The paper does not name its fit; ``core-lines`` takes the
same ω to a nonlinear fit of the distances, to tell the weights' part from the fit's.
``depth-core`` and ``depth-huber`` are its depth-assisted arms: depth and the baseline's
length give each point its place, and one weighted fit of the reprojection follows.

``core+`` is ours and needs no depth. It asks a line only what a line can tell: the law
of the error *across* it, the error along it integrated out (:mod:`semisure.linelaw`).
The likelihood of all matches is climbed on R and the unit sphere of t, five numbers,
by damped Gauss–Newton steps of which none is taken that loses likelihood.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike

from semisure import linelaw, weighting
from semisure.errors import InputError
from semisure.geometry import epipolar
from semisure.mixture import STD_FLOOR_PX, ErrorLaw
from semisure.starting import FAR_PX, kept, start_of
from semisure.types import Calibration, Estimate, FloatArray, Matches, Refit
from semisure.variants import error_law

RelativeMethod = Literal["core+", "core", "core-lines", "depth-core", "depth-huber"]
RELATIVE_METHODS: tuple[str, ...] = get_args(RelativeMethod)

MAX_ITERATIONS = 50
ANGLE_TOLERANCE = 1e-7  # radians
# What intrinsics and lenses hold to, as a share of the image's diagonal. Smaller than
# a plane's (refit.MODEL_FLOOR): an epipolar line bends less than a scene does.
CAMERA_FLOOR = 1e-4
# The matches show a translation where a tenth of them, by weight, are this many fine
# scales from where a pure rotation puts them; of errors alone less than 1 % are.
MIN_PARALLAX, PARALLAX_SHARE = 4.0, 0.1


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
    initial
        What :func:`estimate_relative` returned, or any [R | t] with X₁ = R X₀ + t.
    K0, K1
        Intrinsics in px, pixel centres at integers.
    depth, baseline
        For the depth-assisted arms only: depth of each match's unrefined point, (n,),
        NaN where unknown, and ‖t‖ in the same unit.
    """
    if method not in RELATIVE_METHODS:
        raise InputError(
            f"method must be one of {', '.join(RELATIVE_METHODS)}, but is {method!r}."
        )
    cameras = (
        epipolar.checked_intrinsics(K0, "K0"),
        epipolar.checked_intrinsics(K1, "K1"),
    )
    start, _ = start_of(initial, len(matches), epipolar.checked_pose)
    if start is None:
        reason = initial.reason if isinstance(initial, Estimate) else None
        return kept(len(matches), None, method, reason or "there is no initial model")
    law = error_law(matches, calibration)
    if method == "core+":
        return _core_plus(matches, law, start, *cameras)
    if method.startswith("depth"):
        metric = _checked_depth(matches, depth, baseline)
        return _depth_assisted(method, matches, law, start, *cameras, *metric)
    return _epipolar_core(method, matches, law, start, *cameras)


def _checked_depth(
    matches: Matches, depth: ArrayLike | None, baseline: float | None
) -> tuple[FloatArray, float]:
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


class _View(Protocol):
    """A pose, how good it is, and which way is better."""

    P_01: FloatArray
    score: float

    def equations(self) -> tuple[FloatArray, FloatArray]:
        """JᵀWJ and JᵀWr of the next step, (5, 5) and (5,)."""


_V = TypeVar("_V", bound=_View)


def _climb(view: _V, look: Callable[[FloatArray], _V]) -> tuple[_V, int]:
    """The view where no step gains, by Levenberg–Marquardt; never a worse one."""
    damping, count = 1e-4, 0
    for count in range(1, MAX_ITERATIONS + 1):
        normal, pull = view.equations()
        # A direction without any weight is left where it is.
        ridge = np.diag(normal) + 1e-12 * np.trace(normal)
        if not (np.isfinite(normal).all() and ridge.min() > 0):
            return view, count
        better = None
        while better is None and damping < 1e6:
            step = -np.linalg.solve(normal + damping * np.diag(ridge), pull)
            trial = look(epipolar.moved(view.P_01, step))
            better = trial if trial.score > view.score else None
            damping = damping * 10.0 if better is None else max(damping / 10.0, 1e-9)
        if better is None:
            return view, count
        view = better
        if np.abs(step).max() < ANGLE_TOLERANCE:
            return view, count
    return view, count


class _Likelihood:
    """The law across the lines of one pose."""

    def __init__(
        self,
        P_01: FloatArray,
        matches: Matches,
        law: ErrorLaw,
        K0: FloatArray,
        K1: FloatArray,
    ) -> None:
        self.P_01 = P_01
        self.lines = epipolar.epipolar_lines(P_01, matches, K0, K1)
        diagonal = np.linalg.norm(matches.refined_size, axis=1)
        extent = np.broadcast_to(diagonal, (len(matches),))
        normal = self.lines.normal
        self.law = linelaw.across(law, normal, CAMERA_FLOOR * extent, extent)
        density = linelaw.log_density(self.law, self.lines.distance)
        self.score = float(density.sum())

    def equations(self) -> tuple[FloatArray, FloatArray]:
        d, J = self.lines.distance, self.lines.jacobian
        weighted = linelaw.pull(self.law, d)[:, None] * J
        return J.T @ weighted, weighted.T @ (d - self.law.shift)

    def weight(self) -> FloatArray:
        return linelaw.coarse_success(self.law, self.lines.distance)


def _core_plus(
    matches: Matches, law: ErrorLaw, start: FloatArray, K0: FloatArray, K1: FloatArray
) -> Refit:
    def look(P_01: FloatArray) -> _Likelihood:
        return _Likelihood(P_01, matches, law, K0, K1)

    first = look(start)
    if len(matches) < epipolar.MINIMAL_SAMPLE:
        reason = f"only {len(matches)} matches, a relative pose needs 5"
        return kept(len(matches), start, "core+", reason, first.weight())
    last, iterations = _climb(first, look)
    if not _has_parallax(last, matches, law, K0, K1):
        reason = (
            "the matches lie where a pure rotation puts them, so that the direction of "
            "the translation is not determined"
        )
        return kept(len(matches), start, "core+", reason, first.weight())
    return Refit(
        model=last.P_01,
        weight=last.weight(),
        initial=start,
        method="core+",
        iterations=iterations,
        log_likelihood=(first.score, last.score),
        std_floor_px=STD_FLOOR_PX,
    )


def _has_parallax(
    view: _Likelihood,
    matches: Matches,
    law: ErrorLaw,
    K0: FloatArray,
    K1: FloatArray,
) -> bool:
    """True where a share of the weight is not where a pure rotation puts it."""
    far = epipolar.at_infinity(view.P_01, matches, K0, K1)
    on_target = (matches.side == 1)[:, None]
    point = np.where(on_target, matches.target, matches.source) - law.location
    parallax = np.linalg.norm(point - far, axis=1)
    beyond = parallax > MIN_PARALLAX * np.linalg.norm(law.fine_scale, axis=1)
    weight = view.weight()
    return bool(weight[beyond].sum() > PARALLAX_SHARE * weight.sum())


class _Squares:
    """A weighted sum of squares of one pose, weights given."""

    def __init__(
        self, P_01: FloatArray, residual: FloatArray, J: FloatArray, weight: FloatArray
    ) -> None:
        used = weight > 0
        self.P_01 = P_01
        self.residual, self.J, self.weight = residual[used], J[used], weight[used]
        self.score = -float(self.weight @ self.residual**2)

    def equations(self) -> tuple[FloatArray, FloatArray]:
        weighted = self.weight[:, None] * self.J
        return self.J.T @ weighted, weighted.T @ self.residual


def _epipolar_core(
    method: str,
    matches: Matches,
    law: ErrorLaw,
    start: FloatArray,
    K0: FloatArray,
    K1: FloatArray,
) -> Refit:
    lines = epipolar.epipolar_lines(start, matches, K0, K1)
    weight = weighting.core(law, lines.offset)
    if method == "core":
        x0, x1 = epipolar.rays(K0, matches.source), epipolar.rays(K1, matches.target)
        E = epipolar.weighted_eight_point(x0, x1, weight)
        if E is None:
            reason = "the weighted matches do not determine an essential matrix"
            return kept(len(matches), start, method, reason, weight)
        model, iterations = epipolar.pose_in_front(E, x0, x1, weight), 1
    else:

        def look(P_01: FloatArray) -> _Squares:
            at = epipolar.epipolar_lines(P_01, matches, K0, K1)
            shift = (at.normal * law.location).sum(axis=1)
            return _Squares(P_01, at.distance - shift, at.jacobian, weight)

        view, iterations = _climb(look(start), look)
        model = view.P_01
    return Refit(
        model=model,
        weight=weight,
        initial=start,
        method=method,
        iterations=iterations,
        std_floor_px=STD_FLOOR_PX,
    )


def _depth_assisted(
    method: str,
    matches: Matches,
    law: ErrorLaw,
    start: FloatArray,
    K0: FloatArray,
    K1: FloatArray,
    depth: FloatArray,
    baseline: float,
) -> Refit:
    known = np.isfinite(depth) & (depth > 0)
    if known.sum() < epipolar.MINIMAL_SAMPLE:
        reason = f"only {known.sum()} matches have a depth, a relative pose needs 5"
        return kept(len(matches), start, method, reason)
    seen, seen_law = matches.take(known), law.take(known)

    def residual(P_01: FloatArray) -> tuple[FloatArray, FloatArray]:
        r, J = epipolar.reprojection(P_01, seen, K0, K1, depth[known], baseline)
        return np.nan_to_num(r, nan=FAR_PX, posinf=FAR_PX, neginf=-FAR_PX), J

    at_start = residual(start)[0]
    huber = method == "depth-huber"
    weight = weighting.huber(at_start) if huber else weighting.core(seen_law, at_start)
    # A point behind the camera has no reprojection to improve.
    weight[np.abs(at_start).max(axis=1) >= FAR_PX] = 0.0

    def look(P_01: FloatArray) -> _Squares:
        r, J = residual(P_01)
        if not huber:
            r = r - seen_law.location
        return _Squares(P_01, r.ravel(), J.reshape(-1, 5), np.repeat(weight, 2))

    view, iterations = _climb(look(start), look)
    spread = np.zeros(len(matches))
    spread[known] = weight
    return Refit(
        model=view.P_01,
        weight=spread,
        initial=start,
        method=method,
        iterations=iterations,
        std_floor_px=STD_FLOOR_PX,
    )
