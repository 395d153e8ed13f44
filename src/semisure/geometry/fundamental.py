"""Fundamental matrices on their seven degrees of freedom.

F = T₁ᵀ U diag(cos φ, sin φ, 0) Vᵀ T₀ with rotations U and V and the frames T that bring
image coordinates to about ±1. Its tangent is seven numbers, four that move the epipoles
and three for the 2 × 2 block that maps lines to lines, across the block itself, whose
scale F does not have:

    U ← U exp([a₁, a₂, 0]ₓ),   V ← V exp([b₁, b₂, 0]ₓ)
    diag(cos φ, sin φ) ← diag(cos φ, sin φ) + c₁ diag(−sin φ, cos φ) + [0 c₂; c₃ 0]

so a step never leaves the matrices of rank 2. Bartoli and Sturm (2004) turn U and V
about their third axes in place of c₂ and c₃. At φ = 45°, so for every rectified stereo
pair, both turns are the same and a direction is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from semisure.errors import InputError
from semisure.geometry.epipolar import Lines, lines_of
from semisure.geometry.rotations import rotation, skew
from semisure.types import FloatArray, Matches, Matrix3, Vector
from semisure.types.checks import as_reals, in_line

MINIMAL_SAMPLE = 7
_ASIDE = np.zeros((2, 3, 3))  # the two entries beside the diagonal of the block
_ASIDE[0, 0, 1] = _ASIDE[1, 1, 0] = 1.0


def checked(values: ArrayLike, name: str = "initial") -> Matrix3:
    """`values` as a fundamental matrix of norm 1; otherwise an error about `name`.

    Its smallest singular value is set to 0, where libraries leave a rounding error.
    """
    F = as_reals(name, values)
    sound = F.shape == (3, 3) and bool(np.isfinite(F).all()) and bool(np.any(F))
    if not sound:
        raise InputError(
            f"{name} must be a finite 3 × 3 fundamental matrix with y F x = 0, y in "
            f"image 1, but is {in_line(F)}."
        )
    return of_rank_2(F / np.abs(F).max())


def of_rank_2(F: Matrix3) -> Matrix3:
    """The nearest matrix of rank 2, of norm 1, its largest entry positive."""
    U, values, Vt = np.linalg.svd(F)
    G = U @ np.diag([values[0], values[1], 0.0]) @ Vt
    G = G / np.linalg.norm(G)
    return G * np.sign(G.flat[np.abs(G).argmax()])


def frame(size: tuple[int, int]) -> Matrix3:
    """Image coordinates to about ±1: half the diagonal is the unit."""
    unit = 0.5 * float(np.hypot(*size))
    cx, cy = 0.5 * (size[0] - 1), 0.5 * (size[1] - 1)
    return np.array([[1 / unit, 0, -cx / unit], [0, 1 / unit, -cy / unit], [0, 0, 1]])


@dataclass(frozen=True, slots=True, eq=False)
class Seven:
    """A fundamental matrix as its seven-parameter form in the frames of two images."""

    U: Matrix3
    V: Matrix3
    angle: float
    T0: Matrix3
    T1: Matrix3

    @classmethod
    def of(
        cls, F: Matrix3, source_size: tuple[int, int], target_size: tuple[int, int]
    ) -> Seven:
        """The form of `F`, pixels of image 0 to lines of image 1."""
        return cls.between(frame(source_size), F, frame(target_size))

    @classmethod
    def between(cls, T0: Matrix3, F: Matrix3, T1: Matrix3) -> Seven:
        """The same between any two frames."""
        U, values, Vt = np.linalg.svd(np.linalg.inv(T1).T @ F @ np.linalg.inv(T0))
        # Null vectors, of either sign, are chosen such that U and V are rotations.
        U, V = (np.column_stack([a, b, np.cross(a, b)]) for a, b, _ in (U.T, Vt))
        return cls(U, V, float(np.arctan2(values[1], values[0])), T0, T1)

    @property
    def model(self) -> Matrix3:
        """F for pixels, of norm 1."""
        return of_rank_2(self.with_derivatives()[0])

    def with_derivatives(self) -> FloatArray:
        """F and its derivatives by the seven parameters, (8, 3, 3), at one scale."""
        S = np.diag([np.cos(self.angle), np.sin(self.angle), 0.0])
        slope = np.diag([-np.sin(self.angle), np.cos(self.angle), 0.0])
        axes = [skew(axis) for axis in np.eye(3)[:2]]
        inner = [S, *(W @ S for W in axes), *(S @ W.T for W in axes), slope, *_ASIDE]
        return self.T1.T @ (self.U @ np.stack(inner) @ self.V.T) @ self.T0

    def lines(self, matches: Matches) -> Lines:
        """Distances of refined points from the lines of their anchors."""
        return lines_of(self.with_derivatives(), matches)

    def moved(self, step: Vector) -> Seven:
        """The form after a step of seven."""
        cos, sin = np.cos(self.angle), np.sin(self.angle)
        c, block = step[4:], np.zeros((3, 3))
        block[:2, :2] = [[cos - c[0] * sin, c[1]], [c[2], sin + c[0] * cos]]
        U = self.U @ rotation(np.append(step[:2], 0.0))
        V = self.V @ rotation(np.append(step[2:4], 0.0))
        F = of_rank_2(self.T1.T @ U @ block @ V.T @ self.T0)
        return Seven.between(self.T0, F, self.T1)
