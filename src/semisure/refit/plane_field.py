"""The matches of a plane in the direction in which they err, and the field over them.

A match's anchor, the point that was not refined, is mapped by H or by its inverse into
the image of the refined one. There its error is, and there the smooth field of
:mod:`semisure.refit.model_error` is felt: cosines over image 0, and lenses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure.refit.model_error import APART, cosines, radial
from semisure.types import (
    Columns,
    FloatArray,
    Mask,
    Matches,
    Matrix3,
    PerMatch,
    Vector,
)


@dataclass(frozen=True, slots=True, eq=False)
class Direction:
    """From the anchors' image to the refined one."""

    model: Matrix3
    back: Matrix3
    anchor_size: FloatArray
    refined_size: FloatArray
    forward: bool  # image 1 was refined

    @classmethod
    def of(cls, H_01: Matrix3, matches: Matches, *, forward: bool) -> Direction | None:
        """None where the model has no inverse."""
        try:
            H_10 = np.linalg.inv(H_01)
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(H_10).all():
            return None
        sizes = np.array([matches.source_size, matches.target_size], dtype=np.float64)
        if forward:
            return cls(H_01, H_10, sizes[0], sizes[1], True)
        return cls(H_10, H_01, sizes[1], sizes[0], False)

    def predicted(self, anchors: Columns) -> Columns:
        """Where the model puts anchors, px."""
        mapped = _mapped(self.model, anchors)
        return mapped[:2] / mapped[2]

    def places(self, refined: Columns) -> Places:
        """Places of the refined image, and their anchors."""
        mapped = _mapped(self.back, refined)
        anchor = mapped[:2] / mapped[2]
        depth = self.model[2, :2] @ anchor
        depth += self.model[2, 2]
        return Places(self, anchor, refined, depth)


def _mapped(model: Matrix3, points: Columns) -> FloatArray:
    """Homogeneous coordinates of the images of points, (3, n)."""
    mapped = model[:, :2] @ points
    mapped += model[:, 2:]
    return mapped


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Anchors that the model puts at some places, and their depths there."""

    direction: Direction
    anchor: Columns
    refined: Columns
    depth: PerMatch

    def in_view(self) -> Mask:
        """Which anchors lie in their image, or not farther from it than half of it."""
        off = self.anchor * (2.0 / self.direction.anchor_size)[:, None]
        off -= 1.0
        return np.asarray((np.abs(off) < 2.0).all(axis=0))

    def local_change(self) -> FloatArray:
        """A − I of the local map A onto the refined side, (2, 2, n)."""
        M = self.direction.model
        A = M[:2, :2, None] - M[2, :2, None] * self.refined[:, None]
        A /= self.depth
        A[0, 0] -= 1.0
        A[1, 1] -= 1.0
        return np.asarray(A)

    def view_change(self) -> PerMatch:
        """‖A − I‖."""
        A = self.local_change()
        A *= A
        return np.sqrt(A.sum(axis=(0, 1)))

    def cosines(self) -> FloatArray:
        """Cosines over image 0 as large as usual, (8, n), each for either axis."""
        direction = self.direction
        if direction.forward:
            return cosines(self.anchor.T, direction.anchor_size)
        return cosines(self.refined.T, direction.refined_size)

    def lenses(self) -> FloatArray:
        """What a lens does by which the images differ, and one that both have."""
        direction = self.direction
        off = radial(self.anchor.T, direction.anchor_size)
        # ∂Π/∂x times the distortion: what the anchor's lens does on the other side.
        moved = direction.model[:, :2] @ off
        moved[:2] -= self.refined * moved[2]
        both = np.empty((2, *off.shape))
        first = 0 if direction.forward else 1
        np.divide(moved[:2], self.depth, out=both[first])
        both[1 - first] = radial(self.refined.T, direction.refined_size)
        return np.stack([APART * (both[0] + both[1]), both[1] - both[0]])


def least_of_field(least_px: float, count: int) -> Vector:
    """The least size of each of the field's functions, px.

    Either image may have a lens of its own of `least_px`: c₀ l₀ + c₁ l₁ is half of
    (c₀ + c₁) times l₀ + l₁, and half of (c₁ − c₀) times l₁ − l₀.
    """
    least = np.full(count, least_px)
    least[-2:] *= np.sqrt(0.5) / np.array([APART, 1.0])
    return least


def in_target(matches: Matches) -> bool:
    """True where most matches were refined in image 1."""
    return 2 * np.count_nonzero(matches.side) >= len(matches)
