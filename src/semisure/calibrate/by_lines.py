"""The law of a matcher from pairs whose truth is unknown: what their lines can tell.

A match's error across its epipolar line is n·r, a sum of two errors of which each is
fine or coarse. Its density mixes four sums of two Laplace variables,

    p(d) = Σ_{i,j ∈ {f, c}} P_i(x) P_j(y) · Lap₂(d | |n_x| sⁱ_x, |n_y| sʲ_y)

with P_c = α, P_f = 1 − α and Lap₂ of :mod:`semisure.refit.line_law`. All eight numbers
enter it. A homography tells more: a residual along either axis is the distance from a
vertical and from a horizontal line, so that one objective holds for both kinds of pair.

The geometry is uncertain too. What it may be off, in px, is added to both scales in
quadrature. A location cannot be found this way: a shift that all matches share moves
the geometry with it.

Lines that all run one way say nothing of errors along them. There the axis that is seen
speaks for the other: a prior holds the difference between the axes near that of the law
the fit starts from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from semisure.law.mixture import STD_FLOOR_PX, expit
from semisure.law.newton import Minimum
from semisure.law.optimisers import OrderedBox
from semisure.law.parameters import (
    COARSE,
    DOUBT_SLOPE,
    FINE,
    INTERCEPT,
    SIZE,
    SPREAD_SLOPE,
    pack,
    unpack,
)
from semisure.refit.line_law import two_laplace_slopes
from semisure.types import (
    Calibration,
    FloatArray,
    Index,
    Matches,
    Matrix,
    PerAxis,
    PerMatch,
    Vector,
)

# Matches of one pair err together: no pair counts for more independent ones.
EFFECTIVE_MATCHES = 500
LEAST_DENSITY = 1e-12  # per px: a match that nothing explains
# Standard deviations of the prior: between the axes, as the shipped laws differ among
# each other, and of all else, wide enough to matter only where the matches are silent.
AXES_DEVIATION = {FINE.start: 0.4, COARSE.start: 0.4, INTERCEPT.start: 0.2}
WIDE_DEVIATION = np.array([3.0, 3.0, 3.0, 3.0, 0.3, 1.0, 3.0, 3.0])
_DECREMENT = 1e-8  # nats: a smaller gain is not looked for


@dataclass(frozen=True, slots=True, eq=False)
class Distances:
    """Signed distances of points from lines, with the points' cues."""

    distance: PerMatch  # px
    normal: PerAxis  # of length 1
    floor_px: PerMatch  # how far the line may be off, as a scale
    fine_std: PerAxis
    coarse_std: PerAxis
    spread: PerAxis
    doubt: PerMatch
    weight: PerMatch

    def __len__(self) -> int:
        return len(self.distance)

    @classmethod
    def across(
        cls, matches: Matches, distance: PerMatch, normal: PerAxis, floor_px: PerMatch
    ) -> Distances:
        """From epipolar lines; the matches of a pair count as EFFECTIVE_MATCHES."""
        n = len(matches)
        return cls(
            distance,
            normal,
            floor_px,
            matches.fine_std,
            matches.coarse_std,
            matches.spread,
            matches.doubt,
            np.full(n, min(n, EFFECTIVE_MATCHES) / max(n, 1)),
        )

    @classmethod
    def of_axes(
        cls, matches: Matches, residual: PerAxis, floor_px: PerMatch
    ) -> Distances:
        """From residuals (n, 2): two lines for each match, 2n rows."""
        sides = [
            cls.across(matches, r, np.tile(axis, (len(matches), 1)), floor_px)
            for r, axis in zip(residual.T, np.eye(2), strict=True)
        ]
        return joined(sides)

    def take(self, index: Index) -> Distances:
        """The rows that `index` picks."""
        return Distances(*(getattr(self, f.name)[index] for f in fields(self)))

    def weighing(self, total: float) -> Distances:
        """The same rows, their weights scaled to a sum of `total`."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        values["weight"] = self.weight * (total / self.weight.sum())
        return Distances(**values)


def joined(parts: Sequence[Distances]) -> Distances:
    """All rows of several."""
    names = [f.name for f in fields(Distances)]
    return Distances(*(np.concatenate([getattr(p, k) for p in parts]) for k in names))


@dataclass(frozen=True, slots=True, eq=False)
class LineLikelihood:
    """Mean NLL of distances and the prior, by the eight parameters."""

    rows: Distances
    start: Vector  # the prior's centre

    def __call__(self, parameters: Vector) -> tuple[float, Vector, Matrix]:
        """Value, gradient, and the scores' second moment for the Hessian (BHHH)."""
        log_density, scores = self.scores(parameters)
        share = self.rows.weight / self.rows.weight.sum()
        precision = prior_precision() / self.rows.weight.sum()
        off = parameters - self.start
        value = -float(share @ log_density) + 0.5 * float(off @ precision @ off)
        gradient = -(share @ scores) + precision @ off
        return value, gradient, (scores * share[:, None]).T @ scores + precision

    def nll(self, parameters: Vector) -> float:
        """Mean NLL of a distance, nats, without the prior."""
        weight = self.rows.weight
        return -float(weight @ self.scores(parameters)[0] / weight.sum())

    def scores(self, parameters: Vector) -> tuple[PerMatch, FloatArray]:
        """log p of each row, (n,), and its derivatives, (n, 8)."""
        rows = self.rows
        scale, held = _scales(rows, parameters)  # (2 components, n, 2)
        tail = tail_chance(rows, parameters)
        chance = np.stack([1.0 - tail, tail])
        density: PerMatch = np.full(len(rows), LEAST_DENSITY)
        by_scale, by_part = np.zeros_like(scale), np.zeros_like(scale)
        for i in (0, 1):
            for j in (0, 1):
                x, y = scale[i, :, 0], scale[j, :, 1]
                p, by_x, by_y = two_laplace_slopes(rows.distance, x, y)
                p = p * chance[i, :, 0] * chance[j, :, 1]
                density = density + p
                by_scale[i, :, 0] += p * by_x
                by_scale[j, :, 1] += p * by_y
                by_part[i, :, 0] += p
                by_part[j, :, 1] += p
        # Gains are of variances, so that their logarithms move scales by halves; and
        # what the geometry is off does not move with them.
        by_gain = 0.5 * held * by_scale / density[:, None]
        by_logit = by_part[1] / density[:, None] - tail
        scores = np.empty((len(rows), SIZE))
        scores[:, FINE], scores[:, COARSE] = by_gain[0], by_gain[1]
        scores[:, SPREAD_SLOPE] = (by_logit * rows.spread).sum(axis=1)
        scores[:, DOUBT_SLOPE] = by_logit.sum(axis=1) * rows.doubt
        scores[:, INTERCEPT] = by_logit
        return np.log(density), scores


def _scales(rows: Distances, parameters: Vector) -> tuple[FloatArray, FloatArray]:
    """Scales across the lines, (2, n, 2): fine and coarse, by axis.

    Also the share of each square that is the match's, not the geometry's.
    """
    std = np.maximum(np.stack([rows.fine_std, rows.coarse_std]), STD_FLOOR_PX)
    gain = np.stack([parameters[FINE], parameters[COARSE]])[:, None]
    own = np.abs(rows.normal) * std * np.exp(0.5 * gain)
    scale = np.maximum(np.hypot(own, rows.floor_px[:, None]), 1e-12)
    return scale, (own / scale) ** 2


def tail_chance(rows: Distances, parameters: Vector) -> PerAxis:
    """α of each row, by axis."""
    logit = parameters[SPREAD_SLOPE] * rows.spread + parameters[INTERCEPT]
    return expit(logit + parameters[DOUBT_SLOPE] * rows.doubt[:, None])


def prior_precision() -> Matrix:
    """Of the eight parameters: near the start, and their axes as far apart as there."""
    precision = np.diag(1.0 / WIDE_DEVIATION**2)
    for place, deviation in AXES_DEVIATION.items():
        apart = np.zeros(SIZE)
        apart[[place, place + 1]] = 1.0, -1.0
        precision += np.outer(apart, apart) / deviation**2
    return precision


def fit_lines(rows: Distances, start: Calibration) -> tuple[Calibration, Minimum]:
    """The law that makes the distances most likely, beginning at `start`.

    Location, shared error and all that the eight numbers do not hold are `start`'s.
    """
    box, first = OrderedBox.around(rows.fine_std, rows.coarse_std), pack(start)
    best = box.minimise(LineLikelihood(rows, first), first, decrement=_DECREMENT)
    eight = unpack(box.outer(best.x))
    law = replace(
        start,
        fine_var_gain=eight.fine_var_gain,
        coarse_var_gain=eight.coarse_var_gain,
        spread_slope=eight.spread_slope,
        doubt_slope=eight.doubt_slope,
        intercept=eight.intercept,
    )
    return law, best
