"""Sums over the matches of a plane, of which its covariance is made.

In a frame T of the refined image, a step H ← T⁻¹ (I + D) T H moves the prediction
(u, v) of a match by

    J = (ũᵀ 0 −u ũᵀ; 0 ũᵀ −v ũᵀ),   ũ = (u, v, 1),

times the nine entries of D. Σ JᵀSJ, for any symmetric 2 × 2 matrices S, is therefore
made of moments of six numbers a match with the products of ũ: one product of two thin
matrices. What a smooth field makes of the matches needs no more than sums of S over
squares of the image, so small that the field is the same all over them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import DTypeLike

from semisure.geometry.squares import Grid, grid_over
from semisure.refit.core_plus import equal_parts
from semisure.refit.plane_field import Direction
from semisure.types import (
    Columns,
    FloatArray,
    Index,
    Labels,
    Matches,
    Matrix,
    Matrix3,
    PerMatch,
)

SQUARE_PX = 32.0  # matches this close err together
FINENESS = 4  # squares, at least, over the root mean square distance of the matches
SOME = 1000  # matches that a field is fitted to, taken evenly
# Places of the moments of xx, xy, xc, yy, yc, cc (c: the third row of a step) with
# 1, u, v, u², uv, v² in Σ JᵀSJ, 9 × 9.
_FACTORS = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])
_PRODUCTS = np.array([[3, 4, 1], [4, 5, 2], [1, 2, 0]])
_PLACES = 6 * np.kron(_FACTORS, np.ones((3, 3), int)) + np.tile(_PRODUCTS, (3, 3))


class Scores(Protocol):
    """What a refit solved for, Σ Jᵀψ(r) = 0."""

    def scored(self, residual: Columns) -> tuple[Columns, Columns, FloatArray]:
        """Residuals r less their location, ψ/r, (2, n) each, and ψ′, (3, n)."""

    def take(self, index: Index) -> Scores:
        """Those of some matches."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """A point p of an image becomes scale · p + shift."""

    scale: float
    shift: FloatArray  # (2, 1)

    @classmethod
    def of(cls, points: Columns, weight: PerMatch) -> Frame | None:
        """The weighted mean becomes 0 and the root mean square distance √2.

        None where nothing has weight or all points coincide.
        """
        total = float(weight.sum())
        if not total > 0:
            return None
        mean = (points @ weight / total)[:, None]
        off = points - mean
        off *= off
        rms = float(np.sqrt((off @ weight).sum() / total))
        if not rms > 1e-9 * (1.0 + float(np.abs(mean).max())):
            return None
        scale = float(np.sqrt(2.0)) / rms
        return cls(scale, -scale * mean)

    def __call__(self, points: Columns) -> Columns:
        moved = points * self.scale
        moved += self.shift
        return moved

    @property
    def matrix(self) -> Matrix3:
        """T."""
        (x,), (y,) = self.shift
        return np.array([[self.scale, 0.0, x], [0.0, self.scale, y], [0.0, 0.0, 1.0]])


@dataclass(frozen=True, slots=True, eq=False)
class Some:
    """Matches of a side, taken evenly."""

    refined: Columns
    residual: Columns
    weight: Columns  # ψ/r
    square: Labels
    scores: Scores

    def places(self, squares: Columns) -> Columns:
        """Where the matches of each square are: their mean, by weight."""
        count = squares.shape[1]
        weight = self.weight[0] + self.weight[1]
        weight += 1e-6 * weight.max()
        total = np.bincount(self.square, weight, count)
        sums = [np.bincount(self.square, weight * row, count) for row in self.refined]
        return np.where(total > 0, np.array(sums) / total, squares)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """The matches refined in one image."""

    direction: Direction
    anchors: Columns
    refined: Columns
    scores: Scores

    @classmethod
    def of(
        cls, H_01: Matrix3, matches: Matches, scores: Scores, *, forward: bool
    ) -> Side | None:
        """None where the model has no inverse."""
        direction = Direction.of(H_01, matches, forward=forward)
        if direction is None:
            return None
        anchors, refined = matches.source.T, matches.target.T
        if not forward:
            anchors, refined = refined, anchors
        here = matches.side == forward
        if not here.all():
            rows = np.flatnonzero(here)
            anchors, refined = anchors[:, rows], refined[:, rows]
            scores = scores.take(rows)
        return cls(direction, anchors, refined, scores)

    @property
    def count(self) -> int:
        """How many matches there are."""
        return self.anchors.shape[1]

    def look(self, rows: Index) -> Look:
        """Some matches that have a residual, and their scores."""
        predicted = self.direction.predicted(self.anchors[:, rows])
        residual = self.refined[:, rows] - predicted
        scores = self.scores.take(rows)
        if not np.isfinite(residual.sum()):
            good = np.flatnonzero(np.isfinite(residual).all(axis=0))
            predicted, residual = predicted[:, good], residual[:, good]
            rows, scores = np.arange(self.count)[rows][good], scores.take(good)
        r, weight, slope = scores.scored(residual)
        return Look(rows, predicted, r, weight, slope)


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """Matches under one model."""

    rows: Index
    predicted: Columns
    residual: Columns
    weight: Columns  # ψ/r
    slope: FloatArray  # ψ′: xx, xy, yy

    def every(self, step: int, side: Side, grid: Grid, held: Labels) -> Some:
        """Every so-manieth of them, in squares by their place among those `held`."""
        taken = slice(None, None, step)
        place = np.zeros(grid.middles.shape[1], np.int64)
        place[held] = np.arange(len(held))
        return Some(
            side.refined[:, self.rows][:, taken],
            self.residual[:, taken],
            self.weight[:, taken],
            place[grid.number[self.rows][taken]],
            side.scores.take(self.rows).take(taken),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """What is known of the matches of a side."""

    side: Side
    frame: Frame  # of the refined image
    squares: Columns  # middles of squares, px
    of_squares: FloatArray  # Σ ψ along x and y, Σ ψ′: xx, xy, yy, (5, squares)
    moments: FloatArray  # of ψ′ and of ψψᵀ, (12, 6)
    weight: float  # Σ ψ/r
    energy: float  # Σ ψ r
    some: Some


def sums_of(side: Side, dtype: DTypeLike, *, slopes: bool = True) -> Sums | None:
    """The sums of a side, None without weight; without `slopes`, ψ/r stands for ψ′."""
    parts = equal_parts(side.count)
    # The first look says where the matches are: at all of them, or at some.
    step = -(-side.count // SOME)
    first = side.look(parts[0] if len(parts) == 1 else slice(None, None, step))
    frame = Frame.of(first.predicted, first.weight[0] + first.weight[1])
    if frame is None:
        return None
    grid = grid_over(side.refined, square_px(frame), side.direction.refined_size)
    count = grid.middles.shape[1]
    of_squares, moments = np.zeros((5, count)), np.zeros((12, 6))
    weight = energy = 0.0
    for rows in parts:
        look = first if len(parts) == 1 else side.look(rows)
        slope = look.slope if slopes else _flat(look.weight)
        pull = look.weight * look.residual
        weight += float(look.weight.sum())
        energy += float(np.vdot(pull, look.residual))
        number = grid.number[look.rows]
        for total, row in zip(of_squares, (*pull, *slope), strict=True):
            total += np.bincount(number, row, count)
        lifted = _lifted(frame(look.predicted), dtype)
        moments += _factors(lifted, pull, slope) @ _products(lifted).T
    held = np.flatnonzero(of_squares[2] + of_squares[4])
    return Sums(
        side,
        frame,
        grid.middles[:, held],
        of_squares[:, held],
        moments,
        weight,
        energy,
        first.every(step if len(parts) == 1 else 1, side, grid, held),
    )


def _flat(weight: Columns) -> FloatArray:
    """Slopes of scores that are as steep everywhere."""
    return np.stack([weight[0], np.zeros_like(weight[0]), weight[1]])


def square_px(frame: Frame) -> float:
    """Sides of squares that are small, seen from all matches."""
    spread = float(np.sqrt(2.0)) / frame.scale
    halvings = max(0.0, np.ceil(np.log2(FINENESS * SQUARE_PX / spread)))
    return float(SQUARE_PX / 2.0**halvings)


def by_entry(uv: Columns) -> FloatArray:
    """J at points of the frame, (9, 2, n)."""
    lifted = _lifted(uv, uv.dtype)
    J = np.zeros((3, 3, 2, uv.shape[1]))
    J[0, :, 0] = J[1, :, 1] = lifted
    np.multiply(lifted[:, None], -uv, out=J[2])
    return J.reshape(9, 2, -1)


def _lifted(uv: Columns, dtype: DTypeLike) -> FloatArray:
    """ũ, (3, n)."""
    lifted = np.ones((3, uv.shape[1]), dtype)
    lifted[:2] = uv
    return lifted


def _third(lifted: FloatArray, x: FloatArray, y: FloatArray, out: FloatArray) -> None:
    """−(u x + v y), the part of a step's last row."""
    np.multiply(lifted[0], x, out=out)
    out += lifted[1] * y
    np.negative(out, out=out)


def _factors(lifted: FloatArray, pull: Columns, slope: FloatArray) -> FloatArray:
    """xx, xy, xc, yy, yc, cc of ψ′ and then of ψψᵀ, (12, n)."""
    factors = np.empty((12, lifted.shape[1]), lifted.dtype)
    factors[:2], factors[3] = slope[:2], slope[2]
    _third(lifted, slope[0], slope[1], factors[2])
    _third(lifted, slope[1], slope[2], factors[4])
    _third(lifted, factors[2], factors[4], factors[5])
    three = np.empty_like(lifted)
    three[:2] = pull
    _third(lifted, pull[0], pull[1], three[2])
    np.multiply(three[0], three, out=factors[6:9])
    np.multiply(three[1], three[1:], out=factors[9:11])
    np.multiply(three[2], three[2], out=factors[11])
    return factors


def _products(lifted: FloatArray) -> FloatArray:
    """1, u, v, u², uv, v², (6, n)."""
    products = np.empty((6, lifted.shape[1]), lifted.dtype)
    products[0], products[1:3] = 1.0, lifted[:2]
    np.multiply(lifted[0], lifted[:2], out=products[3:5])
    np.multiply(lifted[1], lifted[1], out=products[5])
    return products


def by_steps(moments: FloatArray, scale: float) -> Matrix:
    """Σ JᵀSJ, 9 × 9, of its moments (6, 6) in a frame of that scale."""
    return moments.ravel()[_PLACES] / scale**2
