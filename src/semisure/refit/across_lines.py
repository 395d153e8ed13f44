"""The likelihood of an epipolar geometry: what lines can tell of each match.

Shared by relative poses (five parameters) and fundamental matrices (seven). The law of
the error across a line is :mod:`semisure.refit.line_law`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np

from semisure.geometry.epipolar import CalibratedViews, Lines
from semisure.law import mixture
from semisure.law.mixture import ErrorLaw
from semisure.refit import line_law
from semisure.refit.covariance import covariance, radial
from semisure.types import (
    Calibration,
    FloatArray,
    Matches,
    Matrix,
    Matrix3,
    PerMatch,
    Points,
    Vector,
)

STEP_TOLERANCE = 1e-7  # radians, or half-diagonals: the parameters' units
# How far intrinsics and lenses deviate, as a share of the image's diagonal. Smaller
# than a plane's (core_plus.MODEL_FLOOR): an epipolar line bends less than a scene does.
CAMERA_FLOOR = 1e-4
# Matches depart from a simpler model where a tenth of them, by weight, are this many
# fine scales from where it puts them, beyond those that the law expects to be.
MIN_DEPARTURE, DEPARTURE_SHARE = 4.0, 0.1
# The lines were chosen to pass through as many as they can, coarse failures included:
# hence more than the usual three.
DEPARTURE_SIGMAS = 4.0

# Standard deviations of intrinsics: of the principal point in diagonals, of the focal
# length as a share of it. A principal point in the very middle was not measured but
# assumed. Published calibrations of a few cameras (of the TUM RGB-D, EuRoC, KITTI and
# Strecha sets) have it about 1 % of the diagonal from the middle; that a calibration is
# good to a tenth of that is a guess.
MEASURED, ASSUMED = 1e-3, 1e-2
MIDDLE_PX = 0.51  # so near to the middle, by either convention of pixels, is no chance
ONE_CAMERA = 0.01  # focal lengths that differ by less are of one, which errs once

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
    law: line_law.LineLaw
    score: float

    @classmethod
    def at(cls, geometry: G, matches: Matches, law: ErrorLaw) -> AcrossLines[G]:
        """The view of `matches`, whose errors follow `law`, from a geometry."""
        lines = geometry.lines(matches)
        diagonal = np.linalg.norm(matches.refined_size, axis=1)
        extent = np.broadcast_to(diagonal, (len(matches),))
        across = line_law.across(law, lines.normal, CAMERA_FLOOR * extent, extent)
        score = float(line_law.log_density(across, lines.distance).sum())
        return cls(geometry, matches, law, lines, across, score)

    def equations(self) -> tuple[Matrix, Vector]:
        d, J = self.lines.distance, self.lines.jacobian
        weighted = line_law.pull(self.law, d)[:, None] * J
        return J.T @ weighted, -weighted.T @ (d - self.law.shift)

    def moved(self, step: Vector) -> AcrossLines[G]:
        return AcrossLines.at(self.geometry.moved(step), self.matches, self.match_law)

    def settled(self, step: Vector) -> bool:
        return bool(np.abs(step).max() < STEP_TOLERANCE)

    def weight(self) -> PerMatch:
        """Posterior that both coarse cells were right."""
        return line_law.coarse_success(self.law, self.lines.distance)

    def information(self) -> Matrix:
        """k × k of what the matches tell of the parameters, by their law's variance.

        Σ ω JJᵀ / var. That of the next step has weights by the residuals, the largest
        on the few matches that the fit passes through.
        """
        J = self.lines.jacobian
        variance = 2.0 * (self.law.major**2 + self.law.minor**2)
        return J.T @ ((self.weight() / variance)[:, None] * J)

    def departs_from(self, predicted: Points) -> bool:
        """True where too many matches on their lines are not where `predicted` says.

        By weight, those beyond MIN_DEPARTURE fine scales are counted, less those that
        the law expects there: a coarse cell that is wrong along the line leaves its
        match on it. Their number varies, so that few matches need a larger excess.
        """
        distance = np.linalg.norm(self.matches.refined - predicted, axis=1)
        scale = np.linalg.norm(self.match_law.fine_scale, axis=1)
        along = self.lines.normal[:, ::-1] ** 2  # squares of the line's direction
        failed = (along * mixture.tail_prob(self.match_law)).sum(axis=1)
        weight = self.weight()
        beyond = ~(distance <= MIN_DEPARTURE * scale)
        spread = float(np.sqrt(weight**2 @ (failed * (1.0 - failed))))
        least = max(DEPARTURE_SHARE * weight.sum(), DEPARTURE_SIGMAS * spread)
        return bool(weight @ (beyond - failed) > least)

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
                line_law.scores(self.law, self.lines.distance),
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
