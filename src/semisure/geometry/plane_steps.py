"""Gauss–Newton steps of a homography, for matches that come in blocks.

A homography is sought in frames in which the points of either image have the mean 0
and the root mean square distance √2, or nearly; they are normalised once, not in each
step. There it is a 3 × 3 matrix G of norm 1, and a step is a matrix D: G ← (I + D) G.
It moves the prediction (u, v) of a match whose refined point lies in image 1 by

    (ũᵀ 0 −u ũᵀ; 0 ũᵀ −v ũᵀ) times the nine entries of D,   ũ = (u, v, 1),

so that the 9 × 9 normal matrix is made of moments Σ factor · ũũᵀ, a product of two thin
matrices. D = I moves nothing. A match refined in image 0 is predicted by B = G⁻¹, and
the step −B D G of B is the step D of G.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import numpy as np

from semisure.geometry import homography as plane
from semisure.types import (
    Columns,
    FloatArray,
    Matches,
    Matrix3,
    Points,
)

PIECE = 5000  # columns of thin matrices that are multiplied at once
Keep = Callable[[FloatArray], FloatArray]  # where to put arrays that stay
Equations: TypeAlias = Annotated[FloatArray, "9 10"]  # [Σ JᵀWJ | Σ JᵀWr]


@dataclass(frozen=True, slots=True, eq=False)
class Frames:
    """The maps T₀ and T₁ from pixels into the frames of the two images."""

    T0: Matrix3
    T1: Matrix3
    back0: Matrix3  # T₀⁻¹

    @classmethod
    def of(cls, matches: Matches) -> Frames:
        T0, T1 = frame(matches.source), frame(matches.target)
        return cls(T0, T1, np.linalg.inv(T0))

    def enter(self, H_01: Matrix3) -> Matrix3:
        """G = T₁ H T₀⁻¹, of norm 1."""
        return _of_norm_1(self.T1 @ H_01 @ self.back0)

    def leave(self, G: Matrix3) -> Matrix3:
        """H_01 of `G`."""
        return plane.normalised(np.linalg.solve(self.T1, G @ self.T0))


def frame(points: Points) -> Matrix3:
    """Hartley's frame: the mean becomes 0 and the root mean square distance √2.

    Of a thousand points or so, taken evenly: it need not be exact. Points that coincide
    keep their distances, 0.
    """
    if len(points) == 0:
        return np.eye(3)
    points = points[:: 1 + len(points) // 1000]
    center = points.mean(axis=0)
    off = points - center
    rms = float(np.sqrt(np.einsum("nd,nd->", off, off) / len(points)))
    apart = rms > 1e-12 * (1.0 + float(np.abs(center).max()))
    scale = float(np.sqrt(2.0)) / rms if apart else 1.0
    x, y = -scale * center
    return np.array([[scale, 0.0, x], [0.0, scale, y], [0.0, 0.0, 1.0]])


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """Matches under one homography."""

    residual: Columns  # px, refined point minus prediction
    predicted: Columns  # in the frame, a part of `products`
    products: FloatArray  # (6, n): room for u², uv, v², then u, v, 1

    def hide_horizon(self) -> None:
        """Set predictions on the horizon to 0; their residuals stay undefined."""
        self.predicted[:, ~np.isfinite(self.residual).all(axis=0)] = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Directed:
    """A block of matches in the direction in which they err, in the frames."""

    lifted: FloatArray  # (3, n): x, y, 1 of the points that were not refined
    refined: Columns
    px: float  # pixels of the refined image per unit of its frame

    @classmethod
    def of(cls, matches: Matches, frames: Frames, keep: Keep = np.asarray) -> Directed:
        """`matches` must share their refined side."""
        points = (matches.source, frames.T0), (matches.target, frames.T1)
        back = len(matches) > 0 and matches.side[0] == 0
        (anchor, T), (refined, T_refined) = reversed(points) if back else points
        lifted = np.ones((3, len(matches)))
        np.multiply(anchor.T, T[0, 0], out=lifted[:2])
        lifted[:2] += T[:2, 2:]
        scale = float(T_refined[0, 0])
        goal = scale * refined.T + T_refined[:2, 2:]
        return cls(keep(lifted), keep(goal), 1.0 / scale)

    def look(self, G: Matrix3) -> Look:
        """Where `G`, from the anchors' image to the refined one, puts the points.

        Undefined on the horizon, whose division by 0 the caller silences.
        """
        mapped = G @ self.lifted
        products = np.empty((6, mapped.shape[1]))
        predicted, products[5] = products[3:5], 1.0
        np.divide(mapped[:2], mapped[2], out=predicted)
        residual = self.refined - predicted
        residual *= self.px
        return Look(residual, predicted, products)

    def equations(self, look: Look, residual: Columns, weight: Columns) -> Equations:
        """[Σ JᵀWJ | Σ JᵀWr] of residuals in px and their weights, both (2, n).

        On the horizon a weight must be 0.
        """
        at, products = look.predicted, look.products
        np.multiply(at[0], at, out=products[:2])
        np.multiply(at[1], at[1], out=products[2])
        factors = np.empty((8, weight.shape[1]))
        factors[:2] = weight
        np.multiply(factors[:2], at, out=factors[2:4])
        np.multiply(factors[:2], residual, out=factors[5:7])
        for source, goal in ((factors[2:4], factors[4]), (factors[5:7], factors[7])):
            along = source * at
            np.add(along[0], along[1], out=goal)
        moments = _product(factors, products)
        return moments.ravel()[_PLACES] * (_SIGNS * self.px**_POWERS)

    def pull(self, look: Look, residual: Columns, weight: Columns) -> FloatArray:
        """The last column of the equations alone, (9,)."""
        at, factors = look.predicted, np.empty((3, weight.shape[1]))
        np.multiply(weight, residual, out=factors[:2])
        along = factors[:2] * at
        np.add(along[0], along[1], out=factors[2])
        np.negative(factors[2], out=factors[2])
        return _product(factors, look.products[3:]).ravel() * self.px


def _product(factors: FloatArray, products: FloatArray) -> FloatArray:
    """factors · productsᵀ, in pieces too small for BLAS to start threads on."""
    total = factors[:, :PIECE] @ products[:, :PIECE].T
    for begin in range(PIECE, factors.shape[1], PIECE):
        piece = slice(begin, begin + PIECE)
        total += factors[:, piece] @ products[:, piece].T
    return np.asarray(total)


def _layout() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Where each entry of the equations stands among the moments, and its sign."""
    outer = np.array([[0, 1, 3], [1, 2, 4], [3, 4, 5]])  # ũũᵀ among the products
    # Of the nine 3 × 3 blocks: which of w_x, w_y, w_x u, w_y v, w_x u² + w_y v².
    factor = np.array([[0, 0, 2], [0, 1, 3], [2, 3, 4]])
    sign = np.array([[1.0, 0.0, -1.0], [0.0, 1.0, -1.0], [-1.0, -1.0, 1.0]])
    ones = np.ones((3, 3), dtype=np.int64)
    places = np.kron(6 * factor, ones) + np.tile(outer, (3, 3))
    pull = (6 * np.array([[5], [6], [7]]) + [3, 4, 5]).reshape(9, 1)
    signs = np.hstack([np.kron(sign, ones), np.repeat([1.0, 1.0, -1.0], 3)[:, None]])
    # Derivatives are in units of the frame, residuals and weights in pixels.
    powers = np.hstack([np.full((9, 9), 2.0), np.ones((9, 1))])
    return np.hstack([places, pull]), signs, powers


_PLACES, _SIGNS, _POWERS = _layout()


def carried_over(equations: Equations, G: Matrix3, B: Matrix3) -> Equations:
    """Equations of a step of B = G⁻¹ as equations of a step of G."""
    K = -np.kron(B, G.T)  # −B D G, entries in rows
    by_entry = K.T @ equations
    return np.hstack([by_entry[:, :9] @ K, by_entry[:, 9:]])


@dataclass(frozen=True, slots=True, eq=False)
class Curvature:
    """Σ JᵀWJ in the eight directions that it determines; the ninth is the scale.

    A step has no part along I, by which a homography only changes its scale.
    """

    across: FloatArray  # (9, 8)
    values: FloatArray

    @classmethod
    def of(cls, normal: FloatArray) -> Curvature | None:
        """None where eight directions are not determined."""
        values, vectors = np.linalg.eigh(normal)
        if not values[1] > plane.RANK_TOLERANCE**2 * values[-1]:
            return None
        return cls(vectors[:, 1:], values[1:])

    def stepped(self, G: Matrix3, pull: FloatArray) -> Matrix3:
        """`G` after the step towards which Σ JᵀWr (9,) pulls."""
        step = self.across @ ((pull @ self.across) / self.values)
        return _of_norm_1(G + step.reshape(3, 3) @ G)


def stepped(G: Matrix3, equations: Equations) -> Matrix3 | None:
    """`G` after the step that solves the equations; None if they determine none."""
    if not np.isfinite(equations).all():
        return None
    curvature = Curvature.of(equations[:, :9])
    return None if curvature is None else curvature.stepped(G, equations[:, 9])


def _of_norm_1(G: Matrix3) -> Matrix3:
    entries = G.ravel()
    return np.asarray(G / np.sqrt(entries @ entries))


def backward(G: Matrix3) -> Matrix3 | None:
    """G⁻¹ at its own scale, or None."""
    try:
        B = np.linalg.inv(G)
    except np.linalg.LinAlgError:
        return None
    return B if np.isfinite(B).all() else None
