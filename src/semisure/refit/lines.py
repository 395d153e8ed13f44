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
own coarse scales hold more information, but the failures of one pair are correlated and
follow its structure: on real pairs their small pulls added up and biased the pose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

import numpy as np

from semisure.errors import InputError
from semisure.geometry.epipolar import CAMERA_FLOOR, CalibratedViews, Lines
from semisure.geometry.fundamental import Seven
from semisure.law.climbing import Ascent, climb
from semisure.law.error_laws import error_law
from semisure.law.families import LAPLACE
from semisure.law.mixture import ErrorLaw, expit
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

BACKGROUND = 0.02  # least prior chance of an outlier
# Per match below a maximum, and in all above it: neighbours err together.
NEAR_NATS, CLEAR_NATS = 2.0, 20.0
STEP_TOLERANCE = 1e-7  # radians, or half-diagonals: the parameters' units

# Standard deviations of intrinsics: of the principal point in diagonals, of the focal
# length as a share of it. A principal point in the very middle was not measured but
# assumed. Published calibrations of a few cameras (of the TUM RGB-D, EuRoC, KITTI and
# Strecha sets) have it about 1 % of the diagonal from the middle; that a calibration is
# good to a tenth of that is a guess.
MEASURED, ASSUMED = 1e-3, 1e-2
MIDDLE_PX = 0.51  # nearer to the middle, by either convention of pixels, is no chance
ONE_CAMERA = 0.01  # focal lengths that differ by less are of one, which errs once


@dataclass(frozen=True, slots=True, eq=False)
class LineLaw:
    """The law of n distances from lines: one peak and a constant."""

    major: PerMatch  # px, a
    minor: PerMatch  # px, b ≤ a
    share: PerMatch  # chance of the peak
    background: PerMatch  # density per px of all else

    @classmethod
    def across(cls, law: ErrorLaw, normal: PerAxis, diagonal: PerMatch) -> LineLaw:
        """The law across lines of unit `normal` (n, 2), of matches less their location.

        A failure may lie anywhere within the `diagonal` of its image, px. A share of
        the diagonal, for lenses and intrinsics, is added to both scales in quadrature.
        """
        if law.family is not LAPLACE:
            raise InputError(
                "The law across an epipolar line is derived for Laplace components; "
                "use a calibration with another law than 'gaussian'."
            )
        scale = np.hypot(normal * law.fine_scale, CAMERA_FLOOR * diagonal[:, None])
        share = (1.0 - BACKGROUND) * expit(-law.tail_logit).prod(axis=1)
        return cls(
            major=scale.max(axis=1),
            minor=scale.min(axis=1),
            share=share,
            background=(1.0 - share) / diagonal,
        )

    def _peak(self, distance: PerMatch) -> tuple[PerMatch, PerMatch]:
        """Share times density, and share times −density'/d."""
        d, a, b = np.abs(distance), self.major, self.minor
        phi = _phi(d * (a - b) / (a * b))
        height = self.share * np.exp(-d / a) / (2.0 * (a + b))
        return height * (1.0 + d / a * phi), height * phi / (a * b)

    def log_density(self, distance: PerMatch) -> PerMatch:
        """log p(d), nats."""
        return np.log(self._peak(distance)[0] + self.background)

    def coarse_success(self, distance: PerMatch) -> PerMatch:
        """Posterior that both cells were right, given d."""
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
        weight, step = self.pull(distance), 1e-3 * self.minor
        places = distance + step, distance - step
        ahead, behind = (self.pull(place) * place for place in places)
        slope = mean_slope(weight[None], ((ahead - behind) / (2.0 * step))[None])
        size = np.sqrt(self.share) / np.hypot(self.major, self.minor)
        return Scores((weight * distance)[None], slope, size[None])


def _phi(delta: PerMatch) -> PerMatch:
    small = delta < 1e-8  # where 1 − δ/2 is exact to rounding
    safe = np.where(small, 1.0, delta)
    return np.where(small, 1.0 - 0.5 * delta, -np.expm1(-safe) / safe)


G = TypeVar("G", CalibratedViews, Seven)


@dataclass(frozen=True, slots=True, eq=False)
class AcrossLines(Generic[G]):
    """A geometry, its epipolar lines, and the likelihood of the matches under it."""

    geometry: G
    matches: Matches
    match_law: ErrorLaw
    lines: Lines
    law: LineLaw
    score: float

    @classmethod
    def at(cls, geometry: G, matches: Matches, law: ErrorLaw) -> AcrossLines[G]:
        """The lines of `geometry` for `matches` whose errors follow `law`."""
        lines = geometry.lines(matches)
        diagonal = np.linalg.norm(matches.refined_size, axis=1)
        diagonal = np.broadcast_to(diagonal, (len(matches),))
        across = LineLaw.across(law, lines.normal, diagonal)
        score = float(across.log_density(lines.distance).sum())
        return cls(geometry, matches, law, lines, across, score)

    def climbed(self) -> tuple[AcrossLines[G], int]:
        """The maximum of the likelihood near this geometry, and the number of steps."""

        def ascent(view: AcrossLines[G]) -> Ascent:
            d, J = view.lines.distance, view.lines.jacobian
            weighted = view.law.pull(d)[:, None] * J
            return Ascent(view.score, J.T @ weighted, -weighted.T @ d)

        def moved(view: AcrossLines[G], step: Vector) -> AcrossLines[G]:
            geometry = view.geometry.moved(step)
            return AcrossLines.at(geometry, view.matches, view.match_law)

        def settled(step: Vector, gain: float) -> bool:
            return bool(np.abs(step).max() < STEP_TOLERANCE)

        return climb(self, ascent, moved, settled)

    def weight(self) -> PerMatch:
        """Posterior that both coarse cells were right."""
        return self.law.coarse_success(self.lines.distance)

    def covariance(
        self, calibration: Calibration, *, field: bool = True
    ) -> Matrix | None:
        """k × k of the geometry's parameters; None if they are not determined."""
        lens = errors = None
        if field:
            moves = radial(self.matches.refined, self.matches.refined_size)
            lens = (self.lines.normal.T * moves).sum(axis=0)[None, None]
            if isinstance(self.geometry, CalibratedViews):
                share = calibration.model_error
                errors = intrinsics_errors(self.geometry, self.matches, share)[None]
        with np.errstate(all="ignore"):
            return covariance(
                np.clip(self.matches.target, 0.0, self.matches.target_size),
                self.law.scores(self.lines.distance),
                # ∂ prediction: the distance falls as the line nears its point.
                -self.lines.jacobian.T[None],
                lens=lens,
                errors=errors,
            )


def intrinsics_errors(
    views: CalibratedViews, matches: Matches, share: float | None
) -> FloatArray:
    """Moves of the distances from lines by errors of the intrinsics, px, (k, n).

    Errors of one standard deviation, of principal point and focal length of each
    camera, or of one that took both images. `share` replaces the usual deviations.
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
    """Copies of the intrinsics, each with one error of a standard deviation."""
    if share is None:
        offset = np.abs(K[:2, 2] - 0.5 * (np.array(size) - 1.0))
        share = ASSUMED if bool((offset < MIDDLE_PX).all()) else MEASURED
    errors = np.zeros((3, 3, 3))
    errors[[0, 1], [0, 1], 2] = share * np.hypot(*size)
    errors[2, [0, 1], [0, 1]] = share * K[[0, 1], [0, 1]]
    return list(K + errors)


def refit_lines(
    start: FloatArray,
    geometry_of: Callable[[FloatArray], G],
    matches: Matches,
    calibration: Calibration,
    objection: Callable[[AcrossLines[G]], str | None],
    rivals: Callable[[AcrossLines[G]], list[FloatArray]] = lambda peak: [],
) -> Refit:
    """``core+``: the maximum near the start, unless there is an `objection` to it.

    Models that fit the matches nearly as well, `rivals` of that maximum, may lead to a
    clearly higher one.
    """
    law = error_law(matches, calibration)
    first = AcrossLines.at(geometry_of(start), matches, law)
    peak, iterations = first.climbed()
    for model in rivals(peak):
        rival = AcrossLines.at(geometry_of(model), matches, law)
        if rival.score > peak.score - NEAR_NATS * peak.weight().sum():
            rival, steps = rival.climbed()
            iterations += steps
            peak = rival if rival.score > peak.score + CLEAR_NATS else peak
    model = peak.geometry.model
    # The covariance is in the tangent of what `geometry_of` makes of the model.
    last = AcrossLines.at(geometry_of(model), matches, law)
    reason = objection(last)
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
