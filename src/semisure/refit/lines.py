"""Epipolar lines: the law of errors across them, residuals, and their likelihood.

Shared by relative poses (five parameters) and fundamental matrices (seven).

The line with unit normal n holds the true point somewhere, no place more likely than
another. Integrating the law of the residual r along the line leaves the density of
n·r = n_x r_x + n_y r_y at the point's signed distance d. Where the coarse cell was
right on both axes, with prior chance (1 − α_x)(1 − α_y), this is the sum of two Laplace
variables with scales a ≥ b, the larger and the smaller of |n_x| sᶠ_x and |n_y| sᶠ_y:

    p(d | a, b) = e^{−|d|/a} / (2 (a + b)) · [1 + |d|/a · φ(δ)]
    δ = |d| (a − b) / (a b),   φ(δ) = (1 − e^{−δ}) / δ,   φ(0) = 1

which is (a e^{−|d|/a} − b e^{−|d|/b}) / (2 (a² − b²)) without its 0/0 at a = b.
Where a coarse cell was wrong, d is anything up to the image's diagonal. The mixture's
own coarse scales would say more, but failures of one pair err together and along its
structure: on real pairs their pull, small for each, led the pose astray.

A climb ends on the peak that its start stands under, and a robust estimator does not
know which of several is the highest. So other geometries climb too (:func:`highest`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, Protocol, TypeVar

import numpy as np

from semisure.errors import InputError
from semisure.geometry.epipolar import CAMERA_FLOOR, CalibratedViews, Lines
from semisure.law.climbing import climb
from semisure.law.families import LAPLACE
from semisure.law.mixture import ErrorLaw, expit, rising_root
from semisure.refit.core import outcome
from semisure.refit.covariance import Scores, covariance, mean_slope, radial
from semisure.types import (
    Calibration,
    FloatArray,
    Matches,
    Matrix,
    Matrix3,
    PerAxis,
    PerMatch,
    Refit,
    Vector,
)

BACKGROUND = 0.02  # least chance that a match says nothing at all
STEP_TOLERANCE = 1e-7  # radians, or half-diagonals: the parameters' units

# Standard deviations of intrinsics: of the principal point in diagonals, of the focal
# length as a share of it. A principal point in the very middle was not measured but
# assumed. Published calibrations of a few cameras (of the TUM RGB-D, EuRoC, KITTI and
# Strecha sets) have it about 1 % of the diagonal from the middle; that a calibration is
# good to a tenth of that is a guess.
MEASURED, ASSUMED = 1e-3, 1e-2
MIDDLE_PX = 0.51  # so near to the middle, by either convention of pixels, is no chance
ONE_CAMERA = 0.01  # focal lengths that differ by less are of one, which errs once
MANY = 400.0  # so many matches that agree leave no second peak
AXES, AWAY = 2, (5.0, 15.0, 50.0)  # least determined ones; standard deviations
FARTHEST = 0.5  # radians, or half-diagonals
LOOKED_AT = 600  # matches
STEPS, FOLLOWED = 10, 3  # of all, and so many again of the highest of them
HIGHER_NATS = 1.0  # by those matches; less is the same peak again
CLEAR_NATS = 5.0  # by all matches: e⁵ times as likely


@dataclass(frozen=True, slots=True, eq=False)
class LineLaw:
    """The law of n distances from lines: one peak and a constant."""

    major: PerMatch  # px, a
    minor: PerMatch  # px, b ≤ a
    share: PerMatch  # chance of the peak
    background: PerMatch  # density per px of all else
    shift: PerMatch  # px, n·μ

    @classmethod
    def across(
        cls, law: ErrorLaw, normal: PerAxis, floor_px: PerMatch, extent_px: PerMatch
    ) -> LineLaw:
        """The law across lines of unit `normal` (n, 2).

        `floor_px` is added to both scales in quadrature: how far cameras deviate from
        their model. `extent_px` is the width over which a failure may lie.
        """
        if law.family is not LAPLACE:
            raise InputError(
                "The law across an epipolar line is derived for Laplace components; "
                "use a calibration with another law than 'gaussian'."
            )
        scale = np.hypot(normal * law.fine_scale, floor_px[:, None])
        share = (1.0 - BACKGROUND) * expit(-law.tail_logit).prod(axis=1)
        return cls(
            major=scale.max(axis=1),
            minor=scale.min(axis=1),
            share=share,
            background=(1.0 - share) / extent_px,
            shift=(normal * law.location).sum(axis=1),
        )

    def _peak(self, distance: PerMatch) -> tuple[PerMatch, PerMatch]:
        """Share times density, and share times −density'/d."""
        d, a, b = np.abs(distance - self.shift), self.major, self.minor
        phi = _phi(d * (a - b) / (a * b))
        height = self.share * np.exp(-d / a) / (2.0 * (a + b))
        return height * (1.0 + d / a * phi), height * phi / (a * b)

    def log_density(self, distance: PerMatch) -> PerMatch:
        """log p(d), nats."""
        return np.log(self._peak(distance)[0] + self.background)

    def coarse_success(self, distance: PerMatch) -> PerMatch:
        """Posterior that both cells were right: all that d says of it."""
        density, _ = self._peak(distance)
        return density / (density + self.background)

    def pull(self, distance: PerMatch) -> PerMatch:
        """−p'(d) / (d p(d)), px⁻²: the factor of d² in the next weighted fit.

        A Laplace variable is a Gaussian of unknown variance and so is the sum of two:
        this is the expected precision given d, the E-step whose M-step is least
        squares.
        """
        density, slope = self._peak(distance)
        return slope / (density + self.background)

    def scores(self, distance: PerMatch) -> Scores:
        """The scores of distances, for a covariance; one axis.

        Slopes are by differences: the peak of two Laplace variables has no handy one.
        """
        d, step = distance - self.shift, 1e-3 * self.minor
        weight = self.pull(distance)
        ahead, behind = (self.pull(distance + h) * (d + h) for h in (step, -step))
        slope = mean_slope(weight[None], ((ahead - behind) / (2.0 * step))[None])
        size = np.sqrt(self.share) / np.hypot(self.major, self.minor)
        return Scores((weight * d)[None], slope, size[None])


def _phi(delta: PerMatch) -> PerMatch:
    small = delta < 1e-8  # where 1 − δ/2 is exact to rounding
    safe = np.where(small, 1.0, delta)
    return np.where(small, 1.0 - 0.5 * delta, -np.expm1(-safe) / safe)


def across_quantile(law: ErrorLaw, normal: PerAxis, probability: float) -> PerMatch:
    """The distance across a line of unit `normal` that is exceeded by 1 − probability.

    Of matches whose coarse cell was right, without a location, px. The density above
    has the integral P(|d| > x) = e^{−x/a} [1 + x b φ(δ) / (a (a + b))].
    """
    scale = np.abs(normal) * law.fine_scale
    a = scale.max(axis=1)
    b = np.maximum(scale.min(axis=1), 1e-9 * a)

    def excess(x: PerMatch) -> PerMatch:
        phi = _phi(x * (a - b) / (a * b))
        beyond = np.exp(-x / a) * (1.0 + x * b * phi / (a * (a + b)))
        return 1.0 - probability - beyond

    return np.asarray(rising_root(excess, np.zeros_like(a), 60.0 * a, tolerance=1e-6))


G = TypeVar("G", bound="Geometry")


class Geometry(Protocol):
    """An epipolar geometry that can be moved along its own parameters."""

    def lines(self, matches: Matches) -> Lines: ...
    def moved(self: G, step: Vector) -> G: ...


@dataclass(frozen=True, slots=True, eq=False)
class AcrossLines(Generic[G]):
    """A geometry, its lines, and the likelihood of the matches by them."""

    geometry: G
    matches: Matches
    match_law: ErrorLaw
    lines: Lines
    law: LineLaw
    score: float
    free: int | None = None  # so many parameters move, if not all

    @classmethod
    def at(cls, geometry: G, matches: Matches, law: ErrorLaw) -> AcrossLines[G]:
        """The view of `matches`, whose errors follow `law`, from a geometry."""
        lines = geometry.lines(matches)
        diagonal = np.linalg.norm(matches.refined_size, axis=1)
        extent = np.broadcast_to(diagonal, (len(matches),))
        across = LineLaw.across(law, lines.normal, CAMERA_FLOOR * extent, extent)
        score = float(across.log_density(lines.distance).sum())
        return cls(geometry, matches, law, lines, across, score)

    def equations(self) -> tuple[Matrix, Vector]:
        d, J = self.lines.distance, self.lines.jacobian
        weighted = self.law.pull(d)[:, None] * J
        normal, pull = J.T @ weighted, -weighted.T @ (d - self.law.shift)
        return normal[: self.free, : self.free], pull[: self.free]

    def moved(self, step: Vector) -> AcrossLines[G]:
        whole = np.zeros(self.lines.jacobian.shape[1])
        whole[: self.free] = step
        return replace(self.by(self.geometry.moved(whole)), free=self.free)

    def by(self, geometry: G) -> AcrossLines[G]:
        """The same matches by another geometry."""
        return AcrossLines.at(geometry, self.matches, self.match_law)

    def settled(self, step: Vector) -> bool:
        return bool(np.abs(step).max() < STEP_TOLERANCE)

    def weight(self) -> PerMatch:
        """Posterior that both coarse cells were right."""
        return self.law.coarse_success(self.lines.distance)

    def information(self) -> Matrix:
        """k × k of what the matches tell of the parameters, by their law's variance.

        Σ ω JJᵀ / var. That of the next step has weights by the residuals, the largest
        on the few matches that the fit passes through.
        """
        J = self.lines.jacobian
        variance = 2.0 * (self.law.major**2 + self.law.minor**2)
        return J.T @ ((self.weight() / variance)[:, None] * J)

    def covariance(
        self, calibration: Calibration, *, field: bool = True
    ) -> Matrix | None:
        """k × k of the geometry's parameters; None if they are not determined."""
        lens = known = None
        if field:
            moves = radial(self.matches.refined, self.matches.refined_size)
            lens = (self.lines.normal.T * moves).sum(axis=0)[None, None]
            if isinstance(self.geometry, CalibratedViews):
                share = calibration.model_error
                known = intrinsics_errors(self.geometry, self.matches, share)[None]
        with np.errstate(all="ignore"):
            return covariance(
                np.clip(self.matches.target, 0.0, self.matches.target_size),
                self.law.scores(self.lines.distance),
                # ∂ prediction: the distance falls as the line follows its point.
                -self.lines.jacobian.T[None],
                lens=lens,
                known=known,
            )


def intrinsics_errors(
    views: CalibratedViews, matches: Matches, share: float | None
) -> FloatArray:
    """px by which usual errors of the intrinsics move distances from lines, (k, n).

    Of principal point and focal length, of either camera or of one that took both
    images. `share` in place of the usual deviations says how good they are.
    """
    first = _misstated(views.K0, matches.source_size, share)
    second = _misstated(views.K1, matches.target_size, share)
    f0, f1 = views.K0[0, 0], views.K1[0, 0]
    if matches.source_size == matches.target_size and abs(f0 - f1) < ONE_CAMERA * f0:
        cameras = list(zip(first, second, strict=True))
    else:
        cameras = [(K, views.K1) for K in first] + [(views.K0, K) for K in second]
    distances = [
        replace(views, K0=K0, K1=K1).lines(matches).distance for K0, K1 in cameras
    ]
    return np.array(distances) - views.lines(matches).distance


def _misstated(K: Matrix3, size: tuple[int, int], share: float | None) -> list[Matrix3]:
    """The intrinsics with one error each, of a standard deviation."""
    if share is None:
        off = np.abs(K[:2, 2] - 0.5 * (np.array(size) - 1.0))
        share = ASSUMED if bool((off < MIDDLE_PX).all()) else MEASURED
    errors = np.zeros((3, 3, 3))
    errors[[0, 1], [0, 1], 2] = share * np.hypot(*size)
    errors[2, [0, 1], [0, 1]] = share * K[[0, 1], [0, 1]]
    return list(K + errors)


def highest(
    peak: AcrossLines[G], others: Sequence[G], *, within: float = np.inf
) -> tuple[AcrossLines[G], int]:
    """The peak itself, or one above `others` that is clearly higher, and its steps.

    Of the others those farther below the peak than `within`, nats a match that agrees,
    are not tried.
    """
    if not others:
        return peak, 0
    here, _ = climb(_thinned(peak), STEPS)
    least = here.score - within * here.weight().sum()
    starts = [start for start in (here.by(g) for g in others) if start.score > least]
    tried = sorted((climb(start, STEPS)[0] for start in starts), key=_score)
    tried = [climb(view, STEPS)[0] for view in tried[-FOLLOWED:]]
    best = max(tried, key=_score, default=here)
    if not best.score > here.score + HIGHER_NATS:
        return peak, 0
    other, steps = climb(peak.by(best.geometry))
    return (other, steps) if other.score > peak.score + CLEAR_NATS else (peak, 0)


def aside(peak: AcrossLines[G]) -> list[G]:
    """The geometry moved along what the matches determine least.

    There a large move changes few distances: other peaks lie both ways along the two
    least determined axes. Where many matches agree there never was one.
    """
    information = peak.information()
    few = 0 < peak.weight().sum() <= MANY
    if not (few and np.isfinite(information).all()):
        return []
    values, vectors = np.linalg.eigh(information)
    moved = []
    for value, axis in zip(values[:AXES], vectors.T[:AXES], strict=True):
        farthest = FARTHEST / np.abs(axis).max()
        for away in AWAY:
            length = min(away / np.sqrt(value), farthest) if value > 0 else farthest
            moved += [peak.geometry.moved(s * length * axis) for s in (1.0, -1.0)]
    return moved


def refitted(
    start: FloatArray,
    model: FloatArray,
    first: AcrossLines[G],
    last: AcrossLines[G],
    iterations: int,
    reason: str | None,
    calibration: Calibration,
) -> Refit:
    """The refit that climbed to `last`, or kept its start for a `reason`."""
    view, uncertainty = first, None
    if reason is None:
        view, uncertainty = last, partial(last.covariance, calibration)
    return outcome(
        "core+",
        start,
        model,
        view.weight(),
        reason=reason,
        iterations=iterations,
        log_likelihood=(first.score, view.score),
        uncertainty=uncertainty,
    )


def _score(view: AcrossLines[G]) -> float:
    return view.score if np.isfinite(view.score) else -np.inf


def _thinned(view: AcrossLines[G]) -> AcrossLines[G]:
    """The same view of some of the matches, evenly taken."""
    count = len(view.matches)
    if count <= LOOKED_AT:
        return view
    rows = np.linspace(0, count - 1, LOOKED_AT).astype(np.int64)
    some, law = view.matches.take(rows), view.match_law.take(rows)
    return AcrossLines.at(view.geometry, some, law)
