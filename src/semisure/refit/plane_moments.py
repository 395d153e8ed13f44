"""Sums over the matches of a plane, of which its covariance is made.

In a frame T of the refined image, a step H ← T⁻¹ (I + D) T H moves the prediction
(u, v) of a match by

    J = (ũᵀ 0 −u ũᵀ; 0 ũᵀ −v ũᵀ),   ũ = (u, v, 1),

times the nine entries of D, in units of the frame. For any symmetric 2 × 2 matrices S,
Σ JᵀSJ is therefore made of moments of their three numbers with 1, u, v, …, v⁴: one
product of two thin matrices. What a smooth field makes of the matches needs no more
than sums over squares of the image, so small that the field is the same all over them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import ceil, inf, isfinite, log2, sqrt
from typing import Protocol

import numpy as np
from numpy.typing import DTypeLike

from semisure.geometry.squares import grid_over
from semisure.refit.core_plus import equal_parts
from semisure.refit.model_error import SMOOTH_PX
from semisure.refit.plane_field import Direction
from semisure.types import (
    Columns,
    FloatArray,
    Index,
    IntArray,
    Labels,
    Matches,
    Matrix3,
    PerMatch,
)

SQUARE_PX = 32.0  # matches this close err together
FINENESS = 4  # squares, at least, over the root mean square distance of the matches
SOME = 1000  # matches that a field is fitted to, taken evenly
FAR_PX = 1e6  # sums cannot hold what is predicted farther off
DEGREE = 4
MONOMIALS = (DEGREE + 1) * (DEGREE + 2) // 2


class Scores(Protocol):
    """What a refit solved for, Σ Jᵀψ(r) = 0."""

    def scored(self, residual: Columns) -> tuple[Columns, Columns, Columns, FloatArray]:
        """Residuals r less their location, ψ/r and ψ, (2, n) each, and ψ′, (3, n)."""

    def weighed(self, residual: Columns) -> tuple[Columns, float]:
        """ψ/r alone, and the sum of ψ′ along both axes."""

    def take(self, index: Index) -> Scores:
        """Those of some matches."""


@dataclass(frozen=True, slots=True, eq=False)
class LeastSquares:
    """ψ = ω r, whatever the residual."""

    weight: PerMatch

    def scored(self, residual: Columns) -> tuple[Columns, Columns, Columns, FloatArray]:
        slopes = np.stack([self.weight, np.zeros_like(self.weight), self.weight])
        return residual, slopes[::2], self.weight * residual, slopes

    def weighed(self, residual: Columns) -> tuple[Columns, float]:
        both = np.broadcast_to(self.weight, residual.shape)
        return both, float(both.sum())

    def take(self, index: Index) -> LeastSquares:
        return LeastSquares(self.weight[index])


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A point p of an image becomes scale · (p − mean)."""

    scale: float
    mean: FloatArray  # (2, 1)

    @classmethod
    def of(cls, points: Columns, weight: PerMatch) -> Frame | None:
        """The weighted mean becomes 0 and the root mean square distance √2.

        None where nothing has weight or all points coincide.
        """
        total = float(weight.sum())
        if not total > 0:
            return None
        mean = (points @ weight) / total
        off = points - mean[:, None]
        off *= off
        rms = sqrt(sum((off @ weight).tolist()) / total)
        if not 1e-9 * (1.0 + max(map(abs, mean.tolist()))) < rms < inf:
            return None
        return cls(sqrt(2.0) / rms, mean[:, None])

    @property
    def matrix(self) -> Matrix3:
        """T."""
        x, y = (-self.scale * self.mean).ravel().tolist()
        return np.array([[self.scale, 0.0, x], [0.0, self.scale, y], [0.0, 0.0, 1.0]])


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The matches refined in one image."""

    direction: Direction
    anchors: Columns
    refined: Columns
    scores: Scores

    @classmethod
    def of(
        cls,
        direction: Direction,
        matches: Matches,
        scores: Scores,
        rows: Labels | None = None,
    ) -> Side:
        """Those of some `rows`, or all."""
        anchors, refined = matches.source.T, matches.target.T
        if not direction.forward:
            anchors, refined = refined, anchors
        every = cls(direction, anchors, refined, scores)
        return every if rows is None else every.take(rows)

    @property
    def count(self) -> int:
        """How many matches there are."""
        return self.anchors.shape[1]

    def take(self, rows: Index) -> Side:
        """Some of the matches."""
        return replace(
            self,
            anchors=self.anchors[:, rows],
            refined=self.refined[:, rows],
            scores=self.scores.take(rows),
        )

    def near(self) -> Side | None:
        """Without matches predicted far off; None where there are none of these."""
        off = np.abs(self.direction.predicted(self.anchors))
        near = (off < FAR_PX).all(axis=0)
        return None if near.all() else self.take(np.flatnonzero(near))

    def look(self) -> Look:
        """The matches under the model."""
        predicted = self.direction.predicted(self.anchors)
        r, weight, score, slope = self.scores.scored(self.refined - predicted)
        return Look(predicted, r, weight, weight[0] + weight[1], score, slope)


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """Matches under one model."""

    predicted: Columns
    residual: Columns
    weight: Columns  # ψ/r
    strength: PerMatch  # ψ/r of both axes together
    score: Columns  # ψ
    slope: FloatArray  # ψ′: xx, xy, yy

    def take(self, index: Index) -> Look:
        """Some of the matches."""
        return Look(
            self.predicted[:, index],
            self.residual[:, index],
            self.weight[:, index],
            self.strength[index],
            self.score[:, index],
            self.slope[:, index],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Some:
    """Matches of a side, taken evenly."""

    refined: Columns
    look: Look
    square: Labels
    scores: Scores


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """What is known of the matches of a side."""

    side: Side
    frame: Frame  # of the refined image
    side_px: float  # of squares
    squares: Columns  # their middles, px, those of one larger block after each other
    starts: IntArray  # of the larger blocks
    of_squares: FloatArray  # Σ ψ along x and y, Σ ψ/r of both, (3, squares)
    moments: FloatArray  # of ψ′ and of ψψᵀ, (2, 45)
    energy: float  # Σ ψ r
    some: Some

    def by_steps(self) -> FloatArray:
        """Σ Jᵀψ′J and Σ Jᵀψψᵀ J, (2, 9, 9)."""
        return (self.moments @ _of_moments()).reshape(2, 9, 9) / self.frame.scale**2


def sums_of(
    side: Side, dtype: DTypeLike, *, step: int = 1, slopes: bool = True
) -> Sums | None:
    """The sums of a side, None without weight; without `slopes`, ψ/r stands for ψ′.

    Every `step`-th match is among those that a field is fitted to.
    """
    taken = slice(None, None, step)
    sums = _sums_of(side, dtype, taken, slopes)
    if sums is not None and isfinite(sums.moments.sum()):
        return sums
    near = side.near()
    return sums if near is None else _sums_of(near, dtype, taken, slopes)


def _sums_of(side: Side, dtype: DTypeLike, taken: slice, slopes: bool) -> Sums | None:
    if side.count == 0:
        return None
    parts = equal_parts(side.count)
    if len(parts) == 1:
        first = side.look()
        some = first.take(taken)
    else:
        first = some = side.take(taken).look()
    frame = Frame.of(some.predicted, some.strength)
    if frame is None:
        frame = Frame.of(first.predicted, first.strength)
    if frame is None:
        return None
    side_px = _square_px(frame)
    grid = grid_over(side.refined, side_px, side.direction.refined_size)
    of_squares, moments = np.zeros((3, grid.count)), np.zeros((6, MONOMIALS))
    energy = 0.0
    for rows in parts:
        look = first if len(parts) == 1 else side.take(rows).look()
        (x, y), (along_x, along_y) = look.residual, look.score
        # Row by row: longer dot products would start threads.
        energy += float(x @ along_x) + float(y @ along_y)
        number = grid.number[rows]
        for total, row in zip(
            of_squares, (along_x, along_y, look.strength), strict=True
        ):
            total += np.bincount(number, row, grid.count)
        slope = look.slope if slopes else _flat(look.weight)
        powers = _monomials(look.predicted, frame, dtype)
        moments += _factors(look.score, slope, dtype) @ powers.T
    held = grid.held(of_squares[2], SMOOTH_PX)
    place = np.zeros(grid.count, np.int64)
    place[held.number] = np.arange(len(held.number))
    return Sums(
        side,
        frame,
        side_px,
        held.middles,
        held.starts(),
        of_squares.take(held.number, axis=1),
        moments.reshape(2, -1),
        energy,
        Some(
            side.refined[:, taken],
            some,
            place[grid.number[taken]],
            side.scores.take(taken),
        ),
    )


def _flat(weight: Columns) -> FloatArray:
    """Slopes of scores that are as steep everywhere."""
    return np.stack([weight[0], np.zeros_like(weight[0]), weight[1]])


def _square_px(frame: Frame) -> float:
    """Sides of squares that are small, seen from all matches."""
    spread = sqrt(2.0) / frame.scale
    halvings = max(0, ceil(log2(FINENESS * SQUARE_PX / spread)))
    return float(SQUARE_PX / 2.0**halvings)


def by_entry(off: Columns, scale: float, out: FloatArray) -> FloatArray:
    """J at points `off` a frame's mean, px, in `out` (9, 2, n), which is 0 before."""
    J = out.reshape(3, 3, 2, -1)
    J[0, :2, 0], J[0, 2, 0] = off, 1.0 / scale
    J[1, :, 1] = J[0, :, 0]
    np.multiply(J[0, :, :1], -scale * off, out=J[2])
    return out


def _factors(pull: Columns, slope: FloatArray, dtype: DTypeLike) -> FloatArray:
    """xx, xy, yy of ψ′ and then of ψψᵀ, (6, n)."""
    factors = np.empty((6, pull.shape[1]), dtype)
    factors[:3] = slope
    np.multiply(pull[0], pull, out=factors[3:5])
    np.multiply(pull[1], pull[1], out=factors[5])
    return factors


def _monomials(points: Columns, frame: Frame, dtype: DTypeLike) -> FloatArray:
    """1, u, v, u², uv, v², and so on of points in a frame, (15, n)."""
    powers = np.empty((MONOMIALS, points.shape[1]), dtype)
    powers[0], uv = 1.0, powers[1:3]
    np.subtract(points, frame.mean, out=uv, casting="same_kind")
    uv *= frame.scale
    u, v = uv
    first = 1
    for degree in range(2, DEGREE + 1):
        end = first + degree
        np.multiply(u, powers[first:end], out=powers[end : end + degree])
        np.multiply(v, powers[end - 1], out=powers[end + degree])
        first = end
    return powers


@lru_cache(maxsize=1)
def _of_moments() -> FloatArray:
    """What each moment is in Σ JᵀSJ, (45, 81): xx, xy, yy of S, each by monomials."""
    lifted = ((1, 0), (0, 1), (0, 0))  # exponents of ũ
    # J is B ⊗ ũᵀ with B = (1 0 −u; 0 1 −v): rows, columns, signs, exponents.
    B = ((0, 0, 1, (0, 0)), (0, 2, -1, (1, 0)), (1, 1, 1, (0, 0)), (1, 2, -1, (0, 1)))
    places = np.zeros((3, MONOMIALS, 3, 3, 3, 3))
    for (a, i, sign, p), (b, j, other, q) in product(B, B):
        for (k, r), (m, s) in product(enumerate(lifted), enumerate(lifted)):
            u, v = (sum(powers) for powers in zip(p, q, r, s, strict=True))
            degree = u + v
            places[a + b, degree * (degree + 1) // 2 + v, i, k, j, m] += sign * other
    return places.reshape(3 * MONOMIALS, 81)
