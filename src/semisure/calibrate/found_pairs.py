"""Pairs whose geometry is found from their own matches, if it can be trusted.

The geometry that judges a match must not have been fitted to it. The matches are dealt
into two halves, block by block of the image since neighbours err together, and either
half is judged by the geometry refitted to the other, with what that may be off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from semisure.calibrate.by_lines import Distances
from semisure.calibrate.scenes import MIN_MATCHES, ScenePair
from semisure.geometry import homography as plane
from semisure.law.error_laws import error_law
from semisure.pairs.estimation import refit_matches
from semisure.pairs.models import Cameras, Kind, lines_matrix, view_of_lines
from semisure.refit import refit_homography, without_bias
from semisure.refit.across_lines import CAMERA_FLOOR, AcrossLines
from semisure.refit.climbing import climb
from semisure.refit.core_plus import MODEL_FLOOR
from semisure.refit.initial import far_not_undefined
from semisure.types import (
    Calibration,
    FloatArray,
    Mask,
    Matches,
    PerMatch,
)

MIN_INLIERS = 0.3  # share of the matches that agree with the geometry
MIN_MOTION = 0.01  # of the diagonal: a pair that hardly moved is matched too easily
BLOCKS = 16  # along the diagonal, of which every second one is a half's

TOO_FEW = f"fewer than {MIN_MATCHES} matches"
UNRELATED = "the images seem unrelated"
FEW_AGREE = f"fewer than {MIN_INLIERS:.0%} of the matches agree with one geometry"
STILL = "the view hardly changed"
UNDETERMINED = "the matches do not determine the geometry"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FoundPair:
    """Raw matches and the model that they obey."""

    matches: Matches
    kind: Kind
    model: FloatArray
    cameras: Cameras | None = None

    def refitted(self, calibration: Calibration) -> FoundPair:
        """The model by another law, or the same where that finds none."""
        if self.kind == "homography":
            refit = refit_homography(self.matches, calibration, self.model)
            better = refit.model if refit.reason is None else None
            return self if better is None else replace(self, model=better)
        view = self._view(*without_bias(self.matches, calibration), self.model)
        geometry = climb(view)[0].geometry
        model = geometry.P_01 if self.kind == "essential" else geometry.matrix
        return replace(self, model=model)

    def scene_pair(self, calibration: Calibration) -> ScenePair:
        """What a pair's effects are found from; the truth of lines is unknown."""
        unknown = np.full((len(self.matches), 2), np.nan)
        if self.kind == "homography":
            unknown = plane.residual(self.model, self.matches)
        F = lines_matrix(self.kind, self.model, self.cameras)
        return ScenePair(matches=self.matches, residual=unknown, F_01=F)

    def halves(self, calibration: Calibration) -> list[tuple[Mask, Distances]]:
        """Each half and its distances by the other's geometry; [] if undetermined."""
        first = half_of(self.matches)
        judge = self._by_plane if self.kind == "homography" else self._by_lines
        answers = [(judged, judge(judged, calibration)) for judged in (first, ~first)]
        parts = [(judged, rows) for judged, rows in answers if rows is not None]
        return parts if len(parts) == len(answers) else []

    def _by_plane(self, judged: Mask, calibration: Calibration) -> Distances | None:
        others = self.matches.take(~judged)
        # A start of their own: a refit may keep its start, and this model has seen all.
        start = refit_homography(others, calibration, self.model, method="core")
        if start.model is None or start.reason is not None:
            return None
        H = refit_homography(others, calibration, start.model).model
        assert H is not None  # the start, at least
        matches = self.matches.take(judged)
        unbiased, _ = without_bias(matches, calibration)
        residual = far_not_undefined(plane.residual(H, unbiased))
        floor = MODEL_FLOOR * _diagonal(matches) / np.sqrt(2.0)  # two scales share it
        return Distances.of_axes(matches, residual, floor)

    def _by_lines(self, judged: Mask, calibration: Calibration) -> Distances | None:
        others = without_bias(self.matches.take(~judged), calibration)
        geometry = climb(self._view(*others, self.model))[0].geometry
        model = geometry.P_01 if self.kind == "essential" else geometry.matrix
        # The covariance is that of the parameters of the form that the model has.
        fitted = self._view(*others, model)
        C = fitted.covariance(calibration, field=False)
        if C is None:
            return None
        matches = self.matches.take(judged)
        lines = self._view(*without_bias(matches, calibration), model).lines
        J = lines.jacobian
        # As a scale: two Laplace variables of scale s have a variance of 4 s².
        off = 0.5 * np.sqrt(np.maximum(((J @ C) * J).sum(axis=1), 0.0))
        floor = np.hypot(CAMERA_FLOOR * _diagonal(matches), off)
        return Distances.across(matches, lines.distance, lines.normal, floor)

    def _view(
        self, matches: Matches, calibration: Calibration, model: FloatArray
    ) -> AcrossLines[Any]:
        """Matches that have no location any more, as seen from the model's lines."""
        law = error_law(matches, calibration)
        view = view_of_lines(self.kind, model, matches, law, self.cameras)
        assert view is not None
        return view


def _diagonal(matches: Matches) -> PerMatch:
    diagonal = np.linalg.norm(matches.refined_size, axis=1)
    return np.broadcast_to(diagonal, (len(matches),))


def half_of(matches: Matches) -> Mask:
    """The matches in every second block of image 0, as on a chessboard."""
    side = float(np.linalg.norm(matches.source_size)) / BLOCKS
    return np.asarray(np.floor(matches.source / side).sum(axis=1) % 2 == 0)


def find_pair(
    matches: Matches, calibration: Calibration, cameras: Cameras | None = None
) -> FoundPair | str:
    """The pair with its geometry, or why it cannot be trusted."""
    if len(matches) < MIN_MATCHES:
        return TOO_FEW
    K0, K1 = cameras or (None, None)
    result = refit_matches(matches, calibration, K0=K0, K1=K1)
    if not result.related:
        return UNRELATED
    if result.estimate.inliers.mean() < MIN_INLIERS:
        return FEW_AGREE
    if result.refit.model is None or result.refit.reason is not None:
        return UNDETERMINED
    moved = np.median(np.linalg.norm(matches.target - matches.source, axis=1))
    if moved < MIN_MOTION * np.linalg.norm(matches.source_size):
        return STILL
    return FoundPair(
        matches=matches,
        kind=result.kind,
        model=result.refit.model,
        cameras=result.cameras,
    )
